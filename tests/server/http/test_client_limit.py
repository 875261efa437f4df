"""Limits for each client: one client cannot take all connections or streams."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail.protocol.client_address import TrustedProxies, client_key
from dovetail.server.http.asgi_app import AsgiApp
from dovetail.server.http.client_limit import ClientLimit
from dovetail.server.http.options import Settings
from dovetail.server.http.request import HttpRequest
from tests.support.raw_http import EVENTS, Answer, Site, initialize, modern, modern_headers
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

BOB, ANN = [("X-Forwarded-For", "203.0.113.66")], [("X-Forwarded-For", "203.0.113.1")]
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "mcp",
}


class TestCounting:
    def test_one_client_gets_no_more_than_its_limit(self):
        limit = ClientLimit("things", 10, 2, option="max_things")
        assert [limit.admit("bob") is None for _ in range(3)] == [True, True, False]
        assert limit.admit("ann") is None
        assert len(limit) == 3
        limit.release("bob")
        assert limit.admit("bob") is None

    def test_all_together_get_no_more_than_the_limit(self):
        limit = ClientLimit("things", 3, 2, option="max_things")
        assert [limit.admit(n) is None for n in range(4)] == [True, True, True, False]

    def test_the_refusal_names_the_option_and_the_time_to_wait(self):
        limit = ClientLimit("things", 3, 2, option="max_things", retry_after=7)
        for name in ("bob", "bob", "ann"):
            limit.admit(name)
        of_one, of_all = limit.admit("bob"), limit.admit("eve")
        assert of_one is not None and of_all is not None
        assert "max_things_each" in of_one.message and "(max_things)" in of_all.message
        assert of_one.status == of_all.status == 503
        assert of_one.headers == of_all.headers == ((b"retry-after", b"7"),)

    def test_nothing_is_kept_of_a_client_that_holds_nothing(self):
        limit = ClientLimit("things", 10, 2)
        for n in range(100):
            limit.admit(n)
            limit.release(n)
        assert limit._counts == {}

    def test_a_client_that_is_refused_again_and_again_is_logged_once(self, caplog: pytest.LogCaptureFixture):
        limit = ClientLimit("things", 10, 2, option="max_things")
        for _ in range(50):
            limit.admit(client_key(None, "203.0.113.66"))
        (record,) = caplog.records
        assert "203.0.113.66" in record.getMessage() and "trusted_proxies" in record.getMessage()


async def websocket(site: Site) -> Answer:
    return await site.ask("GET", UPGRADE, path="/mcp/ws")


async def legacy_stream(site: Site) -> Answer:
    return await site.ask("GET", {"Accept": EVENTS}, path="/sse")


async def subscription(site: Site) -> Answer:
    message = modern("subscriptions/listen", notifications={"toolsListChanged": True})
    return await site.post(message, modern_headers(message))


async def session_stream(site: Site) -> Answer:
    session = await site.session("2025-11-25")
    return await session.get()


async def new_session(site: Site) -> Answer:
    return await site.post(initialize("2025-11-25"))


HELD: dict[str, tuple[Callable[[Site], Awaitable[Answer]], str]] = {
    "WebSockets": (websocket, "max_connections_each"),
    "HTTP+SSE": (legacy_stream, "max_connections_each"),
    "subscriptions": (subscription, "max_streams_each"),
    "streams of sessions": (session_stream, "max_streams_each"),
    "sessions": (new_session, "max_sessions_each"),
}


@pytest.mark.attack("M10")
class TestEachClient:
    @pytest.mark.parametrize("what", HELD)
    @pytest.mark.parametrize("named", [True, False], ids=["by principal", "by address"])
    async def test_one_client_cannot_take_the_room_of_others(self, what: str, named: bool) -> None:
        open_one, option = HELD[what]
        server = Workshop(auth={"b": "bob", "a": "ann"}.get) if named else Workshop()
        async with workshop(server, **{option: 3}) as (_, site, _):
            site.usual = [("Authorization", "Bearer b")] if named else BOB
            answers = [await open_one(site) for _ in range(5)]
            assert [answer.status for answer in answers[:3]] != [503] * 3
            for refused in answers[3:]:
                assert refused.status == 503
                assert int(refused.headers["retry-after"]) > 0
            site.usual = [("Authorization", "Bearer a")] if named else ANN
            assert (await open_one(site)).status in (101, 200)

    @pytest.mark.parametrize("what", sorted(HELD.keys() - {"sessions"}))
    async def test_what_has_been_closed_makes_room(self, what: str) -> None:
        """A session is not closed with its connection: see test_store.py."""
        open_one, option = HELD[what]
        async with workshop(Workshop(), **{option: 2}) as (_, site, endpoint):
            site.usual = BOB
            first = await open_one(site)
            await open_one(site)
            assert (await open_one(site)).status == 503
            router = endpoint.router
            first.line.abort()
            await until(lambda: len(router.legacy.limit) + len(router._streams) == 1)
            assert (await open_one(site)).status in (101, 200)


async def test_a_websocket_is_closed_with_1013_where_no_http_response_can_be_sent() -> None:
    """An ASGI server without the extension `websocket.http.response`: closed before it is accepted, it would be 403."""
    app = AsgiApp(Workshop()._core, Settings(max_connections=0))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    await app({"type": "websocket", "path": "/mcp/ws", "headers": headers, "client": None}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.close"]
    assert sent[1]["code"] == 1013


async def test_clients_behind_another_proxy_are_told_apart_if_it_is_trusted() -> None:
    async with workshop(max_sessions_each=1, trusted_proxies=["127.0.0.0/8", "10.0.0.0/8"]) as (_, site, _):
        for address in ("203.0.113.66, 10.0.0.5", "203.0.113.1, 10.0.0.5"):
            site.usual = [("X-Forwarded-For", address)]
            assert (await new_session(site)).status == 200
        assert (await new_session(site)).status == 503


def test_the_header_of_a_client_that_is_no_proxy_is_not_believed() -> None:
    scope = {"type": "http", "method": "POST", "client": ("127.0.0.1", 1)}
    headers = {b"x-forwarded-for": b"203.0.113.66"}
    for trusted, address in (([], "127.0.0.1"), (["127.0.0.1"], "203.0.113.66")):
        proxies = TrustedProxies.build(trusted)
        assert HttpRequest(scope, headers, None, None, proxies).client_key == client_key(None, address)  # type: ignore[arg-type]
