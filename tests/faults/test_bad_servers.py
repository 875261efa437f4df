"""Our client against servers that are dead, flooding, lying or silent: one typed error, and nothing left."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dovetail import (
    Client,
    ConnectionLost,
    DovetailError,
    InvalidAnswer,
    LocalError,
    OutcomeUnknown,
    RemoteError,
    Server,
    Timeout,
)
from dovetail.client import negotiator
from tests.faults.conftest import NASTY, SERVERS
from tests.support.raw import ENVELOPE, HANDSHAKE, children, memory, script
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import until

_NUMBERS = itertools.count()

SHORT = 0.5
"""A timeout that is meant to pass."""


def bad(name: str, *arguments: Any) -> list[str]:
    """The command of a bad server, with its arguments as JSON; a new command each time is not remembered."""
    return script(SERVERS / "bad.py", name, *(json.dumps(word) for word in arguments), f"#{next(_NUMBERS)}")


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is taken for an answer sooner than in real life."""
    monkeypatch.setattr(negotiator, "PROBE_SECONDS", SHORT)


async def error_of(command: Any, **options: Any) -> DovetailError:
    """What goes wrong between opening a client and the answer to its first call."""
    async with nothing_left_on_the_loop():
        with pytest.raises(DovetailError) as raised:
            async with Client(command, **options) as client:
                await client.call("first", progress=options.get("progress"))
    assert not isinstance(raised.value, BaseExceptionGroup)
    return raised.value


class TestOpening:
    @pytest.mark.parametrize("command", [["/no/such/program"], ["/etc/passwd"], ["/"]])
    async def test_a_program_that_cannot_be_started(self, command: list[str]) -> None:
        problem = await error_of(command)
        assert type(problem) is ConnectionLost
        assert command[0] in str(problem)

    async def test_a_folder_that_is_not_there(self) -> None:
        problem = await error_of(bad("answers_no_call"), cwd="/no/such/folder")
        assert type(problem) is ConnectionLost
        assert "/no/such/folder" in str(problem)

    async def test_a_server_that_exits_at_once_is_quoted(self) -> None:
        problem = await error_of(bad("exits_at_once"))
        assert type(problem) is ConnectionLost
        assert "exited with code 3" in str(problem)
        assert "there is no database" in str(problem)

    @pytest.mark.slow
    async def test_a_server_that_closes_its_output(self) -> None:
        problem = await error_of(bad("closes_its_output"))
        assert type(problem) is ConnectionLost

    async def test_a_server_that_never_answers(self) -> None:
        problem = await error_of(bad("never_answers"), timeout=SHORT)
        assert type(problem) is Timeout
        assert "initialize" in str(problem)

    async def test_a_server_that_never_reads(self) -> None:
        problem = await error_of(bad("never_reads"), timeout=SHORT)
        assert type(problem) is Timeout

    async def test_a_server_that_exits_on_the_probe_is_started_again(self) -> None:
        for timeout in (30, None):
            async with Client(bad("exits_on_the_probe"), timeout=timeout) as client:
                assert client.revision == HANDSHAKE
                assert (await client.call("any")).text == "old"

    async def test_a_server_that_ignores_the_probe_gets_the_handshake(self) -> None:
        async with Client(bad("ignores_the_probe")) as client:
            assert client.revision == HANDSHAKE
            assert (await client.call("any")).text == "silent"

    async def test_what_a_server_speaks_is_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        command = bad("ignores_the_probe")
        async with Client(command):
            pass
        monkeypatch.setattr(negotiator, "PROBE_SECONDS", 60)
        async with asyncio.timeout(30), Client(command) as client:
            assert client.revision == HANDSHAKE

    @pytest.mark.parametrize(
        "answer",
        [
            {"result": 5},
            {"result": {}},
            {"result": {"supportedVersions": ["3000-01-01"], "capabilities": {}}},
            {"result": {"supportedVersions": [HANDSHAKE], "capabilities": {}}},
            {"error": {"code": -32600, "message": "initialize first"}},
            {"error": {"code": 0, "message": ""}},
            {"error": "what?"},
            {},
            {
                "result": {
                    "resultType": "complete",
                    "supportedVersions": [ENVELOPE],
                    "capabilities": {},
                    "_meta": {"io.modelcontextprotocol/serverInfo": 5},
                }
            },
        ],
        ids=lambda answer: json.dumps(answer)[:60],
    )
    async def test_a_nonsense_answer_to_the_probe_leads_to_the_handshake(self, answer: dict[str, Any]) -> None:
        async with Client(bad("discovers", answer)) as client:
            assert client.revision == HANDSHAKE
            assert (await client.call("any")).text == "fell back"

    async def test_a_modern_server_without_a_common_revision_is_an_error(self) -> None:
        answer = {
            "code": -32022,
            "message": "no",
            "data": {"supported": ["3000-01-01"], "requested": ENVELOPE},
        }
        problem = await error_of(bad("discovers", {"error": answer}))
        assert isinstance(problem, RemoteError)
        assert problem.code == -32022

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            ({"result": 5}, InvalidAnswer),
            ({"result": {}}, InvalidAnswer),
            ({"result": None}, InvalidAnswer),
            ({}, InvalidAnswer),
            ({"error": 5}, InvalidAnswer),
            ({"error": {"code": -1, "message": "not today"}}, RemoteError),
            (
                {
                    "result": {
                        "protocolVersion": "1999-01-01",
                        "capabilities": {},
                        "serverInfo": {"name": "x", "version": "1"},
                    }
                },
                DovetailError,
            ),
        ],
        ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
    )
    async def test_a_nonsense_answer_to_initialize_is_an_error(
        self, answer: dict[str, Any], kind: type[Exception]
    ) -> None:
        assert isinstance(await error_of(bad("initializes", answer)), kind)

    @pytest.mark.parametrize("revision", [HANDSHAKE, ENVELOPE])
    async def test_a_pinned_revision_fails_like_any_other(self, revision: str) -> None:
        assert type(await error_of(bad("exits_at_once"), revision=revision)) is ConnectionLost
        assert type(await error_of(bad("never_answers"), revision=revision, timeout=SHORT)) is Timeout


class TestCalling:
    async def test_a_server_that_never_answers_times_out_and_is_told(self) -> None:
        sent: list[Any] = []
        trace: Callable[[str, bytes], None] = lambda way, line: sent.append(line) if way == "sent" else None  # noqa: E731
        async with nothing_left_on_the_loop(), Client(bad("answers_no_call"), trace=trace) as client:
            with pytest.raises(Timeout, match=r"tools/call within 0\.5 s"):
                await client.call("any", timeout=SHORT)
            assert json.loads(sent[-1])["method"] == "notifications/cancelled"
            assert (await client.call("good")).text == "good"

    async def test_a_server_that_dies_fails_every_call_at_once(self) -> None:
        async with nothing_left_on_the_loop(), Client(bad("dies_in_a_call")) as client:
            calls = [client.call("any") for _ in range(10)]
            problems = await asyncio.gather(*calls, return_exceptions=True)
            for problem in problems:
                assert type(problem) is OutcomeUnknown
                assert "exited with code 7" in str(problem)
                assert "out of luck" in str(problem)
            with pytest.raises(ConnectionLost, match="exited with code 7") as unsent:
                await client.call("any")
            assert type(unsent.value) is ConnectionLost

    async def test_a_server_that_is_killed(self) -> None:
        problem = await error_of(bad("killed_in_a_call"))
        assert type(problem) is OutcomeUnknown
        assert "was ended by the signal SIGKILL" in str(problem)

    async def test_a_server_that_dies_with_half_an_answer(self) -> None:
        assert isinstance(await error_of(bad("dies_with_half_an_answer")), (InvalidAnswer, ConnectionLost))

    async def test_an_answer_with_another_id_is_nobody_s(self) -> None:
        async with nothing_left_on_the_loop(), Client(bad("answers_with_another_id")) as client:
            with pytest.raises(Timeout):
                await client.call("any", timeout=SHORT)
            assert (await client.call("good")).text == "good"

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param('{"jsonrpc":"2.0","id":ID}', id="neither result nor error"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":', id="cut off"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":null}', id="null"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":5}', id="a number"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":[]}', id="a list"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"content":5}}', id="content as a number"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text"}]}}', id="no text"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"content":NaN}}', id="NaN"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"content":[],"x":"\xff"}}', id="not UTF-8"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"x":"\\ud800"}}', id="lone surrogate"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"x":DEEP}}', id="100,000 brackets"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"result":{"x":DIGITS}}', id="6,000 digits"),
            pytest.param('{"id":ID,"result":{"content":[]}}', id="no jsonrpc"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"error":5}', id="error as a number"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":"m"}}', id="code as text"),
            pytest.param('{"jsonrpc":"2.0","id":ID,"error":{"code":1}}', id="error without a message"),
        ],
    )
    async def test_a_malformed_answer_fails_the_call_that_waits(self, answer: str) -> None:
        async with nothing_left_on_the_loop(), Client(bad("answers_garbage")) as client:
            with pytest.raises(InvalidAnswer):
                await client.call("any", answer=answer)
            assert (await client.call("good")).text == "good"

    async def test_what_a_server_prints_on_stdout_is_passed_over(self, caplog: pytest.LogCaptureFixture) -> None:
        sent: list[bytes] = []
        async with Client(
            bad("chatters_on_stdout"), trace=lambda way, line: sent.append(line) if way == "sent" else None
        ) as client:
            assert (await client.call("any")).text == "chatty"
        methods = [json.loads(line).get("method") for line in sent]
        assert None not in methods, "a server that prints is not answered"
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1, "said once, not for each line"

    @pytest.mark.parametrize("id_last", [True, False])
    async def test_a_huge_answer_fails_the_call_that_waits(self, id_last: bool) -> None:
        async with nothing_left_on_the_loop(), Client(bad("huge_answer"), max_message_bytes=16_000_000) as client:
            before = memory(os.getpid())
            with pytest.raises(InvalidAnswer, match="too long"):
                await client.call("any", id_last=id_last)
            assert (await client.call("good")).text == "good"
            assert memory(os.getpid()) - before < 60

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["floods_garbage", "floods_notifications", "floods_requests", "endless_line"])
    async def test_a_flood_ends_in_a_timeout_and_bounded_memory(self, name: str) -> None:
        before = memory(os.getpid())
        # An endless line is kept up to the limit of a message, and growing may need it twice for a moment.
        async with nothing_left_on_the_loop(), Client(bad(name), max_message_bytes=8_000_000) as client:
            call = asyncio.create_task(client.call("any", timeout=2))
            most = before
            while not call.done():
                await asyncio.wait({call}, timeout=0.1)
                most = max(most, memory(os.getpid()))
            with pytest.raises(Timeout):
                await call
        assert most - before < 30

    @pytest.mark.slow
    async def test_progress_renews_the_patience_only_up_to_the_maximum(self) -> None:
        seen: list[float] = []
        async with Client(bad("floods_progress"), timeout=SHORT, max_timeout=2) as client:
            with pytest.raises(Timeout, match="within 2 s"):
                await client.call("any", progress=lambda value, total, message: seen.append(value))
        assert seen == sorted(set(seen))


class TestOpeningAndClosing:
    async def test_opening_in_one_task_and_closing_in_another(self) -> None:
        async with nothing_left_on_the_loop():
            client = Client(NASTY)
            await asyncio.create_task(client.open())
            assert (await asyncio.create_task(client.call("echo", text="hi"))).data == "hi"
            await asyncio.create_task(client.close())

    async def test_cancelling_the_opening_leaves_no_process(self) -> None:
        async with nothing_left_on_the_loop():
            # Other tests may have left processes that they share.
            before = set(children(os.getpid()))
            client = Client(bad("never_answers"))
            opening = asyncio.create_task(client.open())
            await until(lambda: set(children(os.getpid())) - before)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            assert not set(children(os.getpid())) - before
            await client.close()

    async def test_a_timeout_around_the_opening_is_a_plain_timeout(self) -> None:
        async with nothing_left_on_the_loop():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(SHORT):
                    await Client(bad("never_answers")).open()

    async def test_cancelling_the_closing_waits_for_it_all_the_same(self) -> None:
        async with nothing_left_on_the_loop():
            client = Client(bad("ignores_eof"))
            await client.open()
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert not children(os.getpid())

    async def test_closing_twice_and_before_opening(self) -> None:
        async with nothing_left_on_the_loop():
            client = Client(NASTY)
            await client.close()
            await client.open()
            await client.close()
            await client.close()

    async def test_closing_by_two_tasks_at_once(self) -> None:
        async with nothing_left_on_the_loop():
            client = Client(NASTY)
            await client.open()
            await asyncio.gather(client.close(), client.close())

    async def test_opening_again_after_closing(self) -> None:
        async with nothing_left_on_the_loop():
            client = Client(NASTY)
            for _ in range(2):
                async with client:
                    assert (await client.call("echo", text="hi")).data == "hi"

    async def test_opening_twice_is_a_mistake(self) -> None:
        async with nothing_left_on_the_loop(), Client(NASTY) as client:
            with pytest.raises(LocalError):
                await client.open()
            assert (await client.call("echo", text="hi")).data == "hi"

    async def test_calling_before_opening_and_after_closing_is_a_mistake(self) -> None:
        client = Client(NASTY)
        with pytest.raises(LocalError):
            await client.call("echo", text="hi")
        async with client:
            pass
        for work in (client.call("echo", text="hi"), client.tools(), client.ping()):
            with pytest.raises(LocalError):
                await work

    async def test_closing_with_calls_in_flight_fails_them_and_stops_them_at_the_server(self) -> None:
        sent: list[Any] = []
        async with nothing_left_on_the_loop():
            client = Client(NASTY, trace=lambda way, line: sent.append((way, json.loads(line))))
            await client.open()
            calls = [asyncio.create_task(client.call("wait_for_ever")) for _ in range(5)]
            await client.ping()
            await client.close()
            for call in calls:
                with pytest.raises(ConnectionLost):
                    await call
        messages = [message for way, message in sent if way == "sent"]
        called = {message["id"] for message in messages if message["method"] == "tools/call"}
        assert [message["method"] for message in messages[-5:]] == ["notifications/cancelled"] * 5
        assert {message["params"]["requestId"] for message in messages[-5:]} == called

    async def test_cancelling_a_call_leaves_the_others(self) -> None:
        async with nothing_left_on_the_loop(), Client(NASTY) as client:
            call = asyncio.create_task(client.call("wait_for_ever"))
            await client.ping()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await client.call("what_stopped")).data == ["wait_for_ever"]

    async def test_a_server_that_dies_between_calls_is_noticed(self) -> None:
        async with nothing_left_on_the_loop(), Client(NASTY) as client:
            (pid,) = [pid for pid in children(os.getpid()) if b"nasty" in _command_line(pid)]
            os.kill(pid, 9)
            with pytest.raises(ConnectionLost):
                await client.call("echo", text="hi")
            with pytest.raises(ConnectionLost, match="was ended by the signal SIGKILL"):
                await client.call("echo", text="hi")


class TestAServerInTheSameProcess:
    async def test_a_server_that_fails_at_once_is_a_lost_connection(self) -> None:
        @contextlib.asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[None]:
            raise RuntimeError("no database")
            yield

        problem = await error_of(Server("failing", lifespan=lifespan))
        assert type(problem) is ConnectionLost

    async def test_opening_and_closing_leave_nothing(self) -> None:
        server = Server("here")

        @server.tool
        async def wait_for_ever() -> None:
            await asyncio.Event().wait()

        async with nothing_left_on_the_loop():
            client = Client(server)
            await asyncio.create_task(client.open())
            call = asyncio.create_task(client.call("wait_for_ever"))
            await client.ping()
            await asyncio.create_task(client.close())
            with pytest.raises(ConnectionLost):
                await call


def _command_line(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
