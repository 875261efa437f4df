"""HTTP+SSE of 2024-11-05 beside the endpoint: one stream for all that the server says, and where to POST to."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Self

import pytest

from dovetail import Client, ConnectionLost
from dovetail.transports.http.server import event_stream
from tests.support.http import serving
from tests.support.raw_http import EVENTS, SESSIONS, Answer, Site, initialize, notification, request, text_of
from tests.support.replica_group import REPLICAS
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

every_revision = pytest.mark.parametrize("revision", ["2024-11-05", *SESSIONS])


class Old:
    """A client of the old transport."""

    def __init__(self, site: Site, stream: Answer, endpoint: str) -> None:
        self.site = site
        self.stream = stream
        self.endpoint = endpoint

    @classmethod
    async def connect(cls, site: Site, path: str = "/sse") -> Self:
        stream = await site.ask("GET", {"Accept": EVENTS}, path=path)
        assert (stream.status, stream.kind) == (200, EVENTS)
        first = await stream.next()
        assert first is not None and first.name == "endpoint"
        return cls(site, stream, first.data or "")

    async def send(self, message: Any) -> Answer:
        answer = await self.site.post(message, path=self.endpoint)
        assert answer.status == 202, await answer.body()
        return answer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request, and what comes next on the stream, which must be its answer."""
        message = request(method, **params)
        await self.send(message)
        answer = await self.stream.message()
        assert answer["id"] == message["id"], answer
        return answer

    async def shake_hands(self, revision: str, **capabilities: Any) -> dict[str, Any]:
        await self.send(initialize(revision, **capabilities))
        answer = await self.stream.message()
        await self.send(notification("notifications/initialized"))
        return answer["result"]


@every_revision
async def test_every_handshake_revision_is_served_over_http_sse(revision: str) -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        assert (await old.shake_hands(revision))["protocolVersion"] == revision
        called = await old.ask("tools/call", name="who", arguments={})
        assert text_of(called) == f"None {revision}"


async def test_the_endpoint_event_comes_first_and_names_the_same_origin() -> None:
    async with workshop() as (_, site, _):
        old, other = await Old.connect(site), await Old.connect(site)
        assert re.fullmatch(r"/messages\?session_id=[0-9a-f]{32,}", old.endpoint)
        assert old.endpoint != other.endpoint
        # A word to nginx, which it does not pass on.
        assert old.stream.headers.get("x-accel-buffering") == (None if REPLICAS else "no")


async def test_the_endpoint_of_a_mounted_application_is_below_its_root() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app: Any = Starlette(routes=[Mount("/deep", app=Workshop().asgi())])
    async with serving(app) as url, Site(url) as site:
        old = await Old.connect(site, "/deep/sse")
        assert old.endpoint.startswith("/deep/messages?")
        assert (await old.shake_hands("2024-11-05"))["protocolVersion"] == "2024-11-05"


async def test_messages_are_events_without_ids() -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        await old.send(initialize("2024-11-05"))
        event = await old.stream.next()
        assert event is not None
        assert (event.name, event.id) == ("message", None), "a stream that broke off is not resumed"


async def test_all_messages_of_the_server_come_on_the_one_stream() -> None:
    async with workshop() as (server, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2025-06-18", elicitation={})
        meta = {"progressToken": 1}
        await old.send(request("tools/call", 50, name="tell", arguments={"count": 2}, _meta=meta))
        told = [await old.stream.message() for _ in range(3)]
        assert [message.get("method") for message in told] == ["notifications/progress"] * 2 + [None]
        await old.send(request("tools/call", 51, name="ask", arguments={"question": "When?"}))
        question = await old.stream.message()
        assert question["method"] == "elicitation/create"
        result = {"action": "accept", "content": {"value": "now"}}
        await old.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert text_of(await old.stream.message()) == "accept: now"
        server.notify_tools_changed()
        assert (await old.stream.message())["method"] == "notifications/tools/list_changed"


async def test_an_invalid_message_is_answered_on_the_stream() -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        await old.send(b'{"jsonrpc":"1.0","id":7,"method":"ping"}')
        answer = await old.stream.message()
        assert (answer["id"], answer["error"]["code"]) == (7, -32600)
        assert "result" in await old.ask("ping")


@pytest.mark.parametrize(
    ("body", "id"),
    [
        (b"{", None),
        (b"hello", None),
        (b"", None),
        (b"\xff", None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":%b}}' % (b"[" * 100_000 + b"]" * 100_000), 7),
        (b"[" * 100_000, None),
    ],
    ids=["cut off", "words", "nothing", "not UTF-8", "nested too deeply", "100,000 brackets"],
)
async def test_what_is_no_json_is_refused_with_400(body: bytes, id: int | None) -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        answer = await site.post(body, path=old.endpoint)
        assert answer.status == 400
        problem = await answer.json()
        assert (problem["id"], problem["error"]["code"]) == (id, -32700)
        assert "result" in await old.ask("ping")


async def test_a_malformed_notification_gets_no_answer_on_the_stream() -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        await old.send(b'{"jsonrpc":"1.0","method":"notifications/x"}')
        assert "result" in await old.ask("ping")


async def test_cancelling_stops_a_call() -> None:
    async with workshop() as (server, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        await old.send(request("tools/call", 60, name="wait", arguments={}))
        await until(lambda: server.began)
        await old.send(notification("notifications/cancelled", requestId=60))
        await until(lambda: server.ended == ["wait"])
        assert "result" in await old.ask("ping")


async def test_closing_the_stream_ends_the_session_and_its_calls() -> None:
    async with workshop() as (server, site, _):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        await old.send(request("tools/call", name="wait", arguments={}))
        await until(lambda: server.began)
        old.stream.line.abort()
        await until(lambda: server.ended == ["wait"])
        answer = await site.post(request("ping"), path=old.endpoint)
        assert answer.status == 404


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=" + "0" * 32, "?session_id=../x", "?other=1"])
async def test_an_unknown_session_is_404(query: str) -> None:
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        assert (await site.post(request("ping"), path=f"/messages{query}")).status == 404
        await old.shake_hands("2024-11-05")


async def test_clients_do_not_receive_each_others_messages() -> None:
    async with workshop() as (_, site, _):
        one, other = await Old.connect(site), await Old.connect(site)
        for old in (one, other):
            await old.shake_hands("2024-11-05")
        await one.send(request("ping", 1000))
        await other.send(request("ping", 2000))
        assert (await one.stream.message())["id"] == 1000
        assert (await other.stream.message())["id"] == 2000


async def test_a_session_of_another_principal_is_404() -> None:
    server = Workshop(auth={"a": "alice", "b": "bob"}.get)
    async with workshop(server) as (_, site, _):
        site.usual = [("Authorization", "Bearer a")]
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        assert text_of(await old.ask("tools/call", name="who", arguments={})) == "alice 2024-11-05"
        site.usual = [("Authorization", "Bearer b")]
        assert (await site.post(request("ping"), path=old.endpoint)).status == 404
        site.usual = [("Authorization", "Bearer a")]
        assert "result" in await old.ask("ping")


async def test_an_idle_stream_carries_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.02)
    async with workshop() as (_, site, _):
        old = await Old.connect(site)
        event = await old.stream.next(comments=True)
        assert event is not None and event.comment is not None


async def test_a_shutdown_ends_the_stream_after_running_calls_are_answered() -> None:
    async with workshop() as (server, site, endpoint):
        old = await Old.connect(site)
        await old.shake_hands("2024-11-05")
        await old.send(request("tools/call", 70, name="wait", arguments={}))
        await until(lambda: server.began)
        closing = asyncio.create_task(endpoint.apps[0].close(5))
        await asyncio.sleep(0)
        server.go.set()
        (answer,) = await old.stream.messages()
        assert (answer["id"], text_of(answer)) == (70, "waited")
        await closing


@pytest.mark.one_replica("the limit is that of each replica")
async def test_the_number_of_connections_is_bounded() -> None:
    async with workshop(max_connections=2) as (_, site, endpoint):
        first, _ = await Old.connect(site), await Old.connect(site)
        refused = await site.ask("GET", {"Accept": EVENTS}, path="/sse")
        assert refused.status == 503 and int(refused.headers["retry-after"]) > 0
        first.stream.line.abort()
        await until(lambda: len(endpoint.router.legacy._runners) == 1)
        await Old.connect(site)


async def test_the_wrong_method_is_405() -> None:
    async with workshop() as (_, site, _):
        assert (await site.post(request("ping"), path="/sse")).status == 405
        assert (await site.ask("GET", {"Accept": EVENTS}, path="/messages")).status == 405


@pytest.mark.one_replica("the limit is that of each replica")
async def test_websockets_count_as_connections() -> None:
    async with workshop(max_connections=1) as (_, site, _):
        place = site.url.replace("http://", "ws://") + "/mcp/ws"
        async with Client(place, timeout=5) as client:
            await client.ping()
            with pytest.raises(ConnectionLost):
                await Client(place, timeout=5).open()
