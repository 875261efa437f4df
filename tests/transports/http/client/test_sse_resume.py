"""Streams over GET: listening, and taking up again what broke off."""

import asyncio
import logging
import time

import pytest

from dovetail.protocol.errors import OutcomeUnknown, SessionEnded
from dovetail.transports import reconnection
from dovetail.transports.http.client import channel as http_client
from tests.support.waiting import settled, until
from tests.transports.http.handmade import (
    ENVELOPE,
    RecordedRequest,
    ResponseWriter,
    ScriptedHttpServer,
    notification,
    progress,
    reply,
    request,
)

from .test_channel import HANDSHAKE, connected, handshake, welcome


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnection, "FIRST_DELAY", 0.005)
    monkeypatch.setattr(reconnection, "MAX_DELAY", 0.01)
    monkeypatch.setattr(reconnection, "MIN_DELAY", 0.001)
    monkeypatch.setattr(reconnection, "GIVE_UP_SECONDS", 0.2)
    monkeypatch.setattr(reconnection, "RECONNECTS_A_MINUTE", 60_000)


class TestListening:
    async def test_what_comes_by_itself_is_heard_and_answered(self):
        asking = {"jsonrpc": "2.0", "id": "q", "method": "ping"}

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await line.stream()
                await line.event(asking)
                await line.until_gone()
            else:
                await welcome(asked, line)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await ear.count(1)
            assert ear.messages == [asking]
            channel.send(b'{"jsonrpc":"2.0","id":"q","result":{}}')
            await server.until(lambda: any(asked.id == "q" for asked in server.of("POST")))
        (get,) = server.of("GET")
        assert get.headers["accept"] == "text/event-stream"
        assert get.headers["mcp-session-id"] == "s1"
        assert "last-event-id" not in get.headers
        assert "content-type" not in get.headers

    @pytest.mark.parametrize("status", [405, 400, 404, 501])
    async def test_a_server_need_not_offer_it(self, status: int):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await line.answer(status)
            elif not await welcome(asked, line, session=None):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await server.until(lambda: server.of("GET"))
            channel.send(request(1))
            await ear.count(1)
            if status < 500:
                await channel.wait_for_get_stream()
                await asyncio.sleep(0.03)
                assert len(server.of("GET")) == 1

    async def test_it_is_connected_again_where_it_broke_off(self):
        gets = 0

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            nonlocal gets
            if asked.method != "GET":
                await welcome(asked, line)
                return
            gets += 1
            if gets == 2:
                await line.answer(503)
                return
            await line.stream()
            await line.event(progress(gets), id=f"e{gets}")
            if gets == 1:
                line.cut()
            else:
                await line.until_gone()

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await ear.count(2)
        assert ear.messages == [progress(1), progress(3)]
        assert [asked.headers.get("last-event-id") for asked in server.of("GET")] == [None, "e1", "e1"]

    async def test_a_server_that_cannot_be_listened_to_is_tried_again_once_it_answers(
        self, caplog: pytest.LogCaptureFixture
    ):
        broken = True

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET" and broken:
                await line.answer(503)
            elif asked.method == "GET":
                await line.stream()
                await line.event(progress(1))
                await line.until_gone()
            elif not await welcome(asked, line):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await until(lambda: "cannot be listened to any more" in caplog.text)
            assert len(server.of("GET")) > 1
            broken = False
            channel.send(request(1))
            await ear.count(2)
        assert progress(1) in ear.messages

    async def test_a_session_that_ended_meanwhile(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await line.answer(404)
            else:
                await welcome(asked, line)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await until(lambda: channel.ended_session == "s1")
            await settled()
        assert len(server.of("GET")) == 1
        assert server.of("DELETE") == []

    async def test_an_event_that_is_too_long_ends_it(self, caplog: pytest.LogCaptureFixture):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await line.stream()
                await line.send(b"data: " + b"x" * 3000)
            else:
                await welcome(asked, line)

        async with ScriptedHttpServer(script) as server, connected(server, max_body=2000) as (channel, ear):
            await handshake(channel, ear)
            await until(lambda: "cannot be listened to any more: A server-sent event" in caplog.text)

    @pytest.mark.parametrize("method", ["resources/subscribe", "resources/read", "tools/call", "prompts/get"])
    async def test_who_asks_to_be_told_or_may_be_asked_waits_until_the_server_can(self, method: str):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await settled(100)
                assert server.named(method) == []
                await line.stream()
                await line.until_gone()
            elif not await welcome(asked, line):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            channel.send(request(1, method, uri="a://b", name="a"))
            await ear.count(1)
        assert server.of("GET")

    async def test_a_server_that_does_not_say_is_waited_for_once(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await asyncio.Event().wait()
            elif not await welcome(asked, line):
                await line.result(asked)

        loop = asyncio.get_running_loop()
        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            began = loop.time()
            for number in range(1, 6):
                channel.send(request(number, "tools/call", name="a"))
                await ear.count(number)
            # The wait counts from the GET, which was sent a little before.
            assert 0.5 * http_client.CALL_WAIT_SECONDS <= loop.time() - began < 3 * http_client.CALL_WAIT_SECONDS

    async def test_on_the_envelope_era_nobody_listens(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
        assert [asked.method for asked in server.asked] == ["POST"]


class TestResuming:
    async def test_a_stream_goes_on_where_it_broke_off_and_nothing_comes_twice(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST":
                await line.stream()
                await line.event(id="a0")
                await line.event(progress(1), id="a1")
                await line.event(progress(2), id="a2")
                line.cut()
            elif asked.method == "GET":
                assert asked.headers["mcp-protocol-version"] == HANDSHAKE
                await line.stream()
                await line.event(progress(2), id="a2")
                await line.event(progress(3), id="a3")
                await line.event(reply(1), id="a4")
                line.end()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            await ear.count(4)
        assert ear.messages == [progress(1), progress(2), progress(3), reply(1)]
        assert ear.failures == {}
        (get,) = server.of("GET")
        assert get.headers["last-event-id"] == "a2"

    async def test_a_server_may_hang_up_and_be_asked_again_after_the_time_it_names(self):
        loop = asyncio.get_running_loop()
        ended: list[float] = []
        came: list[float] = []

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                came.append(loop.time())
            await line.stream()
            if len(came) < 3:
                await line.event(id=f"p{len(came)}", retry=60)
                line.end()
                ended.append(loop.time())
            else:
                await line.event(reply(1), id="last")
                line.end()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
        assert all(came - ended >= 0.055 for ended, came in zip(ended, came, strict=True))
        assert [get.headers["last-event-id"] for get in server.of("GET")] == ["p0", "p1", "p2"]

    async def test_it_is_tried_for_a_bounded_time(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST":
                await line.stream()
                await line.event(progress(1), id="a1")
                line.cut()
            else:
                await line.answer(502)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert isinstance(problem, OutcomeUnknown)
        assert "could not be resumed" in str(problem)
        assert "502" in str(problem)
        assert len(server.of("GET")) > 1

    @pytest.mark.parametrize("status", [405, 400])
    async def test_a_server_that_does_not_resume(self, status: int):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST":
                await line.stream()
                await line.event(progress(1), id="a1")
                line.cut()
            else:
                await line.answer(status)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            assert "it cannot be resumed" in str(await ear.failure(1))
        assert len(server.of("GET")) == 1

    async def test_a_session_that_ended_meanwhile_may_have_seen_the_request(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET" and "last-event-id" in asked.headers:
                await line.answer(404)
            elif not await welcome(asked, line):
                await line.stream()
                await line.event(progress(1), id="a1")
                line.cut()

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            channel.send(request(1))
            problem = await ear.failure(1)
            assert isinstance(problem, SessionEnded)
            assert problem.ran
            assert channel.ended_session == "s1"

    @pytest.mark.parametrize(("revision", "id"), [(HANDSHAKE, None), ("2024-11-05", "a1"), (ENVELOPE, "a1")])
    @pytest.mark.parametrize("cut", [True, False])
    async def test_without_ids_or_where_there_is_no_resuming_the_request_fails(
        self, revision: str, id: str | None, cut: bool
    ):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.stream()
            await line.event(progress(1), id=id)
            line.cut() if cut else line.end()

        async with ScriptedHttpServer(script) as server, connected(server, revision) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
            await settled()
        assert type(problem) is OutcomeUnknown
        assert server.of("GET") == []

    async def test_also_the_answer_to_initialize(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST":
                await line.stream(mcp_session_id="s1")
                await line.event(id="a0", retry=1)
                line.end()
            elif asked.method == "GET":
                await line.stream()
                await line.event(reply(0), id="a1")
                line.end()
            else:
                await line.answer(200)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            channel.send(request(0, "initialize"))
            await ear.count(1)
        (get,) = server.of("GET")
        assert (get.headers["last-event-id"], get.headers["mcp-session-id"]) == ("a0", "s1")

    async def test_a_cancelled_request_is_not_resumed(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.WARNING)

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST" and "id" not in asked.message:
                await line.answer(202)
                return
            await line.stream()
            await line.event(id=f"a{len(server.asked)}", retry=5)
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            await server.until(lambda: len(server.of("GET")) == 2)
            channel.send(notification("notifications/cancelled", requestId=1))
            await server.until(lambda: server.named("notifications/cancelled"))
            await until(lambda: not channel._posted)  # pyright: ignore[reportPrivateUsage]
        assert ear.failures == {}
        assert caplog.text == ""


class TestPace:
    """At most a few connections a second, whatever the server says."""

    @pytest.mark.attack("M6")
    @pytest.mark.parametrize("retry", [0, None])
    @pytest.mark.parametrize("resumed", [True, False], ids=["a call", "the stream of the server"])
    @pytest.mark.parametrize("message", [True, False], ids=["with a message", "empty"])
    async def test_a_server_that_ends_its_stream_at_once_is_not_asked_without_a_pause(
        self, retry: int | None, resumed: bool, message: bool, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.undo()
        burst = 3
        monkeypatch.setattr(reconnection, "RECONNECT_BURST", burst)

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method != "GET" and await welcome(asked, line):
                return
            number = len(server.asked)
            await line.stream()
            await line.event(progress(number) if message else None, id=f"a{number}", retry=retry)
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            if resumed:
                channel.send(request(1))
            else:
                await handshake(channel, ear)
            await server.until(lambda: len(server.of("GET")) >= 2)
            await asyncio.sleep(1.2)
        # The bound is on their number, so that a busy machine does not change it.
        assert 2 <= len(server.of("GET")) <= burst + 2

    @pytest.mark.parametrize("answer", [503, 502, 504, 429, None])
    async def test_a_stream_is_resumed_at_whichever_server_answers_when_the_first_do_not(self, answer: int | None):
        gets = 0

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            nonlocal gets
            if asked.method == "POST":
                await line.stream()
                await line.event(progress(1), id="a1")
                line.cut()
                return
            gets += 1
            if gets <= 2 and answer is None:
                line.cut()
            elif gets <= 2:
                await line.answer(answer or 0, retry_after="0")
            else:
                await line.stream()
                await line.event(reply(1), id="a2")
                line.end()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            await ear.count(2)
        assert ear.messages == [progress(1), reply(1)]
        assert [get.headers["last-event-id"] for get in server.of("GET")] == ["a1"] * 3

    async def test_a_server_that_names_a_time_too_far_away_is_not_waited_for(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST":
                await line.stream()
                await line.event(progress(1), id="a1")
                line.cut()
            else:
                await line.answer(503, retry_after="3600")

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            assert isinstance(await ear.failure(1), OutcomeUnknown)
        assert len(server.of("GET")) == 1

    async def test_time_in_which_the_process_did_not_run_is_no_time_that_the_server_had_to_answer(self):
        order: list[str] = []

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                for _ in range(5):
                    await asyncio.sleep(0.02)
                order.append("stream")
                await line.stream()
                await line.until_gone()
            elif not await welcome(asked, line):
                order.append("call")
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await until(lambda: channel._get_stream._task is not None)  # pyright: ignore[reportPrivateUsage]
            time.sleep(http_client.CALL_WAIT_SECONDS + 0.1)
            channel.send(request(1, "tools/call", name="x"))
            await ear.count(1)
        assert order == ["stream", "call"]
