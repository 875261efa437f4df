"""Random handlers come to the same on every era, in one process and spread over several."""

import asyncio
import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail import Client
from dovetail.types.client_features import CreateMessageResult
from dovetail.types.content import Text
from tests.conftest import PATIENCE
from tests.support import plans
from tests.support.plans import Plan, Teller

KEY = b"a key that all replicas have"
ENVELOPE = "2026-07-28"


def numbered(plan: Plan, count: Any = None) -> Plan:
    """Every step with a mark of its own, and every key given by hand different from the others."""
    count = count or itertools.count()
    out: Plan = []
    for kind, *rest in plan:
        if kind in ("step", "fail"):
            out.append([kind, rest[0], f"mark {next(count)}"])
        elif kind in ("ask", "sample"):
            out.append([kind, rest[0], f"key {next(count)}" if rest[1] else None])
        elif kind == "if":
            out.append([kind, *(numbered(branch, count) for branch in rest)])
        elif kind in ("gather", "group"):
            out.append([kind, [numbered(branch, count) for branch in rest[0]]])
        else:
            out.append([kind, *rest])
    return out


words = st.sampled_from(["a", "b", "c", "d"])
leaves = st.one_of(
    st.tuples(st.just("ask"), words, st.booleans()),
    st.tuples(st.just("ask"), words, st.booleans()),
    st.tuples(st.just("sample"), words, st.booleans()),
    st.tuples(st.just("roots")),
    st.tuples(st.just("step"), words),
    st.tuples(st.just("step"), words),
    st.tuples(st.just("fail"), words),
    st.tuples(st.just("pause"), st.integers(1, 6)),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branch = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), branch, branch),
        st.tuples(st.just("gather"), st.lists(branch, min_size=1, max_size=3)),
        st.tuples(st.just("group"), st.lists(branch, min_size=1, max_size=3)),
    )


handlers = st.lists(st.recursive(leaves, larger, max_leaves=14), max_size=5).map(numbered)


def say(asked: Any) -> CreateMessageResult:
    return CreateMessageResult("assistant", Text(f"said {asked.messages[0].content.text}"), "m")


ANSWERS: dict[str, Any] = {
    "on_elicit": lambda question: plans.elicited(question.message).get("content"),
    "on_sample": say,
    "roots": ["/"],
    "max_rounds": 100,
}


def expected(plan: Plan) -> tuple[list[Any], Counter[str]]:
    teller = Teller()
    return teller.tell(plan), Counter(teller.steps)


async def call(target: Any, revision: str, plan: Plan) -> Any:
    async with Client(target, revision=revision, **ANSWERS) as client:
        return (await client.call("carry_out", plan=plan)).data


class Whims:
    """Which replica gets the next request, and which answers are left out of it for now."""

    def __init__(self, choices: Sequence[int], left_out: int) -> None:
        self._choices = itertools.cycle(choices)
        self._left_out = left_out

    def replica(self, replicas: Sequence[Client]) -> Client:
        return replicas[next(self._choices) % len(replicas)]

    def some(self, questions: dict[str, Any]) -> dict[str, Any]:
        if self._left_out and len(questions) > 1:
            self._left_out -= 1
            dropped = sorted(questions)[next(self._choices) % len(questions)]
            return {key: question for key, question in questions.items() if key != dropped}
        return questions


async def spread(replicas: Sequence[Client], plan: Plan, whims: Whims) -> Any:
    """Carry a plan out in rounds, each on whichever replica it is; answers that nobody wants come with them."""
    params: dict[str, Any] = {"name": "carry_out", "arguments": {"plan": plan}}
    more: dict[str, Any] = {}
    while True:
        result = await whims.replica(replicas).request("tools/call", {**params, **more})
        if result["resultType"] == "complete":
            assert not result.get("isError"), result
            return result["structuredContent"]
        answers = {
            key: plans.answer(question["method"], question.get("params"))
            for key, question in whims.some(result["inputRequests"]).items()
        }
        more = {"requestState": result["requestState"], "inputResponses": {**answers, "nobody's": {"roots": []}}}


async def connected(stack: contextlib.AsyncExitStack, target: Any) -> Client:
    return await stack.enter_async_context(Client(target, revision=ENVELOPE, **ANSWERS))


@settings(max_examples=200)
@given(handlers, st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 5))
def test_a_handler_comes_to_the_same_everywhere(plan: Plan, choices: list[int], left_out: int) -> None:
    value, steps = expected(plan)

    async def on_handshake() -> None:
        notes: list[str] = []
        assert await call(plans.build(notes.append, [KEY]), "2025-11-25", plan) == value
        assert Counter(notes) == steps + Counter(["run"])

    async def in_one_process() -> None:
        notes: list[str] = []
        assert await call(plans.build(notes.append, [KEY]), ENVELOPE, plan) == value
        assert Counter(notes) == steps + Counter(["run"])

    async def in_three() -> None:
        notes: list[str] = []
        async with contextlib.AsyncExitStack() as stack:
            replicas = [await connected(stack, plans.build(notes.append, [KEY])) for _ in range(3)]
            assert await spread(replicas, plan, Whims(choices, left_out)) == value
        assert Counter(mark for mark in notes if mark != "run") == steps

    async def everywhere() -> None:
        async with asyncio.timeout(PATIENCE):
            await on_handshake()
            await in_one_process()
            await in_three()

    asyncio.run(everywhere())


class Fleet:
    """Three processes with one key, and what they write down."""

    def __init__(self, runner: asyncio.Runner, notes: Path) -> None:
        self.runner = runner
        self.notes = notes
        self.replicas: list[Client] = []

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        command = [sys.executable, plans.__file__, str(self.notes), KEY.decode()]
        self.replicas = [await connected(stack, command) for _ in range(3)]

    def taken(self) -> Counter[str]:
        """The steps taken since the last look."""
        steps = self.notes.read_text().splitlines()
        self.notes.write_text("")
        return Counter(step for step in steps if step != "run")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        made = Fleet(runner, tmp_path_factory.mktemp("fleet") / "notes")
        runner.run(made.open(stack))
        yield made
        runner.run(stack.aclose())


@settings(max_examples=30)
@example([["ask", "a", None], ["step", "a", "mark 0"], ["ask", "b", None]], [0, 1, 2], 0)
@given(handlers, st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 5))
def test_the_same_with_real_processes(fleet: Fleet, plan: Plan, choices: list[int], left_out: int) -> None:
    value, steps = expected(plan)
    fleet.notes.write_text("")
    assert fleet.runner.run(spread(fleet.replicas, plan, Whims(choices, left_out))) == value
    assert fleet.taken() == steps
