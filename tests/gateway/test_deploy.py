"""The configuration of nginx for a gateway in examples/deploy works: two gateways with one store behind nginx."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.gateway_process import GatewayProcess, call, client_of, configuration, names, odd
from tests.support.http import free_port
from tests.support.nginx import Nginx, needs_nginx, without_tls

pytestmark = needs_nginx

ROOT = Path(__file__).resolve().parents[2]
HOST = "tools.example.com"


def block(port: int, upstreams: Sequence[int]) -> str:
    """The configuration for gateways at ports of the loopback, without TLS."""
    text, replaced = re.subn(
        r"(?:^ *server 10\.0\.0\.\d+:8000 (.*;)\n)+",
        lambda found: "".join(f"    server 127.0.0.1:{upstream} {found[1]}\n" for upstream in upstreams),
        (ROOT / "examples" / "deploy" / "nginx-gateway.conf").read_text(),
        flags=re.MULTILINE,
    )
    assert replaced == 1
    return without_tls(text, port)


class Proxied:
    """What clients need to know of gateways behind nginx."""

    def __init__(self, url: str) -> None:
        self.url = url

    def status_of(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as problem:
            return problem.code


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_view_works_behind_nginx_whichever_gateway_answers(revision: str, tmp_path: Path) -> None:
    servers = {"a": odd("works"), "b": odd("works")}
    file = configuration(tmp_path, servers, profiles={"some": {"tools": ["a__echo"]}})
    options = ["--store", str(tmp_path / "sessions.sqlite"), "--allow-host", HOST]
    with GatewayProcess(file, *options) as first, GatewayProcess(file, *options) as second:
        port = free_port()
        with Nginx(tmp_path, block(port, [first.port, second.port]), port) as nginx:
            proxied = Proxied(nginx.url)
            async with client_of(proxied, revision=revision) as client:
                for number in range(8):
                    assert await call(client, "a__echo", text=str(number)) == str(number)
            async with client_of(proxied, "/mcp/server/b", revision=revision) as client:
                assert await call(client, "echo", text="one") == "one"
            async with client_of(proxied, "/mcp/profile/some", revision=revision) as client:
                assert (await names(client))[0] == {"a__echo"}
            served = [gateway.status()["a"]["requests"] > 0 for gateway in (first, second)]
            # A session has one connection, whichever gateways its requests reach.
            assert sorted(served) == ([False, True] if revision == "2025-11-25" else [True, True])
            # From outside of the network of the example.
            assert [proxied.status_of(path) for path in ("/status", "/metrics", "/health")] == [403, 403, 403]
