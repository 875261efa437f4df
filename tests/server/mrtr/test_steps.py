"""Steps: what they give, on every era, and what cannot be part of one."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from dovetail import Client, Context, Server, ToolFailed
from dovetail.protocol.errors import StepFailed
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.mrtr.steps import make_step, run_step, step_result

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@dataclass
class Quote:
    total: float
    parts: tuple[int, ...]


class Model(BaseModel):
    name: str


class Caller:
    async def __call__(self) -> str:
        return "called"


def answer(_: Any) -> dict[str, Any]:
    return {"value": True}


@pytest.mark.parametrize(
    ("given", "remembered"),
    [
        (Quote(1.5, (1, 2)), {"total": 1.5, "parts": [1, 2]}),
        (Model(name="a"), {"name": "a"}),
        ((1, (2, None)), [1, [2, None]]),
        (float("nan"), None),
        ({1: "a"}, {"1": "a"}),
        (2**80, 2**80),
        (None, None),
    ],
)
async def test_the_result_is_what_json_makes_of_it(given: Any, remembered: Any) -> None:
    async def work() -> Any:
        return given

    entry, problem = await run_step(work, "token")
    assert problem is None
    assert step_result("name", entry) == remembered


async def test_a_failure_is_remembered_in_words_and_its_cause_is_kept_for_the_log() -> None:
    async def work() -> Any:
        raise KeyError("key")

    entry, problem = await run_step(work, "token")
    with pytest.raises(StepFailed, match="The step 'name' failed: KeyError: 'key'") as caught:
        step_result("name", entry, problem)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(StepFailed):
        step_result("name", entry)


async def test_what_json_cannot_hold_fails_the_step() -> None:
    async def work() -> Any:
        return object()

    entry, _ = await run_step(work, "token")
    assert entry.failed


async def test_any_kind_of_function_will_do() -> None:
    workers = ThreadPool()

    async def coroutine() -> str:
        return "coroutine"

    async def outcome(function: Any) -> Any:
        return step_result("name", (await run_step(make_step(object(), workers, function), "token"))[0])

    try:
        assert await outcome(coroutine) == "coroutine"
        assert await outcome(lambda: "plain") == "plain"
        assert await outcome(lambda: coroutine()) == "coroutine"
        assert await outcome(Caller()) == "called"
    finally:
        workers.stop()


@ERAS
async def test_a_question_cannot_be_part_of_a_step(revision: str) -> None:
    server = Server("nested")

    @server.tool
    async def nested(ctx: Context) -> str:
        return str(await ctx.step("outer", lambda: ctx.elicit("Sure?", bool)))

    async with Client(server, revision=revision, on_elicit=answer) as client:
        with pytest.raises(ToolFailed, match="elicitation/create cannot be asked inside a step"):
            await client.call("nested")


@ERAS
async def test_a_question_beside_a_step_is_no_part_of_it(revision: str) -> None:
    server = Server("beside")

    @server.tool
    async def beside(ctx: Context) -> list[Any]:
        step, answer = await asyncio.gather(ctx.step("s", asyncio.sleep, 0.01, "slept"), ctx.elicit("Sure?", bool))
        return [step, answer.data]

    async with Client(server, revision=revision, on_elicit=answer) as client:
        assert (await client.call("beside")).data == ["slept", True]


@ERAS
async def test_a_step_may_call_another_server_that_asks(revision: str) -> None:
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    async def asks(ctx: Context) -> bool:
        return (await ctx.elicit("Sure?", bool)).data

    @outer.tool
    async def calls(ctx: Context) -> bool:
        async def call() -> Any:
            async with Client(inner, revision=revision, on_elicit=answer) as client:
                return (await client.call("asks")).data

        return await ctx.step("call", call)

    async with Client(outer, revision=revision) as client:
        assert (await client.call("calls")).data is True


@ERAS
async def test_steps_within_steps(revision: str) -> None:
    server = Server("nested")
    taken: list[str] = []

    @server.tool
    async def nested(ctx: Context) -> str:
        async def outer() -> str:
            return await ctx.step("inner", lambda: taken.append("inner") or "deep")

        found = await ctx.step("outer", outer)
        await ctx.elicit("Sure?", bool)
        return found

    async with Client(server, revision=revision, on_elicit=answer) as client:
        assert (await client.call("nested")).data == "deep"
    assert taken == ["inner"]
