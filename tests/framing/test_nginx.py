"""The cases of framing through a real nginx, with the configuration of docs/http.md.

What nginx refuses never arrives; what it hands on must not be taken for more requests than it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.docs.test_nginx import loopback, nginx_block
from tests.framing.cases import BUFFERING, CASES, UPGRADED, Case
from tests.framing.raw_connection import RawConnection
from tests.framing.servers import serving
from tests.framing.test_cases import HALF_CLOSED, check_half_closed, check_parts, exchange, state
from tests.support.http import free_port
from tests.support.nginx import Nginx, needs_nginx

pytestmark = needs_nginx


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_port()
    with (
        serving() as server,
        Nginx(tmp_path_factory.mktemp("nginx"), loopback(nginx_block(), port, server.port), port),
    ):
        yield port


@pytest.mark.attack("H4", "M3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_request_gets_its_responses_through_nginx(port: int, case: Case) -> None:
    expected = case.responses if case.nginx is None else case.nginx
    after = case.nginx_after or case.after
    if after != case.after:
        case = replace(case, early=0)  # nginx answers when it has the whole request
    with RawConnection("127.0.0.1", port) as connection:
        assert exchange(connection, case, len(expected)) == list(expected)
        if after not in (UPGRADED, BUFFERING):
            assert state(connection) == after


@pytest.mark.parametrize("sent", HALF_CLOSED)
def test_a_client_of_nginx_that_closes_its_sending_side_is_never_answered_wrongly(port: int, sent: str) -> None:
    check_half_closed("127.0.0.1", port, sent)


def test_a_request_may_arrive_at_nginx_in_any_parts(port: int) -> None:
    check_parts("127.0.0.1", port)
