"""The life of a client's connection: opened in one task, closed in another, one typed error when it fails."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail import Client
from dovetail.client import negotiation
from dovetail.client.negotiator import ConnectOptions
from dovetail.client.session import ClientSession
from dovetail.client.supervisor import Supervisor
from dovetail.client.targets.resolve import resolve_target
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, RemoteError, Timeout
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.capabilities import ClientCapabilities, Implementation
from tests.support.clock import Clock
from tests.support.peer import nothing_left
from tests.support.scripted import SILENCE, Error, Restartable, Scripted, discovery, dying, legacy, modern, welcome
from tests.support.waiting import until


def link(target: Any, revision: Revision | None = None, timeout: float | None = 30) -> Supervisor:
    if isinstance(target, Scripted):
        target = resolve_target(target, None, None)

    def session(on_lost: Any) -> ClientSession:
        return ClientSession(Client("nobody"), Extensions([]), on_lost)

    options = ConnectOptions(
        info=Implementation("me", "1"), capabilities=ClientCapabilities(), revision=revision, timeout=timeout
    )
    return Supervisor(target, session, options)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    yield
    negotiation.SHARED_ERAS.clear()


class TestOpening:
    async def test_both_sides_agree(self):
        made = link(modern())
        await made.open()
        assert made.agreement.revision is NEWEST
        assert made.session.revision is NEWEST
        await made.close()

    async def test_opened_in_one_task_and_closed_in_another(self):
        made = link(legacy())
        await asyncio.create_task(made.open())
        await asyncio.create_task(made.close())

    async def test_nothing_is_left_behind(self):
        before = asyncio.all_tasks()
        made = link(legacy())
        await made.open()
        await made.close()
        await nothing_left(before)

    @pytest.mark.parametrize(
        ("server", "kind"),
        [
            (Scripted(), RemoteError),
            (Scripted(initialize={}), InvalidAnswer),
            (Scripted(initialize=welcome(protocolVersion="1900-01-01")), InvalidAnswer),
            (Scripted(server_discover=dying()), ConnectionLost),
        ],
    )
    async def test_a_server_that_cannot_be_agreed_with_is_one_typed_error(
        self, server: Scripted, kind: type[Exception], caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.CRITICAL)
        before = asyncio.all_tasks()
        with pytest.raises(kind):
            await link(server).open()
        await nothing_left(before)

    async def test_a_server_that_never_answers_is_a_timeout(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=SILENCE)
        opening = asyncio.create_task(link(server, timeout=2).open())
        for _ in range(4):
            await clock.advance(2.1)
        with pytest.raises(Timeout):
            await opening

    async def test_a_caller_that_is_cancelled_leaves_nothing_behind(self):
        before = asyncio.all_tasks()
        server = Scripted(server_discover=SILENCE)
        opening = asyncio.create_task(link(server).open())
        await until(lambda: server.asked)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await nothing_left(before)

    async def test_closing_while_opening_gives_up(self):
        server = Scripted(server_discover=SILENCE)
        made = link(server)
        opening = asyncio.create_task(made.open())
        await until(lambda: server.asked)
        await made.close()
        with pytest.raises(ConnectionLost, match="closed before the server had answered"):
            await opening


class TestPinned:
    @pytest.mark.parametrize("name", REVISIONS)
    async def test_only_the_revision_asked_for_will_do(self, name: str):
        server = Scripted(server_discover=discovery(), initialize=welcome(protocolVersion=name))
        made = link(server, REVISIONS[name])
        await made.open()
        assert made.agreement.revision.name == name
        assert server.methods[0] == ("server/discover" if name == NEWEST.name else "initialize")
        await made.close()

    async def test_a_server_that_offers_another_is_refused(self):
        with pytest.raises(ConnectionLost, match=f"does not speak {HANDSHAKE[0]}; it offers {HANDSHAKE[-1]}"):
            await link(legacy(), REVISIONS[HANDSHAKE[0]]).open()

    async def test_a_server_of_the_other_era_is_refused_in_its_own_words(self):
        with pytest.raises(ConnectionLost, match=f"does not speak {NEWEST.name}: Method not found"):
            await link(legacy(), NEWEST).open()


class TestClosing:
    async def test_twice_is_once(self):
        made = link(legacy())
        await made.open()
        await asyncio.gather(made.close(), made.close())
        await made.close()

    async def test_a_closer_that_is_cancelled_waits_and_is_cancelled_then(self):
        go = asyncio.Event()
        target = Restartable(legacy())
        ended = target.release

        async def slow() -> None:
            await go.wait()
            await ended()

        target.release = slow
        made = link(target)
        await made.open()
        closing = asyncio.create_task(made.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await closing

    async def test_whoever_waits_for_the_end_is_told(self):
        made = link(legacy())
        await made.open()
        waiting = asyncio.create_task(made.wait_lost())
        await made.close()
        await waiting

    async def test_also_when_the_server_goes(self):
        server = legacy()
        made = link(server)
        await made.open()
        await server.peer.channel.close()
        await made.wait_lost()
        assert made.connection.gone == "the peer closed the connection"
        server.peer.disconnected(None)
        await made.close()


class TestStartingAgain:
    async def test_a_server_that_the_probe_ends_is_started_once_more_and_not_probed(self):
        second = legacy()
        target = Restartable(Scripted(server_discover=dying()), second)
        made = link(target)
        await made.open()
        assert target.starts == 2
        assert second.methods[0] == "initialize"
        assert made.agreement.revision is NEWEST_HANDSHAKE
        await made.close()

    async def test_one_that_ends_again_is_a_lost_connection(self):
        target = Restartable(Scripted(server_discover=dying(), initialize=dying()))
        with pytest.raises(ConnectionLost, match="the peer closed the connection"):
            await link(target).open()
        assert target.starts == 2

    async def test_the_era_of_a_server_is_remembered(self):
        server = legacy()
        target = Restartable(server)
        for _ in range(2):
            made = link(target)
            await made.open()
            await made.close()
        assert server.methods == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "initialize",
            "notifications/initialized",
        ]

    async def test_until_the_server_refuses_it(self):
        server = legacy()
        target = Restartable(server)
        made = link(target)
        await made.open()
        await made.close()
        server.answers = {"server/discover": discovery(), "initialize": Error(-32022, "Unsupported")}
        made = link(target)
        await made.open()
        assert made.agreement.revision is NEWEST
        assert negotiation.SHARED_ERAS.get(target.key) == "envelope"
        await made.close()

    async def test_a_server_that_failed_is_probed_next_time(self):
        server = legacy()
        target = Restartable(server)
        made = link(target)
        await made.open()
        await made.close()
        server.answers = {"initialize": {}}
        with pytest.raises(InvalidAnswer):
            await link(target).open()
        assert negotiation.SHARED_ERAS.get(target.key) is None
