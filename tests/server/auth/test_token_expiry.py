"""What a token opened ends with it, and its client comes back with a newer one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets

from dovetail import Context, Server
from dovetail.auth.jwt import LEEWAY
from dovetail.auth.token_verification import Principal
from dovetail.server.auth import token_expiry
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, UNAUTHORIZED
from tests.support.http import serving
from tests.support.raw_http import EVENTS, SESSIONS, Site, initialize, modern, notification, request, text_of

SOON = 0.3
MCP = websockets.Subprotocol("mcp")


class Place:
    """A server with one slow tool, which a test lets go on, and tokens: `old` is refused in a moment, `new` is not."""

    def __init__(self) -> None:
        self.server = Server("s", auth=self.check)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.outcome: list[str] = []
        self.server.tool(self.slow)
        self.server.resource("a://b")(lambda: "x")

    async def check(self, token: str) -> Principal | None:
        ends = {"old": time.time() - LEEWAY + SOON, "new": time.time() + 60, "endless": None}
        return Principal(subject="ada", expires_at=ends[token]) if token in ends else None

    async def slow(self, ctx: Context, speak: bool = True) -> str:
        try:
            if speak:
                await ctx.progress(1, 2)
            self.begun.set()
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.outcome.append("cancelled")
            raise
        self.outcome.append("done")
        return "done"


@asynccontextmanager
async def at(place: Place, token: str, **options: Any) -> AsyncIterator[Site]:
    async with serving(place.server.asgi(**options)) as url, Site(url) as site:
        show(site, token)
        yield site


def show(site: Site, token: str) -> None:
    site.usual = [("Authorization", f"Bearer {token}")]


@pytest.fixture
def place() -> Place:
    return Place()


class TestSessions:
    @pytest.mark.parametrize("revision", SESSIONS)
    async def test_a_stream_ends_with_its_token_and_is_opened_again(self, place: Place, revision: str) -> None:
        async with at(place, "new") as site:
            session = await site.session(revision)
            show(site, "old")
            stream = await session.get()
            assert [event async for event in stream.events() if event.data] == []
            show(site, "new")
            again = await session.get()
            place.server.notify_resource_updated("a://b")
            place.server.tool(lambda: 1, name="more")
            assert (await again.message())["method"] == "notifications/tools/list_changed"

    @pytest.mark.parametrize("revision", SESSIONS)
    async def test_the_stream_of_a_call_ends_and_the_call_goes_on_until_it_is_resumed(
        self, place: Place, revision: str
    ) -> None:
        async with at(place, "new") as site:
            session = await site.session(revision)
            show(site, "old")
            stream = await session.call("slow", token="t")
            events = await stream.all()
            assert not any("result" in event.message for event in events if event.data)
            show(site, "new")
            again = await session.get(events[-1].id)
            place.go_on.set()
            assert text_of(await again.message()) == "done"
        assert place.outcome == ["done"]

    @pytest.mark.parametrize("revision", SESSIONS[:2])
    async def test_a_stream_that_cannot_be_resumed_outlives_its_token(self, place: Place, revision: str) -> None:
        async with at(place, "old") as site:
            session = await site.session(revision)
            stream = await session.call("slow", speak=False)
            assert stream.kind == EVENTS  # which it is only after a second: the token has ended by then
            place.go_on.set()
            assert text_of(await stream.answer()) == "done"

    async def test_a_stream_ends_when_its_token_is_revoked(self, place: Place) -> None:
        async with at(place, "endless") as site:
            session = await site.session(SESSIONS[-1])
            stream = await session.get()
            await place.server.revoke_token("endless")
            assert [event async for event in stream.events() if event.data] == []
            assert (await session.get()).status == 401
            show(site, "new")
            assert (await session.get()).status == 200

    async def test_a_token_that_does_not_expire_ends_nothing(self, place: Place) -> None:
        async with at(place, "endless") as site:
            session = await site.session(SESSIONS[-1])
            stream = await session.call("slow", token="t")
            assert (await stream.message())["method"] == "notifications/progress"
            place.go_on.set()
            assert text_of(await stream.answer()) == "done"


class TestEnvelopeEra:
    async def test_a_subscription_ends_with_its_result_when_the_token_expires(self, place: Place) -> None:
        async with at(place, "old") as site:
            stream = await site.modern("subscriptions/listen", notifications={"toolsListChanged": True})
            first, last = await stream.messages()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert "result" in last

    async def test_a_call_may_run_longer_than_its_token(self, place: Place) -> None:
        async with at(place, "old") as site:
            meta = {"progressToken": 1}
            stream = await site.modern("tools/call", name="slow", arguments={}, meta=meta)
            listening = await site.modern("subscriptions/listen", notifications={"toolsListChanged": True})
            await listening.messages()  # its end shows that the token has ended
            place.go_on.set()
            assert text_of(await stream.answer()) == "done"

    async def test_a_call_is_stopped_some_time_after_its_token_expired(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(token_expiry, "CALL_SECONDS", 0.2)
        async with at(place, "old") as site:
            stream = await site.modern("tools/call", name="slow", arguments={}, meta={"progressToken": 1})
            assert (await stream.answer())["error"]["message"] == TOKEN_EXPIRED
        assert place.outcome == ["cancelled"]

    async def test_a_call_without_a_session_is_stopped_some_time_after_its_token_expired(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(token_expiry, "CALL_SECONDS", 0.2)
        async with at(place, "old", sessions=False) as site:
            message = request("tools/call", name="slow", arguments={}, _meta={"progressToken": 1})
            stream = await site.post(message, {"MCP-Protocol-Version": SESSIONS[-1]})
            assert [one.get("method") for one in await stream.messages()] == ["notifications/progress"]
            assert place.outcome == []
            place.go_on.set()


class TestConnections:
    async def test_a_websocket_is_closed_with_the_code_for_an_expired_token(self, place: Place) -> None:
        async with serving(place.server.asgi()) as url:
            where, given = f"ws{url.removeprefix('http')}/mcp/ws", {"Authorization": "Bearer old"}
            async with websockets.connect(where, additional_headers=given, subprotocols=[MCP]) as socket:
                await socket.send(json.dumps(modern("tools/call", name="slow", arguments={})))
                await place.begun.wait()
                place.go_on.set()
                assert text_of(json.loads(await socket.recv())) == "done"
                with pytest.raises(websockets.ConnectionClosed):
                    await socket.recv()
                assert (socket.close_code, socket.close_reason) == (UNAUTHORIZED, TOKEN_EXPIRED)

    async def test_http_with_sse_ends_unless_a_newer_token_comes(self, place: Place) -> None:
        async with at(place, "old") as site:
            ends, lasts = [await site.ask("GET", {"Accept": EVENTS}, path="/sse") for _ in range(2)]
            places = [await stream.next() for stream in (ends, lasts)]
            to = [event.data for event in places if event is not None]
            show(site, "new")
            await site.post(initialize("2024-11-05"), path=to[1])
            await site.post(notification("notifications/initialized"), path=to[1])
            assert "result" in await lasts.message()
            assert await ends.next() is None
            await site.post(request("ping"), path=to[1])
            assert "result" in await lasts.message()
            assert (await site.post(request("ping"), path=to[0])).status == 404


async def test_a_later_token_extends_the_expiry() -> None:
    rung: list[str] = []
    from dovetail.server.auth.authenticator import AuthenticatedCaller

    def visitor(until: float | None) -> AuthenticatedCaller:
        return AuthenticatedCaller("ada", frozenset(), "Bearer", None, until)

    with token_expiry.TokenExpiry(visitor(time.time() + 60), lambda: rung.append("late")) as late:
        late.extend(time.time() - 60)  # which ends before, and changes nothing
        with token_expiry.TokenExpiry(visitor(time.time()), lambda: rung.append("soon")):
            await asyncio.sleep(0.05)
        with token_expiry.TokenExpiry(visitor(time.time() + 0.02), lambda: rung.append("never")) as never:
            never.extend(None)
            await asyncio.sleep(0.05)
        with token_expiry.TokenExpiry(visitor(float("inf")), lambda: rung.append("never")):
            await asyncio.sleep(0)
    assert rung == ["soon"]
