"""Addresses that a peer names to have us ask there: the machine room, this machine, and places without an end."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth.discovery import find_authorization_server
from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.auth.http import MAX_BODY, get
from dovetail.client.auth.grants import ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.server.auth.verifiers import Introspection, JWTVerifier
from dovetail.transports.http.contract import HttpOptions
from tests.attacks.attack_setup import (
    AUTHORIZATION_SERVER,
    PROTECTED,
    AttackerServer,
    SeenRequest,
    attacker_server,
    login_scene,
    oauth_login,
    server_metadata,
)

MACHINE_ROOM = [
    "https://169.254.169.254",
    "https://169.254.169.254:80",
    "https://169.254.169.254.",
    "https://[::ffff:169.254.169.254]",
    "https://[::ffff:a9fe:a9fe]",
    "https://[64:ff9b::a9fe:a9fe]",
    "https://[64:ff9b:1::a9fe:a9fe]",
    "https://[2002:a9fe:a9fe::1]",
    "https://[2001:0:a9fe:a9fe::1]",
    "https://[::a9fe:a9fe]",
    "https://[fd00:ec2::254]",
    "https://[fe80::a9fe:a9fe]",
    "https://2852039166",
    "https://0xa9fea9fe",
    "https://0xa9.0xfe.0xa9.0xfe",
    "https://0251.0376.0251.0376",
    "https://025177524776",
    "https://169.254.43518",
    "https://169.16689662",
    "https://100.100.100.200",
    "https://168.63.129.16",
    "https://10.0.0.1",
    "https://192.168.1.1",
    "https://0.0.0.0",
    "http://169.254.169.254",
    "http://[::ffff:169.254.169.254]",
]


class Roads:
    """Every address that is connected to, and every name that is looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        self.asked: list[str] = []
        self.names: dict[str, list[list[str]]] = {}
        """What names stand for, one answer after the other; the last one stays."""
        loop = asyncio.SelectorEventLoop
        connect, look_up = loop.sock_connect, socket.getaddrinfo

        async def sock_connect(self_: Any, sock: socket.socket, address: Any) -> None:
            self.taken.append(address[0])
            await connect(self_, sock, address)

        def getaddrinfo(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            if host not in self.names:
                return look_up(host, port, *rest, **more)
            self.asked.append(host)
            answers = self.names[host]
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            return [entry for address in found for entry in look_up(address, port, *rest, **more)]

        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def roads(monkeypatch: pytest.MonkeyPatch) -> Roads:
    return Roads(monkeypatch)


def wanting(attacker: AttackerServer, header: str = "") -> None:
    attacker.poses(f"{attacker.url}/mcp")
    attacker.pages["/mcp"] = (401, {"www-authenticate": f"Bearer {header}".strip()}, b"")


async def refused(attacker: AttackerServer, roads: Roads, auth: OAuth | None = None) -> None:
    """Open a client at the attacker's server: it gives up, and has been nowhere else."""
    with pytest.raises(AuthorizationFailed):
        await Client(f"{attacker.url}/mcp", auth=auth or oauth_login()).open()
    assert set(roads.taken) == {"127.0.0.1"}
    attacker.learned_nothing()
    assert "/token" not in attacker.paths()


class TestTheMachineRoom:
    """Addresses at which clouds give credentials to whoever asks from inside, in every spelling."""

    @pytest.mark.parametrize("place", MACHINE_ROOM)
    async def test_a_metadata_service_as_authorization_server_is_not_contacted(self, place: str, roads: Roads) -> None:
        async with attacker_server() as attacker:
            wanting(attacker)
            attacker.pages[PROTECTED] = {"resource": f"{attacker.url}/mcp", "authorization_servers": [place]}
            await refused(attacker, roads)

    @pytest.mark.parametrize("place", MACHINE_ROOM)
    async def test_a_metadata_service_as_resource_metadata_is_not_contacted(self, place: str, roads: Roads) -> None:
        async with attacker_server() as attacker:
            wanting(attacker, f'resource_metadata="{place}/latest/meta-data"')
            await refused(attacker, roads)

    @pytest.mark.parametrize("field", ["registration_endpoint", "token_endpoint"])
    @pytest.mark.parametrize("place", MACHINE_ROOM[::5])
    async def test_a_metadata_service_as_token_endpoint_is_not_contacted(
        self, field: str, place: str, roads: Roads
    ) -> None:
        async with attacker_server() as attacker:
            wanting(attacker)
            attacker.pages[AUTHORIZATION_SERVER] = server_metadata(attacker.url, **{field: f"{place}/x"})
            await refused(attacker, roads, OAuth(ClientCredentials("a", secret="b")) if field[0] == "t" else None)

    @pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "10.0.0.1"])
    async def test_a_name_that_resolves_to_a_metadata_service_is_not_contacted(
        self, address: str, roads: Roads
    ) -> None:
        roads.names = {"metadata.example": [[address]], "x.localhost": [[address]]}
        for place in ("https://metadata.example", "http://x.localhost:1"):
            async with attacker_server() as attacker:
                wanting(attacker)
                attacker.pages[PROTECTED] = {"resource": f"{attacker.url}/mcp", "authorization_servers": [place]}
                await refused(attacker, roads)
        assert "metadata.example" in roads.asked

    async def test_a_redirect_to_a_metadata_service_is_not_followed(self, roads: Roads) -> None:
        for target in ("https://169.254.169.254/", "file:///etc/passwd", "//169.254.169.254/", "gopher://127.0.0.1/"):
            async with attacker_server() as attacker:
                wanting(attacker)
                attacker.pages[AUTHORIZATION_SERVER] = (302, {"location": target}, b"")
                await refused(attacker, roads)

    async def test_a_verifier_does_not_go_there_either(self, roads: Roads) -> None:
        async with attacker_server() as attacker:
            for place in MACHINE_ROOM[::4]:
                told = server_metadata(attacker.url, jwks_uri=f"{place}/keys", introspection_endpoint=f"{place}/ask")
                attacker.pages[AUTHORIZATION_SERVER] = told
                known: dict[str, Any] = {"issuer": attacker.url, "audience": "http://localhost/mcp"}
                for check in (JWTVerifier(**known), Introspection(**known, client_id="us", client_secret="hush")):
                    with pytest.raises(AuthorizationFailed):
                        await check("a.b.c")
            assert set(roads.taken) == {"127.0.0.1"}
            attacker.learned_nothing()


class TestThisMachine:
    async def test_a_server_elsewhere_does_not_name_this_machine(self, roads: Roads) -> None:
        async with attacker_server() as inside:
            fetcher = OAuthHttp("https://public.example/mcp", HttpOptions())
            port = inside.url.rpartition(":")[2]
            roads.names = {"public.example": [["192.0.2.1"]], "inside.example": [["127.0.0.1"]]}
            for place in (
                inside.url,
                f"http://localhost:{port}",
                f"http://[::1]:{port}",
                f"https://inside.example:{port}",
            ):
                with pytest.raises(Untrusted):
                    await fetcher.run(find_authorization_server(place))
            assert inside.seen == [] and roads.taken == []

    async def test_a_name_is_looked_up_once_and_that_address_is_used(self, roads: Roads) -> None:
        """DNS rebinding: a name stands for one address when it is checked, and for another when it is used."""
        async with attacker_server() as attacker, strange_at("127.0.0.2", attacker) as inside:
            port = attacker.url.rpartition(":")[2]
            roads.names = {"moving.localhost": [["127.0.0.1"], ["127.0.0.2"]]}
            place = f"http://moving.localhost:{port}"
            attacker.pages[AUTHORIZATION_SERVER] = server_metadata(place)
            found = await OAuthHttp(attacker.url, HttpOptions()).run(find_authorization_server(place))
            assert found.issuer == place
            assert roads.asked == ["moving.localhost"]
            assert set(roads.taken) == {"127.0.0.1"} and inside.seen == []


@contextlib.asynccontextmanager
async def strange_at(host: str, beside: AttackerServer) -> AsyncIterator[AttackerServer]:
    """Another server at the same port of another loopback address."""
    found = AttackerServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.seen.append(SeenRequest("?", (await reader.readline()).decode(), "", {}, ""))
        writer.close()

    async with await asyncio.start_server(serve, host, int(beside.url.rpartition(":")[2])):
        yield found


class TestRedirects:
    """A redirect never carries anything to another origin."""

    @pytest.mark.parametrize("page", [PROTECTED, AUTHORIZATION_SERVER])
    async def test_a_redirect_of_metadata_to_another_origin_is_not_followed(self, page: str) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            attacker.poses(place.url)
            away = (302, {"location": f"{attacker.url}{page}"}, b"")
            if page == PROTECTED:
                real = place.app[0]
                place.app[0] = redirecting(real, page, attacker.url)
            else:
                place.authorization_server.pages[page] = away
            with pytest.raises(Untrusted, match="another origin"):
                await Client(place.url, auth=oauth_login()).open()
            assert attacker.seen == [] and place.authorization_server.grants == []

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_of_a_token_endpoint_is_not_followed(self, status: int) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            for target in (attacker.url, f"{place.authorization_server.url}/other"):
                place.authorization_server.pages["/token"] = (status, {"location": f"{target}/token"}, b"")
                with pytest.raises(AuthorizationFailed, match=str(status)):
                    await Client(place.url, auth=oauth_login()).open()
            assert attacker.seen == [] and "/other/token" not in place.authorization_server.paths()

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    async def test_a_redirect_of_the_server_gets_no_token(self, status: int) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            auth = oauth_login()
            async with Client(place.url, auth=auth) as client:
                await client.call("who")
                place.app[0] = redirecting(place.app[0], "/mcp", attacker.url, status)
                with pytest.raises(Exception, match=r"origin|redirect|answered"):
                    await client.call("who")
            attacker.learned_nothing(place.authorization_server)
            assert attacker.seen == []

    async def test_circular_redirects_end(self) -> None:
        async with attacker_server() as attacker:
            wanting(attacker)
            attacker.pages[AUTHORIZATION_SERVER] = (302, {"location": AUTHORIZATION_SERVER}, b"")
            with pytest.raises(AuthorizationFailed, match="redirects too often"):
                await Client(f"{attacker.url}/mcp", auth=oauth_login()).open()
            assert attacker.paths().count(AUTHORIZATION_SERVER) <= 4


def redirecting(app: Any, path: str, to: str, status: int = 302) -> Callable[..., Any]:
    """An application that has been made to send away whoever comes to one of its paths."""

    async def changed(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != path:
            await app(scope, receive, send)
            return
        headers = [(b"location", f"{to}{path}".encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    return changed


class TestWithoutEnd:
    """Documents that are too much, and answers that never come."""

    @pytest.mark.parametrize("page", [PROTECTED, AUTHORIZATION_SERVER, "/register"])
    @pytest.mark.parametrize("packed", [False, True])
    async def test_a_document_that_is_too_large(self, page: str, packed: bool, roads: Roads) -> None:
        async with attacker_server() as attacker:
            wanting(attacker)
            large = json.dumps(
                {**server_metadata(attacker.url), "client_id": "x", "more": "x" * (MAX_BODY * (40 if packed else 1))}
            )
            headers = {"content-type": "application/json", **({"content-encoding": "gzip"} if packed else {})}
            attacker.pages[page] = (200, headers, gzip.compress(large.encode()) if packed else large.encode())
            await refused(attacker, roads)

    @pytest.mark.parametrize("pause", [0.0, 0.05])
    async def test_a_document_without_end(self, pause: float) -> None:
        """Fast, it is cut off at its size; slowly, when the time is over."""
        written = 0

        async def without_end(writer: asyncio.StreamWriter, over: asyncio.Event) -> None:
            nonlocal written
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"issuer": "')
            chunk = b"x" * (1 if pause else 65536)
            while not over.is_set():
                writer.write(chunk)
                written += len(chunk)
                await writer.drain()
                await asyncio.sleep(pause)

        async with talking(without_end) as place:
            with pytest.raises(AuthorizationFailed):
                async with asyncio.timeout(10):
                    await OAuthHttp(place, HttpOptions(), 0.5 if pause else 20).run(find_authorization_server(place))
        assert written < 64 * 1024 * 1024

    async def test_an_answer_that_never_comes(self) -> None:
        async def silent(writer: asyncio.StreamWriter, over: asyncio.Event) -> None:
            await over.wait()

        async with talking(silent) as place:
            with pytest.raises(AuthorizationFailed, match="gave no answer within"):
                async with asyncio.timeout(10):
                    await OAuthHttp(place, HttpOptions(), 0.3).send(get(f"{place}/x"))


@contextlib.asynccontextmanager
async def talking(answer: Callable[[asyncio.StreamWriter, asyncio.Event], Awaitable[None]]) -> AsyncIterator[str]:
    """A server that reads the head of a request and then does as it likes, until it is over."""
    over, tasks = asyncio.Event(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer, over)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            over.set()
            await asyncio.gather(*tasks)
