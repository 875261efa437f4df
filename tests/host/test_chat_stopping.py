"""A stop reaches model and servers, and whatever happens, the conversation can go on."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Context, Server
from dovetail.host.catalogue import HostResource, HostTool
from dovetail.host.chat.chat import Chat
from dovetail.host.chat.events import ChatEvent, ChatLimits, ToolFinished, ToolProgress, ToolStarted, TurnEnded
from dovetail.host.chat.turn import BROKEN_OFF, STOPPED
from dovetail.host.error_results import RefusedResult
from dovetail.host.models.contract import Model, ModelEvent, TextDelta
from dovetail.host.models.scripted import ScriptedModel, ScriptStep, ScriptToolUse
from dovetail.protocol.errors import ConnectionLost, Refused
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.sampling import blocks_of, check_conversation
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult
from dovetail.types.content import SamplingContent, Text, ToolResultContent, ToolUse
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult, Tool
from tests.support.bench_host import bench
from tests.support.tidy import nothing_left_on_the_loop


class Waiting:
    """A server whose tool waits for ever, and what became of its calls."""

    def __init__(self) -> None:
        self.server = Server("waiting")
        self.begun = 0
        self.cancelled = asyncio.Semaphore(0)

        @self.server.tool
        async def wait(ctx: Context) -> str:
            self.begun += 1
            await ctx.progress(1, 2)
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.release()
            return "never"

        @self.server.tool
        async def quick() -> str:
            return "quick"


class Silent(ScriptedModel):
    """A model that says half a sentence and is closed at some time."""

    def __init__(self) -> None:
        super().__init__([])
        self.closed = asyncio.Event()

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        try:
            yield TextDelta("Once upon")
            await asyncio.Event().wait()
        finally:
            self.closed.set()


def last_results(chat: Chat) -> list[ToolResultContent]:
    return [block for block in blocks_of(chat.messages[-1].content) if isinstance(block, ToolResultContent)]


def words(result: ToolResultContent) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


def done(events: list[ChatEvent]) -> bool:
    return isinstance(events[-1], TurnEnded) and events[-1].reason == "done"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("how", ["stop", "cancel", "say"])
async def test_a_stop_reaches_the_servers(revision: str, how: str) -> None:
    waiting = Waiting()
    step = ScriptStep("Wait.", (ScriptToolUse("w__wait"), ScriptToolUse("w__quick"), ScriptToolUse("w__wait")))
    model = ScriptedModel({"Go": [step], "": ["Fine."]})
    async with nothing_left_on_the_loop(), bench(model, w=waiting.server, revision=revision) as host:
        chat = Chat(host)
        events: list[ChatEvent] = []
        ready = asyncio.Event()

        async def listen() -> None:
            async for event in chat.say("Go"):
                events.append(event)
                told = {one.id for one in events if isinstance(one, ToolProgress)}
                if len(told) == 2 and any(isinstance(one, ToolFinished) for one in events):
                    ready.set()

        task = asyncio.create_task(listen())
        await ready.wait()
        check_conversation(chat.messages)  # also while calls are under way
        match how:
            case "stop":
                await chat.stop()
                await task
            case "say":
                assert done([event async for event in chat.say("Other")])
                await task
            case _:
                task.cancel()
                await asyncio.wait((task,))
        async with asyncio.timeout(5):
            await waiting.cancelled.acquire()
            await waiting.cancelled.acquire()
        check_conversation(chat.messages)
        if how in ("stop", "say"):
            assert isinstance(events[-1], TurnEnded) and events[-1].reason == "stopped"
            assert len([one for one in events if isinstance(one, ToolFinished)]) == 3
        if how != "say":
            first, second, third = last_results(chat)
            assert words(first) == words(third) == STOPPED and "quick" in words(second)
        assert done([event async for event in chat.say("Again")])
    check_conversation(chat.messages)


async def test_a_stop_reaches_the_model_and_what_was_said_stays() -> None:
    model = Silent()
    async with nothing_left_on_the_loop(), bench(model) as host:
        chat = Chat(host)
        events: list[ChatEvent] = []
        async for event in chat.say("Tell me a story"):
            events.append(event)
            if isinstance(event, TextDelta):
                await chat.stop()
    assert model.closed.is_set()
    assert events == [TextDelta("Once upon"), TurnEnded(reason="stopped")]
    assert isinstance(last := chat.messages[-1].content, Text) and last.text == f"Once upon\n\n{BROKEN_OFF}"
    await chat.stop()  # there is nothing to stop any more


async def test_who_stops_listening_stops_the_turn() -> None:
    model = Silent()
    async with bench(model) as host:
        chat = Chat(host)
        async for _ in chat.say("Tell me a story"):
            break
        async with asyncio.timeout(5):
            await model.closed.wait()
            await chat.stop()
    check_conversation(chat.messages)


class Outcomes:
    """A host whose calls end as a test says: by the arguments that the model gives."""

    def __init__(self, model: Model) -> None:
        self.models = [model]
        self.held = asyncio.Event()

    async def tools(self) -> list[HostTool]:
        return [HostTool(name="s__do", server="s", tool=Tool(name="do", input_schema={"type": "object"}))]

    async def resources(self) -> list[HostResource]:
        return []

    def instructions(self) -> dict[str, str]:
        return {}

    async def read(self, server: str, uri: str) -> ReadResourceResult:
        raise Refused("no")

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        progress: Any = None,
        check: bool = True,
        background_after: float | None = None,
    ) -> CallToolResult:
        for number in range((arguments or {}).get("turns", 0)):
            progress(number, None, None)
            await asyncio.sleep(0)
        return await OUTCOMES[(arguments or {})["outcome"]](self)


async def fine(host: Outcomes) -> CallToolResult:
    return CallToolResult(content=[Text(text="fine </from-server>")])


async def wrong(host: Outcomes) -> CallToolResult:
    return CallToolResult(is_error=True)


async def refused(host: Outcomes) -> CallToolResult:
    return RefusedResult(content=[Text(text="no")], is_error=True)


async def raises(host: Outcomes) -> CallToolResult:
    raise ConnectionLost("gone")


async def breaks(host: Outcomes) -> CallToolResult:
    raise ZeroDivisionError


async def hangs(host: Outcomes) -> CallToolResult:
    await host.held.wait()
    return CallToolResult()


async def cancels(host: Outcomes) -> CallToolResult:
    raise asyncio.CancelledError


async def stubborn(host: Outcomes) -> CallToolResult:
    try:
        await host.held.wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return CallToolResult(content=[Text(text="all the same")])


OUTCOMES: dict[str, Callable[[Outcomes], Any]] = {
    one.__name__: one for one in (fine, wrong, refused, raises, breaks, hangs, cancels, stubborn)
}

wishes = st.fixed_dictionaries({"outcome": st.sampled_from(sorted(OUTCOMES)), "turns": st.integers(0, 2)})
use = st.builds(lambda given: ("s__do", given), wishes) | st.just(("s__nothing", {}))
answers = st.tuples(st.sampled_from(["", "a b c"]), st.lists(use, max_size=4), st.sampled_from(["same", "odd"]))
model_fails = st.sampled_from([None, ConnectionLost("gone"), ZeroDivisionError()])


class Random(ScriptedModel):
    """A model whose answers hypothesis wrote; tool uses may have the same id."""

    def __init__(self, rounds: list[Any], failure: Exception | None) -> None:
        super().__init__([])
        self._rounds = list(rounds)
        self._failure = failure

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        check_conversation(params.messages)
        if not self._rounds and self._failure is not None:
            raise self._failure
        text, wanted, ids = self._rounds.pop(0) if self._rounds else ("end", [], "same")
        for piece in text.split():
            await asyncio.sleep(0)
            yield TextDelta(piece)
        content: list[SamplingContent] = [Text(text=text)]
        content += [
            ToolUse(id="x" if ids == "same" else str(number), name=name, input=given)
            for number, (name, given) in enumerate(wanted)
        ]
        yield CreateMessageResult(role="assistant", content=content, model="m")


@settings(max_examples=150)
@given(
    st.lists(answers, max_size=4),
    model_fails,
    st.integers(0, 25),
    st.sampled_from(["stop", "break", "cancel", "release"]),
    st.sampled_from([ChatLimits(), ChatLimits(rounds=2), ChatLimits(calls=2), ChatLimits(output=3, tools=0)]),
)
def test_whatever_happens_the_conversation_is_one(
    rounds: list[Any], failure: Exception | None, moment: int, how: str, limits: ChatLimits
) -> None:
    async def go() -> None:
        host = Outcomes(Random(rounds, failure))
        chat = Chat(host, limits=limits)
        seen: list[ChatEvent] = []

        async def listen() -> None:
            async for event in chat.say("Go"):
                check_conversation(chat.messages)
                seen.append(event)
                if how == "break" and len(seen) > moment:
                    break

        task = asyncio.create_task(listen())
        for _ in range(moment):
            await asyncio.sleep(0)
            check_conversation(chat.messages)
        if how == "release":
            host.held.set()
        elif how == "cancel":
            task.cancel()
        async with asyncio.timeout(20):
            while not task.done():
                if how in ("stop", "break"):  # there may be nothing to stop yet
                    await chat.stop()
                await asyncio.sleep(0)
        if not task.cancelled():
            task.exception()
        await chat.stop()
        check_conversation(chat.messages)
        started = [event.id for event in seen if isinstance(event, ToolStarted)]
        finished = [event.id for event in seen if isinstance(event, ToolFinished)]
        if seen and isinstance(seen[-1], TurnEnded):
            assert sorted(started) == sorted(finished)
        chat.use(ScriptedModel({"": ["Fine."]}))
        host.held.set()
        assert limits.output == 3 or done([event async for event in chat.say("On")])
        check_conversation(chat.messages)

    asyncio.run(go())
