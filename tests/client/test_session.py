"""The client's side of a connection: what it answers a server, and whom it tells of what it hears."""

from typing import Any

import pytest

from dovetail import Client, Extension
from dovetail.protocol.errors import METHOD_NOT_FOUND
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, REVISIONS
from tests.support.peer import cancelled, notification, request
from tests.support.scripted import Scripted, legacy, modern, welcome
from tests.support.waiting import until


def speaking(name: str) -> Scripted:
    return Scripted(initialize=welcome(protocolVersion=name), ping={})


def replies(server: Scripted) -> list[dict[str, Any]]:
    return [message for message in server.asked if "method" not in message]


async def fenced(client: Client, server: Scripted) -> None:
    """Everything that the server sent before has been taken: the client answers what it is asked next."""
    before = len(replies(server))
    server.peer.send(request("fence", "ping"))
    await until(lambda: len(replies(server)) > before)
    assert replies(server).pop()["id"] == "fence"


class TestHandshake:
    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_a_ping_is_answered(self, name: str):
        server = speaking(name)
        async with Client(server, revision=name):
            server.peer.send(request("p", "ping"))
            await until(lambda: replies(server))
            assert replies(server) == [{"jsonrpc": "2.0", "id": "p", "result": {}}]

    async def test_what_nobody_offers_is_not_found(self):
        server = legacy()
        async with Client(server):
            server.peer.send(request(1, "sampling/createMessage"))
            await until(lambda: replies(server))
            assert replies(server)[0]["error"] == {
                "code": METHOD_NOT_FOUND,
                "message": "Method not found: sampling/createMessage",
            }

    async def test_an_extension_answers_its_own_methods(self):
        async def double(params: dict[str, Any], client: Any) -> dict[str, Any]:
            assert isinstance(client, Client)
            return {"doubled": params["n"] * 2}

        server = legacy()
        extension = Extension(id="com.example/math", requests={"math/double": double})
        async with Client(server, extensions=[extension]):
            assert server.asked[1]["params"]["capabilities"] == {"extensions": {"com.example/math": {}}}
            server.peer.send(request(1, "math/double", n=21))
            await until(lambda: replies(server))
            assert replies(server)[0]["result"] == {"doubled": 42}

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_batches_are_taken_where_the_revision_has_them(self, name: str):
        server = speaking(name)
        async with Client(server, revision=name) as client:
            server.peer.send([request(1, "ping"), request(2, "ping")])
            if REVISIONS[name].batching:
                await until(lambda: server.asked and isinstance(server.asked[-1], list))
                assert [answer["id"] for answer in server.asked.pop()] == [1, 2]  # type: ignore[call-overload]
            else:
                await fenced(client, server)

    async def test_what_a_server_prints_by_mistake_is_not_answered(self):
        server = legacy()
        async with Client(server) as client:
            server.peer.send(b"Server is listening", b"[]", b"{}", b'{"jsonrpc":"2.0","method":5}')
            await fenced(client, server)

    async def test_a_malformed_request_with_an_id_is_answered(self):
        server = legacy()
        async with Client(server):
            server.peer.send({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]})
            await until(lambda: replies(server))
            assert replies(server)[0]["id"] == 7
            assert replies(server)[0]["error"]["code"] == -32600


class TestEnvelope:
    async def test_a_client_writes_no_answers(self):
        """2026-07-28 stdio, "Sending Messages"."""
        server = modern(tools_list={"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "public"})
        async with Client(server) as client:
            server.peer.send(request(1, "ping"), request(2, "roots/list"), b"noise", b'{"id":3}')
            await client.tools()
        assert replies(server) == []
        assert NEWEST.server_requests == "rounds"


class TestHearing:
    @pytest.mark.parametrize("make", [legacy, modern])
    async def test_an_extension_hears_its_own_notifications(self, make: Any):
        heard: list[dict[str, Any]] = []
        server = make()
        extension = Extension(id="com.example/x", notifications={"notifications/x": heard.append})
        async with Client(server, extensions=[extension]):
            server.peer.send(notification("notifications/x", n=1), notification("notifications/y", n=2))
            await until(lambda: heard)
        assert heard == [{"n": 1}]

    async def test_one_that_fails_to_take_it_hurts_nobody(self, caplog: pytest.LogCaptureFixture):
        def fail(params: dict[str, Any]) -> None:
            raise RuntimeError("cannot take it")

        server = legacy()
        extension = Extension(id="com.example/x", notifications={"notifications/x": fail})
        async with Client(server, extensions=[extension]) as client:
            server.peer.send(notification("notifications/x"), cancelled(99))
            await fenced(client, server)
        assert "Receiving notifications/x failed" in caplog.text
