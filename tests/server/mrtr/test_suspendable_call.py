"""Handlers that ask in rounds: what travels together, what waits, what is an error, and what is stopped."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail import CallToolResult, Client, Context, Server
from dovetail.protocol.errors import INTERNAL_ERROR, StepFailed
from dovetail.protocol.mrtr import Journal, JournalEntry, digest
from dovetail.protocol.revisions import NEWEST
from dovetail.server.mrtr.client_requests import Answer
from dovetail.server.mrtr.suspendable_call import SuspendableCall
from tests.support.asking import KEYS, Rounds, accept, asked
from tests.support.waiting import settled, until

Handler = Callable[[Context], Awaitable[Any]]


def serve(handler: Handler, **options: Any) -> Server:
    """A server whose one tool is the handler."""
    server = Server("one", state_keys=KEYS)

    @server.tool(**options)
    async def run(ctx: Context) -> Any:
        return await handler(ctx)

    return server


async def test_questions_asked_together_travel_in_one_round() -> None:
    async def handler(ctx: Context) -> list[Any]:
        async def chain(name: str) -> list[Any]:
            return [(await ctx.elicit(f"{name}{n}?", int)).data for n in (1, 2)]

        return list(await asyncio.gather(chain("a"), chain("b"), chain("c")))

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        assert call.messages == ["a1?", "b1?", "c1?"]
        await call.answer(1)
        assert call.messages == ["a2?", "b2?", "c2?"]
        await call.answer(2)
        assert call.result["structuredContent"] == [[1, 2]] * 3


async def test_a_question_waits_for_the_steps_beside_it() -> None:
    """The round is closed when nothing goes on any more, so that what the step leads to travels with it."""
    release = asyncio.Event()

    async def handler(ctx: Context) -> str:
        async def slow() -> None:
            await ctx.step("slow", release.wait)
            await ctx.elicit("after?", None)

        await asyncio.gather(ctx.elicit("at once?", None), slow())
        return "done"

    async with asked(serve(handler)) as client:
        calling = asyncio.create_task(Rounds.call(client, "run"))
        await settled(50)
        assert not calling.done()
        release.set()
        assert (await calling).messages == ["after?", "at once?"]


async def test_a_question_that_comes_late_costs_a_round() -> None:
    late = asyncio.Event()

    async def handler(ctx: Context) -> str:
        async def other() -> str:
            await late.wait()
            return (await ctx.elicit("late?", str)).data

        first, second = await asyncio.gather(ctx.elicit("early?", str), other())
        return f"{first.data} {second}"

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        assert call.messages == ["early?"]
        late.set()
        await settled()
        await call.answer("x")
        assert call.messages == ["late?"]
        await call.answer("y")
        assert call.text == "x y"


async def test_no_step_starts_between_the_question_and_its_answer() -> None:
    go, taken = asyncio.Event(), list[str]()

    async def handler(ctx: Context) -> str:
        async def other() -> None:
            await go.wait()
            await ctx.step("effect", taken.append, "effect")

        await asyncio.gather(ctx.elicit("sure?", bool), other())
        return "done"

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        go.set()
        await settled(50)
        assert taken == []
        await call.answer(True, replica)
        assert (call.text, taken) == ("done", ["effect"])
        await settled(50)
        assert taken == ["effect"]


async def test_a_step_that_waited_starts_when_the_call_goes_on() -> None:
    go, taken = asyncio.Event(), list[str]()

    async def handler(ctx: Context) -> str:
        async def other(name: str) -> None:
            await go.wait()
            await ctx.step(name, taken.append, name)

        await asyncio.gather(ctx.elicit("sure?", bool), other("a"), other("b"))
        return "done"

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        go.set()
        await settled()
        await call.answer(True)
        assert (call.text, sorted(taken)) == ("done", ["a", "b"])


class Fickle:
    """A handler that asks something else each time it runs."""

    def __init__(self, *questions: tuple[str, str | None]) -> None:
        self._questions = list(questions)
        self.heard: list[Answer] = []

    async def handler(self, ctx: Context) -> str:
        message, key = self._questions.pop(0)
        self.heard.append(await ctx.elicit(message, bool, key=key))
        return "paid"


async def test_another_question_under_the_same_key_is_an_error() -> None:
    fickle = Fickle(("Pay 10?", "pay"), ("Pay 1000?", "pay"))
    async with asked(serve(fickle.handler)) as client, asked(serve(fickle.handler)) as replica:
        call = await Rounds.call(client, "run")
        assert list(call.questions) == ["pay"]
        await call.answer(True, replica)
        assert call.result["isError"] is True
        assert "'pay' was requested before with another message" in call.text
        assert fickle.heard == []


async def test_another_question_is_asked_and_the_old_answer_is_an_error() -> None:
    fickle = Fickle(("Pay 10?", None), ("Pay 1000?", None))
    async with asked(serve(fickle.handler)) as client, asked(serve(fickle.handler)) as replica:
        call = await Rounds.call(client, "run")
        await call.answer(True, replica)
        assert call.messages == ["Pay 1000?"]
        problem = await call.refused(replica, requestState=call.state, inputResponses=call.accepted(True))
        assert problem.code == INTERNAL_ERROR
        assert "did not ask for the answer" in problem.message


async def test_who_swallows_the_mismatch_does_not_get_away_with_it() -> None:
    fickle = Fickle(("Pay 10?", "pay"), ("Pay 1000?", "pay"))

    async def handler(ctx: Context) -> str:
        with contextlib.suppress(Exception):
            await fickle.handler(ctx)
        return "whatever"

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        problem = await call.refused(replica, requestState=call.state, inputResponses=call.accepted(True))
        assert "did not ask for the answer 'pay'" in problem.message


async def test_an_answer_that_nobody_asks_for_any_more_is_an_error() -> None:
    runs: list[str] = []

    async def handler(ctx: Context) -> str:
        runs.append("run")
        if len(runs) == 1:
            await ctx.elicit("Sure?", bool)
        return "done without asking"

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        problem = await call.refused(replica, requestState=call.state, inputResponses=call.accepted(True))
        assert problem.code == INTERNAL_ERROR
        assert "The handler took another path" in problem.message


async def test_a_key_is_for_one_question() -> None:
    async def handler(ctx: Context) -> str:
        await ctx.elicit("a?", bool, key="mine")
        await ctx.elicit("b?", bool, key="mine")
        return "done"

    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(serve(handler), revision=revision, on_elicit=lambda _: {"value": True}) as client:
            result = await client.call("run", check=False)
            assert result.is_error
            assert "The key 'mine' was used twice" in result.text


async def test_a_handler_that_went_on_without_the_answer_says_what_came_of_it() -> None:
    """A question can be given up, with a timeout say; then its answer comes to nothing."""
    patience = asyncio.Event()

    async def handler(ctx: Context) -> str:
        question = asyncio.create_task(ctx.elicit("Quick?", bool))
        await patience.wait()
        question.cancel()
        return "too slow"

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        patience.set()
        await settled()
        await call.answer(True)
        assert call.text == "too slow"


async def test_a_question_given_up_is_replaced_by_the_next() -> None:
    patience = asyncio.Event()

    async def handler(ctx: Context) -> str:
        question = asyncio.create_task(ctx.elicit("Quick?", bool))
        await patience.wait()
        question.cancel()
        return (await ctx.elicit("Or slow?", str)).data

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        patience.set()
        await settled()
        await call.answer(True)
        assert call.messages == ["Or slow?"]
        await call.answer("slow")
        assert call.text == "slow"


async def test_the_same_question_twice_is_asked_twice() -> None:
    async def handler(ctx: Context) -> list[int]:
        return [(await ctx.elicit("Next?", int)).data for _ in range(3)]

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        for number, where in enumerate((client, replica, client)):
            [key] = call.questions
            await call.send(where, requestState=call.state, inputResponses={key: accept(number)})
        assert "[0,1,2]" in call.text


async def test_branches_with_steps_of_the_same_name_keep_them_apart() -> None:
    """The branch that goes on first need not be the one that does so when the handler runs again."""

    async def handler(ctx: Context) -> str:
        async def branch(name: str) -> str:
            await ctx.elicit(f"{name}?", None)
            return await ctx.step("effect", lambda: f"done {name}")

        return " ".join(await asyncio.gather(branch("a"), branch("b")))

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        keys = {question["params"]["message"]: key for key, question in call.questions.items()}
        await call.send(requestState=call.state, inputResponses={keys["b?"]: accept()})
        assert call.messages == ["a?"]
        await call.answer(client=replica)
        assert call.text == "done a done b"


async def test_a_failed_step_stays_failed() -> None:
    tries: list[str] = []

    def breaks() -> None:
        tries.append("try")
        raise ValueError("broken")

    async def handler(ctx: Context) -> str:
        try:
            await ctx.step("breaks", breaks)
        except StepFailed as problem:
            await ctx.elicit(str(problem), None)
            return str(problem)
        return "whole"

    async with asked(serve(handler)) as client, asked(serve(handler)) as replica:
        call = await Rounds.call(client, "run")
        assert call.messages == ["The step 'breaks' failed: ValueError: broken"]
        await call.answer(client=replica)
        assert call.text == "The step 'breaks' failed: ValueError: broken"
        assert tries == ["try"]


async def test_a_cancelled_request_stops_its_handler() -> None:
    """In the first round and in a later one; the handler may clean up before the connection is closed."""
    log: list[str] = []
    working = asyncio.Event()

    async def handler(ctx: Context) -> str:
        try:
            await ctx.elicit("Go?", None)
            working.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("stopped")
        return "never"

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        going = asyncio.create_task(call.answer())
        await working.wait()
        going.cancel()
        await until(lambda: log)


async def test_a_request_cancelled_before_it_asks() -> None:
    log: list[str] = []
    started = asyncio.Event()

    async def handler(ctx: Context) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("stopped")
        return "never"

    async with asked(serve(handler)) as client:
        going = asyncio.create_task(Rounds.call(client, "run"))
        await started.wait()
        going.cancel()
        await until(lambda: log)
    assert log == ["stopped"]


async def test_a_handler_that_cancels_itself_fails_only_its_call(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(ctx: Context) -> str:
        await ctx.elicit("Go?", None)
        raise asyncio.CancelledError

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        await call.answer()
        assert call.result["isError"] and call.text == "Tool 'run' was cancelled by its own code"
        assert await client.tools()


async def test_progress_goes_to_the_request_that_waits_now() -> None:
    async def handler(ctx: Context) -> str:
        await ctx.progress(1, 3)
        await ctx.elicit("Go on?", None)
        await ctx.progress(2, 3)
        return str(ctx.request_id)

    heard: list[tuple[int, float]] = []
    async with asked(serve(handler)) as client:
        call = Rounds(client, "tools/call", {"name": "run", "arguments": {}})

        def hear(number: int) -> Callable[..., None]:
            return lambda progress, total, message: heard.append((number, progress))

        call.result = await client.request(call.method, call.params, progress=hear(1))
        retry = {**call.params, "requestState": call.state, "inputResponses": call.accepted()}
        call.result = await client.request(call.method, retry, progress=hear(2))
        assert heard == [(1, 1), (2, 2)]


async def test_each_request_says_anew_what_its_client_can_do() -> None:
    async def handler(ctx: Context) -> str:
        await ctx.elicit("a?", None)
        await ctx.elicit("b?", None)
        return "done"

    async with asked(serve(handler)) as client:
        call = await Rounds.call(client, "run")
        bare = {"io.modelcontextprotocol/clientCapabilities": {}}
        retry = {**call.params, "requestState": call.state, "inputResponses": call.accepted()}
        with pytest.raises(Exception, match="does not support elicitation"):
            await client.request(call.method, retry, meta=bare)


async def test_prompts_and_resources_ask_too() -> None:
    server, replica = Server("asking", state_keys=KEYS), Server("asking", state_keys=KEYS)
    for each in (server, replica):

        @each.prompt
        async def greet(name: str, ctx: Context) -> str:
            return f"{name} {(await ctx.elicit('Tone?', str)).data}"

        @each.resource("note://{topic}")
        async def note(topic: str, ctx: Context) -> str:
            return f"{topic} {(await ctx.elicit('Length?', int)).data}"

    async with asked(server) as client, asked(replica) as other:
        for where in (client, other):
            prompt = Rounds(client, "prompts/get", {"name": "greet", "arguments": {"name": "Ann"}})
            await prompt.send()
            assert (await prompt.answer("kind", where))["messages"][0]["content"]["text"] == "Ann kind"
            note_read = Rounds(client, "resources/read", {"uri": "note://sea"})
            await note_read.send()
            assert (await note_read.answer(3, where))["contents"][0]["text"] == "sea 3"


async def test_a_handler_without_a_context_takes_the_straight_way() -> None:
    server = Server("plain")
    tasks: list[str] = []

    @server.tool
    async def plain() -> str:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task.get_name())
        return "done"

    async with asked(server) as client:
        assert (await client.call("plain")).text == "done"
    assert "interview" not in tasks[0]
    assert "desk" not in server.__dict__


class TestReplay:
    """A handler that runs again reports nothing until it does something new."""

    @staticmethod
    def journal(*steps: str) -> Journal:
        entries = {digest("step", name): JournalEntry(digest("step", name), name, step=True) for name in steps}
        return Journal(entries)

    async def run(self, journal: Journal, names: list[str]) -> list[tuple[str, bool]]:
        call, seen = SuspendableCall(NEWEST, journal, journal.answers()), list[tuple[str, bool]]()

        async def done() -> str:
            return "new"

        async def handler() -> CallToolResult:
            for name in names:
                seen.append((name, call.is_replaying))
                await call.step(name, done)
            seen.append(("end", call.is_replaying))
            return CallToolResult([])

        call.start(handler)
        await call.outcome()
        return seen

    async def test_a_first_run_replays_nothing(self) -> None:
        assert await self.run(self.journal(), ["a"]) == [("a", False), ("end", False)]

    async def test_steps_of_an_earlier_run_are_replayed(self) -> None:
        seen = await self.run(self.journal("a", "b"), ["a", "b", "c"])
        assert seen == [("a", True), ("b", True), ("c", False), ("end", False)]

    async def test_something_new_ends_the_replay_even_if_a_step_was_left_out(self) -> None:
        assert await self.run(self.journal("a", "b"), ["a", "c"]) == [("a", True), ("c", True), ("end", False)]
