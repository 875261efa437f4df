"""The middleware that comes with Dovetail, on both sides."""

import logging
from typing import Any

import pytest

from dovetail import Client, ProtocolError, RemoteError, Server, Text, ToolError
from dovetail.middleware import CleanOutput, Exchange, MaskErrors, Proceed, RateLimit, Retries, SizeLimit, Timing
from dovetail.protocol.errors import INTERNAL_ERROR, ConnectionLost, InvalidAnswer, LocalError, Timeout
from dovetail.protocol.revisions import NEWEST, REVISIONS
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS

EVERY = pytest.mark.parametrize("name", REVISIONS)


def exchange(method: str, way: Any = "out", **params: Any) -> Exchange:
    return Exchange("client", way, method, params, NEWEST)


class Script:
    """Answers, or fails, as it is told, one after the other."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.asked = 0

    async def __call__(self, passing: Exchange) -> dict[str, Any]:
        self.asked += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def shop(*middleware: Any) -> Server:
    server = Server("s", middleware=middleware)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def crash() -> str:
        raise RuntimeError("/secret/path")

    @server.tool
    async def refuse() -> str:
        raise ToolError("At most 14 days.")

    @server.resource("x://text")
    async def text() -> str:
        return "x" * 1000

    @server.resource("x://crash")
    async def broken() -> str:
        raise RuntimeError("/secret/path")

    return server


class TestTiming:
    @EVERY
    async def test_every_request_is_reported_with_its_time_and_outcome(self, name: str):
        told: list[tuple[str, str | None, bool, str]] = []
        timing = Timing(
            lambda passing, seconds, outcome: told.append((passing.method, passing.target, seconds > 0, outcome))
        )
        async with Client(shop(timing), revision=name) as client:
            await client.tools()
            told.clear()
            await client.call("echo", text="a")
            await client.call("crash", check=False)
            with pytest.raises(RemoteError):
                await client.read("x://nowhere")
        assert told == [
            ("tools/call", "echo", True, "ok"),
            ("tools/call", "crash", True, "failed"),
            ("resources/read", "x://nowhere", True, "error"),
        ]

    async def test_only_slow_requests_are_reported_with_slow(self):
        told: list[str] = []
        slow = Timing(lambda passing, *_: told.append(passing.method), slow=1000)
        await slow(exchange("ping"), Script({}))
        assert told == []

    async def test_durations_are_logged_by_default(self, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.INFO, "dovetail.timing"):
            await Timing()(exchange("tools/call", name="echo"), Script({}))
            await Timing()(exchange("ping"), Script({}))
        assert caplog.messages[0].startswith("out tools/call 'echo': ok in ")
        assert caplog.messages[1].startswith("out ping: ok in ")

    async def test_a_report_that_fails_hurts_nobody(self, caplog: pytest.LogCaptureFixture):
        def fail(*_: Any) -> None:
            raise RuntimeError("no ink")

        assert await Timing(fail)(exchange("ping"), Script({"a": 1})) == {"a": 1}
        assert "The report function of Timing failed" in caplog.text


class TestRateLimit:
    @EVERY
    async def test_an_incoming_request_over_the_limit_gets_an_error_with_the_time_to_wait(self, name: str):
        server = shop()
        server.use(RateLimit(0.001, burst=2), methods=["tools/call"])
        async with Client(server, revision=name) as client:
            for _ in range(2):
                await client.call("echo", text="a")
            with pytest.raises(RemoteError, match="Too many requests") as error:
                await client.call("echo", text="a")
            assert error.value.code == TOO_MANY_REQUESTS
            assert error.value.data["retryAfterMs"] > 1000
            await client.tools()

    async def test_an_outgoing_request_over_the_limit_waits(self):
        limit, script = RateLimit(200, burst=1), Script({}, {}, {})
        for _ in range(3):
            await limit(exchange("ping"), script)
        assert script.asked == 3

    async def test_an_outgoing_request_does_not_wait_longer_than_its_patience(self):
        limit, script = RateLimit(0.001, burst=1, patience=0.01), Script({}, {})
        await limit(exchange("ping"), script)
        with pytest.raises(Timeout, match="would wait longer than 0"):
            await limit(exchange("ping"), script)

    async def test_a_key_groups_requests_for_the_rate_limit(self):
        limit = RateLimit(0.001, burst=1, key=lambda passing: passing.target)
        for tool in ("a", "b"):
            await limit(exchange("tools/call", "in", name=tool), Script({}))
        with pytest.raises(ProtocolError):
            await limit(exchange("tools/call", "in", name="a"), Script({}))


class TestSizeLimit:
    @EVERY
    async def test_a_tool_that_says_too_much_fails_with_words_for_the_model(self, name: str):
        async with Client(shop(SizeLimit(500)), revision=name) as client:
            assert (await client.call("echo", text="short")).data == "short"
            result = await client.call("echo", text="x" * 1000, check=False)
            assert result.is_error
            assert result.text.startswith("The result of echo has ")
            with pytest.raises(RemoteError, match="the limit is 500"):
                await client.read("x://text")

    @EVERY
    async def test_on_a_client_it_is_an_invalid_answer(self, name: str):
        async with Client(shop(), revision=name, middleware=[SizeLimit(500)]) as client:
            with pytest.raises(InvalidAnswer, match="the limit is 500"):
                await client.read("x://text")

    def test_a_limit_of_nothing_is_refused(self):
        with pytest.raises(LocalError):
            SizeLimit(0)


class TestMaskErrors:
    @EVERY
    async def test_unexpected_errors_are_replaced_by_a_reference(self, name: str, caplog: pytest.LogCaptureFixture):
        async with Client(shop(MaskErrors("Sorry")), revision=name) as client:
            result = await client.call("crash", check=False)
            assert result.is_error
            assert result.text.startswith("Sorry (reference ")
            with pytest.raises(RemoteError, match=r"Sorry \(reference") as error:
                await client.read("x://crash")
            assert error.value.code == INTERNAL_ERROR
        for told in (result.text, str(error.value)):
            reference = told.partition("(reference ")[2].partition(")")[0]
            assert f"(reference {reference}): RuntimeError: /secret/path" in caplog.text

    @EVERY
    async def test_deliberate_errors_are_not_masked(self, name: str):
        async with Client(shop(MaskErrors()), revision=name) as client:
            assert (await client.call("refuse", check=False)).text == "At most 14 days."
            assert (await client.call("echo", text="a")).data == "a"
            with pytest.raises(RemoteError, match="Resource not found"):
                await client.read("x://nowhere")

    async def test_middleware_inside_that_breaks_is_masked_too(self):
        async def broken(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            raise ValueError("/secret/path")

        with pytest.raises(ProtocolError, match="Something went wrong"):
            await MaskErrors()(exchange("ping", "in"), lambda passing: broken(passing, Script()))

    async def test_errors_of_outgoing_requests_are_not_masked(self):
        with pytest.raises(RemoteError, match="theirs"):
            await MaskErrors()(exchange("ping"), Script(RemoteError(-32603, "theirs")))


class TestCleanOutput:
    @EVERY
    @pytest.mark.parametrize("side", ["server", "client"])
    async def test_escape_sequences_are_removed_on_both_sides(self, name: str, side: str):
        theirs, ours = ((CleanOutput(),), ()) if side == "server" else ((), (CleanOutput(),))
        async with Client(shop(*theirs), revision=name, middleware=ours) as client:
            result = await client.call("echo", text="a\x1b[31mb\u202ec\x07\n")
            assert result.content == [Text("abc\n")]
            assert result.data == "abc\n"

    async def test_secrets_are_redacted_on_request(self):
        answer = {"content": [{"type": "text", "text": "password=hunter2"}]}
        assert await CleanOutput()(exchange("ping"), Script(answer)) == answer
        cleaned = await CleanOutput(secrets=True)(exchange("ping"), Script(answer))
        assert cleaned == {"content": [{"type": "text", "text": "password=[redacted]"}]}

    async def test_cursors_and_states_are_not_cleaned(self):
        kept = {"nextCursor": "a\u200b", "requestState": "b\x07", "_meta": {"k": "c\x07"}}
        assert await CleanOutput(secrets=True)(exchange("tools/list"), Script(kept)) == kept


class TestRetries:
    retries = Retries(3, pause=0.001)

    @pytest.mark.parametrize(
        "problem",
        [
            Timeout("late"),
            ConnectionLost("gone"),
            RemoteError(INTERNAL_ERROR, "oops"),
            ProtocolError(INTERNAL_ERROR, "oops"),
        ],
    )
    async def test_a_read_is_repeated_when_the_reason_may_pass(self, problem: Exception):
        script = Script(problem, problem, {"ok": 1})
        assert await self.retries(exchange("resources/read", uri="x://y"), script) == {"ok": 1}

    async def test_outgoing_requests_are_retried_a_limited_number_of_times(self):
        script = Script(Timeout("1"), Timeout("2"), Timeout("3"))
        with pytest.raises(Timeout, match="3"):
            await self.retries(exchange("tools/list"), script)
        assert script.asked == 3

    @pytest.mark.parametrize("problem", [RemoteError(-32602, "no"), RemoteError(-32601, "no"), LocalError("no")])
    async def test_permanent_errors_are_not_retried(self, problem: Exception):
        script = Script(problem)
        with pytest.raises(type(problem)):
            await self.retries(exchange("tools/list"), script)

    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("tools/call", {"name": "pay"}),
            ("resources/read", {"uri": "x://y", "requestState": "s"}),
            ("resources/read", {"uri": "x://y", "inputResponses": {}}),
            ("notes/add", {}),
        ],
    )
    async def test_requests_with_side_effects_are_not_retried(self, method: str, params: dict[str, Any]):
        script = Script(Timeout("late"))
        with pytest.raises(Timeout):
            await self.retries(exchange(method, **params), script)

    async def test_a_tool_that_somebody_vouches_for_is(self):
        script = Script(Timeout("late"), {"ok": 1})
        retries = Retries(2, pause=0, tools=["look"])
        assert await retries(exchange("tools/call", name="look"), script) == {"ok": 1}

    async def test_a_peer_that_says_when_to_come_again_is_left_alone_until_then(self):
        busy = RemoteError(TOO_MANY_REQUESTS, "busy", {"retryAfterMs": 5})
        assert await self.retries(exchange("ping"), Script(busy, {"ok": 1})) == {"ok": 1}
        later = RemoteError(TOO_MANY_REQUESTS, "busy", {"retryAfterMs": 60_000})
        with pytest.raises(RemoteError):
            await self.retries(exchange("ping"), Script(later))

    @EVERY
    async def test_a_shaky_resource_is_read_in_the_end(self, name: str):
        attempts: list[int] = []
        server = Server("s")

        @server.resource("x://shaky")
        async def shaky() -> str:
            attempts.append(1)
            if len(attempts) < 3:
                raise RuntimeError("not yet")
            return "there"

        async with Client(server, revision=name, middleware=[Retries(3, pause=0.001)]) as client:
            [contents] = (await client.read("x://shaky")).contents
            assert getattr(contents, "text", None) == "there"

    def test_no_attempt_at_all_is_refused(self):
        with pytest.raises(LocalError):
            Retries(0)
