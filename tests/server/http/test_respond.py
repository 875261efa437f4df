"""A request of the envelope era: one JSON value or a stream of events, and a client that may go at any time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.http import respond
from dovetail.transports.http.server import event_stream
from tests.support.http import serving
from tests.support.raw_http import (
    BOTH,
    ENVELOPE,
    EVENTS,
    JSON,
    Answer,
    Site,
    modern,
    modern_headers,
    modern_meta,
    text_of,
)
from tests.support.waiting import until
from tests.support.workshop import workshop

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


async def begin(site: Site, tool: str, token: Any = None, **arguments: Any) -> Any:
    """Call a tool without waiting for the head of its answer; the connection that it is on."""
    meta = {} if token is None else {"progressToken": token}
    message = modern("tools/call", meta=meta, name=tool, arguments=arguments)
    line = await site.connect()
    body = json.dumps(message).encode()
    await line.send("POST", "/mcp", [*modern_headers(message).items(), ("Accept", BOTH), ("Content-Type", JSON)], body)
    return line


async def told(site: Site, tool: str, token: Any = 7, **arguments: Any) -> Answer:
    """Call a tool whose progress is asked for."""
    return await (await begin(site, tool, token, **arguments)).answer()


class TestJsonOrEvents:
    async def test_a_call_that_says_nothing_before_its_answer_is_answered_with_json(self) -> None:
        async with workshop() as (_, site, _):
            answer = await site.call("echo", text="hi")
            assert (answer.status, answer.headers["content-type"]) == (200, JSON)
            assert text_of(await answer.json()) == "hi"

    async def test_no_cache_may_store_an_answer_whether_it_is_a_result_or_an_error(self) -> None:
        async with workshop() as (_, site, _):
            for message in (
                modern("tools/list"),
                modern("resources/read", uri="file:///nothing"),
                modern("no/such/method"),
            ):
                answer = await site.post(message, modern_headers(message))
                assert (answer.headers["content-type"], answer.headers["cache-control"]) == (JSON, "no-store")
            refused = await site.post({"jsonrpc": "2.0"}, {"Host": "elsewhere.example"})
            assert (refused.headers["content-type"], refused.headers["cache-control"]) == (JSON, "no-store")

    async def test_a_document_that_is_no_message_may_be_stored(self) -> None:
        async with workshop() as (_, site, _):
            assert "cache-control" not in (await site.ask("GET", path="/health")).headers

    async def test_progress_that_nobody_asked_for_needs_no_stream(self) -> None:
        async with workshop() as (_, site, _):
            answer = await site.call("tell", count=5)
            assert text_of(await answer.json()) == "told"

    async def test_a_call_that_says_something_is_answered_with_events_that_end_with_the_answer(self) -> None:
        async with workshop() as (_, site, _):
            answer = await told(site, "tell", count=3)
            assert (answer.status, answer.kind) == (200, EVENTS)
            *before, last = await answer.messages()
            assert [message["params"]["progress"] for message in before] == [1, 2, 3]
            assert all(message["params"]["progressToken"] == 7 for message in before)
            assert text_of(last) == "told"

    async def test_events_are_not_held_back_by_proxies_and_have_no_ids(self) -> None:
        async with workshop() as (_, site, _):
            answer = await told(site, "tell", count=1)
            assert answer.headers["x-accel-buffering"] == "no"
            assert "no-cache" in answer.headers["cache-control"]
            assert "mcp-session-id" not in answer.headers
            assert [event.id for event in await answer.all()] == [None, None], "they could not be resumed"

    async def test_the_first_event_is_there_before_the_answer_is(self) -> None:
        async with workshop() as (server, site, _):
            answer = await told(site, "tell_and_wait")
            assert (await answer.message())["params"]["message"] == "half way"
            assert server.ended == []

    async def test_logs_come_on_the_stream_of_the_request_that_asked_for_them(self) -> None:
        async with workshop() as (_, site, _):
            level = {"io.modelcontextprotocol/logLevel": "debug"}
            message = modern("tools/call", meta=level, name="log", arguments={})
            answer = await site.post(message, modern_headers(message))
            first, last = await answer.messages()
            assert (first["method"], first["params"]["level"]) == ("notifications/message", "info")
            assert text_of(last) == "logged"

    async def test_a_call_that_takes_long_turns_into_a_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(respond, "STREAM_SECONDS", 0.05)
        monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.02)
        async with workshop() as (server, site, _):
            answer = await site.call("wait")
            assert answer.kind == EVENTS
            event = await answer.next(comments=True)
            assert event is not None and event.comment is not None, "a comment keeps the connection alive"
            server.go.set()
            assert text_of(await answer.answer()) == "waited"

    async def test_a_client_that_takes_no_events_gets_json_however_long_it_takes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(respond, "STREAM_SECONDS", 0.02)
        async with workshop() as (server, site, _):
            message = modern("tools/call", meta={"progressToken": 1}, name="tell_and_wait", arguments={})
            asking = asyncio.create_task(site.post(message, {**modern_headers(message), "Accept": JSON}))
            await until(lambda: server.began)
            await asyncio.sleep(0.06)
            server.go.set()
            answer = await asking
            assert text_of(await answer.json()) == "told"

    async def test_json_response_leaves_out_all_but_the_answer(self) -> None:
        async with workshop(json_response=True) as (_, site, _):
            answer = await told(site, "tell", count=3)
            assert text_of(await answer.json()) == "told"

    async def test_a_handler_cannot_let_the_connection_go_where_nobody_could_come_back(self) -> None:
        async with workshop() as (server, site, _):
            asking = asyncio.create_task(site.call("let_go"))
            await until(lambda: server.began)
            server.go.set()
            assert text_of(await (await asking).answer()) == "came back"

    async def test_requests_on_one_connection_are_answered_one_after_the_other(self) -> None:
        async with workshop() as (_, site, _):
            line = await site.connect()
            for text in "abc":
                message = modern("tools/call", name="echo", arguments={"text": text})
                body = json.dumps(message).encode()
                headers = [*modern_headers(message).items(), ("Accept", BOTH), ("Content-Type", JSON)]
                answer = await line.ask("POST", "/mcp", headers, body)
                assert text_of(await answer.json()) == text

    async def test_the_same_id_may_be_in_flight_in_several_requests(self) -> None:
        async with workshop() as (server, site, _):
            message = modern("tools/call", id=1, name="wait", arguments={})
            asking = [asyncio.create_task(site.post(message, modern_headers(message))) for _ in range(3)]
            await until(lambda: len(server.began) == 3)
            server.go.set()
            for answer in await asyncio.gather(*asking):
                assert text_of(await answer.answer()) == "waited"


class TestClosingTheStreamCancelsTheCall:
    """Streamable HTTP of 2026-07-28, "Cancellation"."""

    @pytest.mark.parametrize("way", ["close", "abort"])
    async def test_before_there_is_anything_to_read(self, way: str) -> None:
        async with workshop() as (server, site, _):
            line = await begin(site, "wait")
            await until(lambda: server.began)
            await line.close() if way == "close" else line.abort()
            await until(lambda: server.ended == ["wait"])

    @pytest.mark.parametrize("way", ["close", "abort"])
    async def test_after_the_first_event(self, way: str) -> None:
        async with workshop() as (server, site, _):
            answer = await told(site, "tell_and_wait")
            await answer.message()
            await answer.line.close() if way == "close" else answer.line.abort()
            await until(lambda: server.ended == ["tell_and_wait"])

    async def test_only_that_call(self) -> None:
        async with workshop() as (server, site, _):
            one, other = await begin(site, "wait", name="one"), await begin(site, "wait", name="other")
            await until(lambda: len(server.began) == 2)
            one.abort()
            await until(lambda: server.ended == ["one"])
            server.go.set()
            assert text_of(await (await other.answer()).answer()) == "waited"

    async def test_the_health_endpoint_sees_that_it_is_over(self) -> None:
        async with workshop() as (server, site, _):
            line = await begin(site, "wait")
            await until(lambda: server.began)
            calls = (await (await site.ask("GET", path="/health")).json())["calls"]
            assert calls == 1
            line.abort()
            await until(lambda: server.ended)
            await asyncio.sleep(0)
            assert (await (await site.ask("GET", path="/health")).json())["calls"] == 0

    async def test_a_cancelled_notification_means_nothing_here(self) -> None:
        async with workshop() as (server, site, _):
            message = modern("tools/call", id=5, name="wait", arguments={})
            asking = asyncio.create_task(site.post(message, modern_headers(message)))
            await until(lambda: server.began)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
            assert (await site.post(note, {"MCP-Protocol-Version": ENVELOPE})).status == 202
            server.go.set()
            assert text_of(await (await asking).answer()) == "waited"


def wish(id: Any = "listen-1", **wanted: Any) -> dict[str, Any]:
    return modern("subscriptions/listen", id=id, notifications=wanted)


async def listen(site: Site, id: Any = "listen-1", **wanted: Any) -> Answer:
    message = wish(id, **wanted)
    answer = await site.post(message, modern_headers(message))
    assert (answer.status, answer.kind) == (200, EVENTS)
    return answer


class TestListening:
    """`subscriptions/listen`: the stream that replaced GET."""

    async def test_the_acknowledgement_comes_first_and_says_what_is_honoured(self) -> None:
        async with workshop() as (server, site, _):
            stream = await listen(site, toolsListChanged=True, resourceSubscriptions=["config://app", "config://none"])
            server.notify_tools_changed()
            first = await stream.message()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"]["_meta"] == {SUBSCRIPTION: "listen-1"}
            assert first["params"]["notifications"] == {
                "toolsListChanged": True,
                "resourceSubscriptions": ["config://app"],
            }
            assert stream.headers["x-accel-buffering"] == "no"

    async def test_what_was_asked_for_comes_and_nothing_else(self) -> None:
        async with workshop() as (server, site, _):
            stream = await listen(site, promptsListChanged=True, resourceSubscriptions=["config://app"])
            await stream.message()
            server.notify_tools_changed()
            server.notify_resources_changed()
            server.notify_resource_updated("config://app")
            server.notify_prompts_changed()
            heard = [await stream.message(), await stream.message()]
            assert sorted(message["method"] for message in heard) == [
                "notifications/prompts/list_changed",
                "notifications/resources/updated",
            ]
            assert all(message["params"]["_meta"] == {SUBSCRIPTION: "listen-1"} for message in heard)

    async def test_each_subscription_hears_with_its_own_id(self) -> None:
        async with workshop() as (server, site, _):
            first, second = await listen(site, 1, toolsListChanged=True), await listen(site, "1", toolsListChanged=True)
            for stream in (first, second):
                await stream.message()
            server.notify_tools_changed()
            ids = [(await stream.message())["params"]["_meta"][SUBSCRIPTION] for stream in (first, second)]
            assert ids == [1, "1"]

    async def test_silence_is_filled_with_comments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.02)
        async with workshop() as (server, site, _):
            stream = await listen(site, toolsListChanged=True)
            await stream.message()
            for _ in range(3):
                event = await stream.next(comments=True)
                assert event is not None and event.comment is not None
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_when_the_server_ends_the_subscription_is_answered_and_the_stream_ends(self) -> None:
        async with workshop() as (_, site, endpoint):
            stream = await listen(site, toolsListChanged=True)
            await stream.message()
            endpoint.apps[0].stop()
            (last,) = await stream.messages()
            assert last["id"] == "listen-1"
            assert last["result"]["resultType"] == "complete"
            assert last["result"]["_meta"][SUBSCRIPTION] == "listen-1"

    async def test_when_the_client_goes_nothing_of_it_is_left(self) -> None:
        async with workshop() as (server, site, endpoint):
            stream = await listen(site, toolsListChanged=True)
            await stream.message()
            before = len(server._core._sessions)
            stream.line.abort()
            await until(lambda: len(server._core._sessions) == before - 1)
            server.notify_tools_changed()
            await until(lambda: not endpoint.router._subscribers)

    async def test_progress_of_a_call_is_not_heard_by_who_listens(self) -> None:
        async with workshop() as (server, site, _):
            stream = await listen(site, toolsListChanged=True)
            await stream.message()
            await (await told(site, "tell", count=3)).messages()
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_who_takes_no_events_cannot_listen(self) -> None:
        async with workshop() as (_, site, _):
            message = wish(toolsListChanged=True)
            answer = await site.post(message, {**modern_headers(message), "Accept": JSON})
            body = await answer.json()
            assert (answer.status, body["id"]) == (406, "listen-1")

    async def test_a_server_that_answers_with_json_only_can_be_listened_to_all_the_same(self) -> None:
        async with workshop(json_response=True) as (server, site, _):
            stream = await listen(site, toolsListChanged=True)
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_a_wish_that_cannot_be_read_is_an_error(self) -> None:
        async with workshop() as (_, site, _):
            message = modern("subscriptions/listen", notifications=7)
            answer = await site.post(message, modern_headers(message))
            assert (await answer.answer())["error"]["code"] == -32602


async def test_a_principal_is_seen_by_the_handler() -> None:
    server = Server("who", auth={"secret": "alice"}.get)

    @server.tool
    async def who(ctx: Context) -> str:
        return str(ctx.principal)

    async with serving(server.asgi()) as url, Site(url, Authorization="Bearer secret") as site:
        answer = await site.call("who")
        assert text_of(await answer.json()) == "alice"


async def test_questions_are_asked_in_rounds_and_never_as_requests() -> None:
    server = Server("asks", state_keys=[b"a key for tests of HTTP"])

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", bool)
        return str(answer.data)

    async with serving(server.asgi()) as url, Site(url) as site:
        params = {"name": "ask", "arguments": {}, "meta": modern_meta(elicitation={"form": {}})}
        message = modern("tools/call", **params)
        first = await site.post(message, modern_headers(message))
        result = (await first.json())["result"]
        assert (first.status, result["resultType"]) == (200, "input_required")
        answers = {key: {"action": "accept", "content": {"value": True}} for key in result["inputRequests"]}
        retry = modern("tools/call", **params, requestState=result["requestState"], inputResponses=answers)
        second = await site.post(retry, modern_headers(retry))
        assert text_of(await second.json()) == "True"
