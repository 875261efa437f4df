"""A suspended call goes on at the replica where it waits, whichever replica its retry reaches."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, NotFound, OutcomeUnknown, RemoteError, Server, ToolError
from dovetail.protocol.errors import INVALID_PARAMS
from dovetail.server.replicas import remote_calls
from tests.support.asking import Rounds, asked
from tests.support.http_process import HttpProcess
from tests.support.replica_clients import OpenStore, replicas
from tests.support.waiting import until

SERVER = Path(__file__).parent / "asking_server.py"


class Workshop:
    """Replicas with tools that ask, and a record of what ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.go_on = asyncio.Event()

    def server(self, **options: Any) -> Server:
        server = Server("workshop", **options)

        @server.tool
        async def report(ctx: Context) -> str:
            self.ran.append("body")
            name = await ctx.elicit("Name?", str)
            for number in range(20):
                await ctx.progress(number, 20)
                await ctx.log.info("line", number=number)
            return f"{name.data} {ctx.headers.get('x-tenant')}"

        @server.tool
        async def fail(ctx: Context, error: str) -> str:
            self.ran.append("body")
            await ctx.elicit("Sure?", bool)
            raise ToolError("no") if error == "ToolError" else RuntimeError("no")

        @server.tool
        async def slow(ctx: Context) -> str:
            self.ran.append("body")
            await ctx.elicit("Sure?", bool)
            self.ran.append("waits")
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.ran.append("cancelled")
                raise
            return "done"

        @server.tool
        async def twice(ctx: Context) -> str:
            self.ran.append("body")
            answers = [await ctx.elicit(question, str) for question in ("One?", "Two?", "Three?")]
            return " ".join(str(answer.data) for answer in answers)

        @server.tool
        async def large(ctx: Context, size: int) -> str:
            self.ran.append("body")
            answer = await ctx.elicit("Which letter?", str)
            return str(answer.data) * size

        @server.tool(concurrency=1)
        async def limited(ctx: Context) -> str:
            self.ran.append("body")
            return str((await ctx.elicit("Sure?", bool)).data)

        @server.resource("note://one")
        async def note(ctx: Context) -> str:
            self.ran.append("body")
            answer = str((await ctx.elicit("Which?", str)).data)
            if answer == "missing":
                raise NotFound("There is no such note")
            return answer if answer != "broken" else str(1 / 0)

        return server


async def test_a_handler_goes_on_where_it_waits_round_after_round(store: OpenStore) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store) as clients:
        rounds = await Rounds.call(clients[0], "twice")
        await rounds.answer("a", clients[1])
        await rounds.answer("b", clients[2])
        await rounds.answer("c", clients[1])
        assert rounds.text == "a b c"
    assert workshop.ran == ["body"]


async def test_resources_are_read_where_they_wait(store: OpenStore) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        rounds = Rounds(clients[0], "resources/read", {"uri": "note://one"})
        await rounds.send()
        await rounds.answer("this", clients[1])
        assert rounds.result["contents"][0]["text"] == "this"
    assert workshop.ran == ["body"]


async def test_progress_and_log_messages_arrive_at_the_replica_of_the_retry_in_order(store: OpenStore) -> None:
    workshop = Workshop()
    got: list[float] = []
    options = {
        "on_log": lambda level, data, logger: got.append(data["number"]),
        "log_level": "info",
        "headers": {"X-Tenant": "seven"},
    }
    async with replicas(workshop.server, store, 2, client=options) as [first, second]:
        rounds = await Rounds.call(first, "report")
        retry = {**rounds.params, "requestState": rounds.state, "inputResponses": rounds.accepted("Ann")}
        result = await second.request(rounds.method, retry, progress=lambda done, total, message: got.append(done))
        assert result["content"][0]["text"] == "Ann seven"
    assert got == [number for number in range(20) for _ in ("progress", "log")]
    assert workshop.ran == ["body"]


@pytest.mark.parametrize("error", ["ToolError", "RuntimeError"])
async def test_a_tool_fails_in_the_same_way_at_both_replicas(store: OpenStore, error: str) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        results = [
            await (await Rounds.call(clients[0], "fail", error=error)).answer(True, client) for client in clients
        ]
        assert results[0]["isError"]
        assert results[0] == results[1]
    assert workshop.ran == ["body"] * 2


@pytest.mark.parametrize("answer", ["missing", "broken"])
async def test_a_resource_fails_in_the_same_way_at_both_replicas(store: OpenStore, answer: str) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        errors: list[tuple[int, str, Any]] = []
        for client in clients:
            rounds = Rounds(clients[0], "resources/read", {"uri": "note://one"})
            await rounds.send()
            responses = {"requestState": rounds.state, "inputResponses": rounds.accepted(answer)}
            error = await rounds.refused(client, **responses)
            errors.append((error.code, error.message, error.data))
        assert errors[0] == errors[1]
    assert workshop.ran == ["body"] * 2


async def test_a_large_result_comes_back_whole(store: OpenStore) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        rounds = await Rounds.call(clients[0], "large", size=3_000_000)
        await rounds.answer("x", clients[1])
        assert rounds.text == "x" * 3_000_000
    assert workshop.ran == ["body"]


async def test_a_request_that_is_too_large_to_be_offered_is_served_where_it_is(
    store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_calls, "MAX_OFFER", 1000)
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        rounds = await Rounds.call(clients[0], "large", size=1)
        await rounds.answer("x" * 2000, clients[1])
        assert rounds.text == "x" * 2000
    assert workshop.ran == ["body"] * 2


async def test_a_call_with_a_limit_waits_nowhere_and_runs_again(store: OpenStore) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        rounds = await Rounds.call(clients[0], "limited")
        await rounds.answer(True, clients[1])
        assert rounds.text == "True"
    assert workshop.ran == ["body"] * 2


async def test_a_client_that_disconnects_cancels_the_handler_at_the_other_replica(store: OpenStore) -> None:
    workshop = Workshop()
    async with replicas(workshop.server, store, 2) as clients:
        rounds = await Rounds.call(clients[0], "slow")
        retry = asyncio.create_task(rounds.answer(True, clients[1]))
        await until(lambda: "waits" in workshop.ran)
        retry.cancel()
        await until(lambda: workshop.ran == ["body", "waits", "cancelled"])


async def test_of_concurrent_retries_one_reaches_the_handler(store: OpenStore) -> None:
    workshop = Workshop()
    workshop.go_on.set()
    async with replicas(workshop.server, store) as clients:
        rounds = await Rounds.call(clients[0], "slow")
        retry = {**rounds.params, "requestState": rounds.state, "inputResponses": rounds.accepted(True)}
        outcomes = await asyncio.gather(
            *(client.request(rounds.method, retry) for client in clients * 5), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, RemoteError)]
        assert {refusal.code for refusal in refused} == {INVALID_PARAMS}
        assert len(refused) == len(outcomes) - 1
    assert workshop.ran.count("waits") == 1


class TestKilled:
    """Replicas in processes of their own, which are killed or stopped."""

    @pytest.fixture
    def record(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        file = tmp_path / "record"
        file.touch()
        monkeypatch.setenv("RECORD", str(file))
        return file

    @pytest.fixture
    def database(self, tmp_path: Path) -> str:
        return str(tmp_path / "shared.db")

    @staticmethod
    def ran(record: Path) -> list[str]:
        return [line.split()[0] for line in record.read_text().splitlines()]

    async def test_a_call_whose_replica_was_killed_runs_from_its_journal_elsewhere(
        self, record: Path, database: str
    ) -> None:
        with HttpProcess(SERVER, "--store", database) as one, HttpProcess(SERVER, "--store", database) as two:
            async with asked(f"{two.url}/mcp") as second:
                async with asked(f"{one.url}/mcp") as first:
                    rounds = await Rounds.call(first, "book")
                one.signal(signal.SIGKILL)
                one.wait()
                await rounds.answer(3, second)
                assert rounds.text == "3 days"
        assert self.ran(record) == ["body", "quote", "body", "pay"]

    async def test_a_replica_that_was_stopped_does_nothing_when_it_comes_back(
        self, record: Path, database: str
    ) -> None:
        with HttpProcess(SERVER, "--store", database) as one, HttpProcess(SERVER, "--store", database) as two:
            async with asked(f"{two.url}/mcp") as second, asked(f"{one.url}/mcp") as first:
                rounds = await Rounds.call(first, "book")
                one.signal(signal.SIGSTOP)
                try:
                    retry = {"requestState": rounds.state, "inputResponses": rounds.accepted(3)}
                    await rounds.answer(3, second)
                    assert rounds.text == "3 days"
                finally:
                    one.signal(signal.SIGCONT)
                refusal = await rounds.refused(first, **retry)
                assert refusal.code == INVALID_PARAMS
        assert self.ran(record) == ["body", "quote", "body", "pay"]

    @pytest.mark.slow
    async def test_the_outcome_is_unknown_if_the_replica_is_killed_while_it_runs_the_retry(
        self, record: Path, database: str
    ) -> None:
        with HttpProcess(SERVER, "--store", database) as one, HttpProcess(SERVER, "--store", database) as two:
            async with asked(f"{two.url}/mcp") as second:
                async with asked(f"{one.url}/mcp") as first:
                    rounds = await Rounds.call(first, "book", wait=True)
                retry = {"requestState": rounds.state, "inputResponses": rounds.accepted(3)}
                call = asyncio.create_task(second.request(rounds.method, {**rounds.params, **retry}))
                await until(lambda: self.ran(record) == ["body", "quote", "pay"])
                one.signal(signal.SIGKILL)
                with pytest.raises(OutcomeUnknown):
                    await call
                refusal = await rounds.refused(second, **retry)
                assert refusal.code == INVALID_PARAMS
        assert self.ran(record) == ["body", "quote", "pay"]
