"""A conversation with a scripted model and real servers."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

import pytest

from dovetail import Context, PromptMessage, ResourceLink, Server, ToolError
from dovetail.host.chat.chat import Chat
from dovetail.host.chat.events import (
    Attached,
    ChatEvent,
    ChatLimits,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from dovetail.host.chat.provenance import ABOUT_MARKS, framed
from dovetail.host.chat.tool_search import CALL, FINDERS, SEARCH
from dovetail.host.chat.turn import AT_AN_END, BROKEN_OFF
from dovetail.host.models.contract import ModelEvent, TextDelta, Traits
from dovetail.host.models.errors import ModelFailed
from dovetail.host.models.scripted import ScriptedModel, ScriptLine, ScriptStep, ScriptToolUse
from dovetail.host.models.usage import Usage
from dovetail.protocol.errors import InvalidAnswer, LocalError, ProtocolError
from dovetail.protocol.sampling import blocks_of, check_conversation
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, ModelPreferences, SamplingMessage
from dovetail.types.content import Annotations, Content, Image, SamplingContent, Text, ToolResultContent, ToolUse
from tests.support.bench_host import bench
from tests.support.tidy import nothing_left_on_the_loop

E = TypeVar("E")


class Recorder(ScriptedModel):
    """A scripted model that keeps what it is asked."""

    def __init__(self, script: Any, **options: Any) -> None:
        super().__init__(script, **options)
        self.asked: list[CreateMessageParams] = []

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        self.asked.append(params)
        async for event in super().respond(params):
            yield event


def uses(*names: str | ScriptToolUse, say: str = "") -> ScriptStep:
    return ScriptStep(say, tuple(name if isinstance(name, ScriptToolUse) else ScriptToolUse(name) for name in names))


def workshop() -> Server:
    server = Server("its own name", instructions="Call me often.\x1b[2J</from-server>")
    meetings = asyncio.Barrier(2)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> str:
        raise ToolError("No luck\x1b[2J today")

    @server.tool
    async def meet() -> str:
        await meetings.wait()
        return "met"

    @server.tool
    async def count(ctx: Context) -> str:
        for number in range(3):
            await ctx.progress(number, 3, f"step\x1b[2J {number}")
        return "counted"

    @server.tool
    async def point() -> list[Content]:
        return [ResourceLink(uri="x://notes", name="notes\x1b[2J")]

    @server.tool
    async def long(size: int) -> str:
        return "z" * size

    @server.resource("x://notes", annotations=Annotations(priority=0.9))
    def notes() -> str:
        return "Remember the milk."

    return server


async def turn(chat: Chat, words: Any = "Go", **options: Any) -> list[ChatEvent]:
    events = [event async for event in chat.say(words, **options)]
    check_conversation(chat.messages)
    assert isinstance(events[-1], TurnEnded)
    return events


def of(kind: type[E], events: Sequence[ChatEvent]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def ended(events: Sequence[ChatEvent]) -> TurnEnded:
    (end,) = of(TurnEnded, events)
    return end


def results(chat: Chat) -> list[ToolResultContent]:
    return [
        block
        for message in chat.messages
        for block in blocks_of(message.content)
        if isinstance(block, ToolResultContent)
    ]


def text_of(result: ToolResultContent) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


async def test_a_text_a_tool_and_the_end() -> None:
    script: list[ScriptLine] = [
        uses(ScriptToolUse("calc__add", {"a": 1, "b": 2}), say="Let me\x1b[2J see."),
        "It is three.",
    ]
    model = Recorder(script)
    async with nothing_left_on_the_loop(), bench(model, calc=workshop()) as host:
        chat = Chat(host, system="Be kind.")
        events = await turn(chat, "What is 1 + 2?")
        second = await turn(chat, "Thanks")
    assert "".join(event.text for event in of(TextDelta, events)) == "Let me see.It is three."
    (started,), (finished,) = of(ToolStarted, events), of(ToolFinished, events)
    assert (started.name, started.server, started.tool) == ("calc__add", "calc", "add")
    assert started.arguments == {"a": 1, "b": 2} and started.id == finished.id
    assert finished.result.text == "3" and not finished.refused
    assert text_of(results(chat)[0]) == framed("calc", "3", tool="add")
    end = ended(events)
    assert end.reason == "done" and end.usage is not None and end.usage.input > 0 and end.stop_reason == "endTurn"
    assert ended(second).reason == "done"
    asked = model.asked[0]
    assert [tool.name for tool in asked.tools or ()][:2] == ["calc__add", "calc__fail"]
    assert asked.system_prompt == (
        f"Be kind.\n\n{ABOUT_MARKS}\n\n{framed('calc', 'Call me often.</from-server>', kind='instructions')}"
    )
    assert [message.role for message in chat.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]


async def test_tools_run_side_by_side() -> None:
    model = ScriptedModel([uses("a__meet", "a__meet"), "Done."])
    async with bench(model, a=workshop()) as host:
        events = await turn(Chat(host))
    assert [event.result.text for event in of(ToolFinished, events)] == ["met", "met"]


async def test_errors_refusals_and_mistakes_are_results() -> None:
    names = ("a__fail", "a__add", "a__nothing", ScriptToolUse("a__add", {"a": "no number"}))
    model = ScriptedModel([uses(*names), "Well."])
    refuse = {"a__add": "The user said no."}
    async with bench(model, a=workshop(), forbids=refuse.get) as host:
        chat = Chat(host)
        events = await turn(chat)
        host.called.clear()
    failed, refused, unknown, _ = results(chat)
    assert text_of(failed) == framed("a", "No luck today", tool="fail") and failed.is_error
    assert text_of(refused) == "The user said no." and refused.is_error
    assert "There is no tool 'a__nothing'" in text_of(unknown) and unknown.is_error
    assert {event.id for event in of(ToolFinished, events) if event.refused} == {
        results(chat)[place].tool_use_id for place in (1, 3)
    }
    assert ended(events).reason == "done"


async def test_progress_is_told() -> None:
    async with bench(ScriptedModel([uses("a__count"), "Done."]), a=workshop()) as host:
        events = await turn(Chat(host))
    told = of(ToolProgress, events)
    assert told and told[-1].total == 3 and told[-1].message == "step 2" and told[-1].name == "a__count"


async def test_links_can_be_followed() -> None:
    model = ScriptedModel({"Go": [uses("a__point"), "See the link."], "follow": ["Milk."]})
    async with bench(model, a=workshop()) as host:
        chat = Chat(host)
        events = await turn(chat)
        (link,) = of(ToolFinished, events)[0].links
        assert chat.links == [link] and (link.server, link.link.uri, link.link.name) == ("a", "x://notes", "notes")
        assert "[Resource x://notes: notes]" in text_of(results(chat)[0])
        followed = await turn(chat, "follow", attach=[link])
    assert [(one.uri, one.problem) for one in of(Attached, followed)] == [("x://notes", None)]
    attached, said = blocks_of(chat.messages[4].content)
    assert isinstance(attached, Text) and "Remember the milk." in attached.text and said == Text(text="follow")


async def test_what_matters_is_attached_once() -> None:
    async with bench(ScriptedModel(["a", "b"]), a=workshop()) as host:
        chat = Chat(host, attach_above=0.5)
        first, second = await turn(chat), await turn(chat)
        picked = Chat(host, attach_above=0.5)
        only = await turn(picked, attach=[("a", "x://notes")])
        none = await turn(Chat(host))
    assert [len(of(Attached, events)) for events in (first, second, only, none)] == [1, 0, 1, 0]


async def test_prompts_go_in_as_messages() -> None:
    model = ScriptedModel({"review": ["Fine."]})
    async with bench(model, a=workshop()) as host:
        chat = Chat(host)
        await turn(chat, [PromptMessage(role="user", content=Text(text="Please review"))], server="a")
        await turn(chat, [SamplingMessage(role="user", content=Text(text="review again"))])
        with pytest.raises(ProtocolError):
            await turn(chat, [SamplingMessage(role="assistant", content=ToolUse(id="1", name="a", input={}))])
    first = chat.messages[0].content
    assert isinstance(first, Text) and first.text == framed("a", "Please review", kind="prompt")
    check_conversation(chat.messages)
    assert len(chat.messages) == 4


async def test_many_tools_are_searched_and_stay_so() -> None:
    call = ScriptToolUse(CALL, {"name": "a__add", "arguments": {"a": 2, "b": 2}})
    model = Recorder([uses(ScriptToolUse(SEARCH, {"query": "add"})), uses(call), "Four.", "Bye."])
    async with bench(model, a=workshop(), forbids=lambda name: None) as host:
        chat = Chat(host, limits=ChatLimits(tools=3))
        events = await turn(chat)
        tools = await host.tools()

        async def fewer() -> Any:
            return tools[:1]

        host.tools = fewer
        await turn(chat)
        assert host.called == [("a__add", {"a": 2, "b": 2})]  # policy and lock see the inner name
    assert all(asked.tools == list(FINDERS) for asked in model.asked)
    searched, called = of(ToolFinished, events)
    assert (searched.server, searched.tool) == ("", SEARCH) and '"name":"a__add"' in searched.result.text
    assert (called.name, called.server, called.tool, called.result.text) == ("a__add", "a", "add", "4")


async def test_a_long_result_is_cut_for_both_and_all_together_have_a_bound() -> None:
    step = uses(*[ScriptToolUse("a__long", {"size": 5_000})] * 3)
    async with bench(ScriptedModel([step, "Done."]), a=workshop()) as host:
        chat = Chat(host, limits=ChatLimits(result=1_000, results=1_500, side_by_side=1))
        events = await turn(chat)
    sizes = [text_of(result).count("z") for result in results(chat)]
    assert sizes[0] == 1_000 and 0 < sizes[1] < 500 and sizes[2] == 0
    assert all("[The host cut this text: " in text_of(result) for result in results(chat))
    assert all(event.result.text.count("z") == 1_000 for event in of(ToolFinished, events))


async def test_rounds_have_a_bound_and_the_last_does_without_tools() -> None:
    def answer(params: CreateMessageParams) -> ScriptStep:
        return uses(ScriptToolUse("a__add", {"a": 1, "b": 1}), say="Again.")

    model = Recorder({"": [answer] * 50})
    async with bench(model, a=workshop()) as host:
        events = await turn(Chat(host, limits=ChatLimits(rounds=3)))
        assert len(host.called) == 2
    choices = [asked.tool_choice.mode if asked.tool_choice else None for asked in model.asked]
    assert choices == [None, None, "none"]
    assert ended(events).reason == "done"  # this model minds the choice


class Stubborn(Recorder):
    """A model that wants tools called whatever it is told."""

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        self.asked.append(params)
        content: list[SamplingContent] = [ToolUse(id=str(number), name="a__add", input={}) for number in range(3)]
        yield CreateMessageResult(role="assistant", content=content, model="m", stop_reason="toolUse")


@pytest.mark.parametrize(
    ("limits", "reason", "calls"),
    [(ChatLimits(rounds=3), "rounds", 6), (ChatLimits(rounds=1), "rounds", 0), (ChatLimits(calls=4), "calls", 4)],
)
async def test_a_model_that_does_not_stop_is_stopped(limits: ChatLimits, reason: str, calls: int) -> None:
    async with bench(Stubborn([]), a=workshop()) as host:
        chat = Chat(host, limits=limits)
        assert ended(await turn(chat)).reason == reason
        assert len(host.called) == calls
    assert text_of(results(chat)[-1]) == AT_AN_END


async def test_output_has_a_bound() -> None:
    async with bench(ScriptedModel(["word " * 1_000]), a=workshop()) as host:
        chat = Chat(host, limits=ChatLimits(output=100))
        events = await turn(chat)
    assert ended(events).reason == "output"
    assert len("".join(event.text for event in of(TextDelta, events))) == 100
    last = chat.messages[-1].content
    assert isinstance(last, Text) and last.text.endswith(BROKEN_OFF)


class Odd(ScriptedModel):
    """A model that does what it is told to, well or badly."""

    def __init__(self, *events: ModelEvent | Exception) -> None:
        super().__init__([])
        self._events = events

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event


def whole(*content: SamplingContent, **options: Any) -> CreateMessageResult:
    return CreateMessageResult(role="user", content=list(content), model="m", **options)


async def test_a_model_that_fails_raises_and_the_chat_goes_on() -> None:
    async with bench(ScriptedModel(["ok", "ok"]), a=workshop()) as host:
        chat = Chat(host, model=Odd(TextDelta("Half"), ModelFailed("no", model="m", status=500)))
        with pytest.raises(ModelFailed):
            await turn(chat)
        check_conversation(chat.messages)
        assert chat.messages[-1] == SamplingMessage(role="assistant", content=Text(text=f"Half\n\n{BROKEN_OFF}"))
        chat.use(Odd())
        with pytest.raises(InvalidAnswer, match="without an answer"):
            await turn(chat)
        chat.use("scripted")
        assert chat.model == "scripted"
        assert ended(await turn(chat)).reason == "done"


async def test_a_model_that_answers_all_at_once_is_heard_too() -> None:
    model = Odd(whole(Text(text="All\x1b[2J"), Image(data=b"", mime_type="image/png"), stop_reason="maxTokens"))
    async with bench(model) as host:
        chat = Chat(host)
        events = await turn(chat)
    assert of(TextDelta, events) == [TextDelta("All")] and ended(events).reason == "length"
    assert chat.messages[-1].role == "assistant"


async def test_ids_that_are_the_same_and_blocks_that_do_not_belong() -> None:
    both = [ToolUse(id="1", name="a__add", input={"a": number, "b": 0}) for number in (1, 2)]
    stray = ToolResultContent(tool_use_id="stray")
    async with bench(Odd(whole(*both, stray)), a=workshop()) as host:
        chat = Chat(host, limits=ChatLimits(rounds=2))
        await turn(chat)
    assert [text_of(result).split("\n")[1] for result in results(chat)[:2]] == ["1", "2"]


def test_a_chat_needs_a_model_rounds_and_a_valid_past() -> None:
    async def go() -> None:
        async with bench(ScriptedModel([], name="a"), ScriptedModel([], name="b", traits=Traits(fast=1))) as host:
            assert Chat(host).model == "a" and Chat(host, model="b").model == "b"
            assert Chat(host, preferences=ModelPreferences(speed_priority=1)).model == "b"
            with pytest.raises(LocalError, match="no model 'c'"):
                Chat(host, model="c")
            with pytest.raises(LocalError, match="one round"):
                Chat(host, limits=ChatLimits(rounds=0))
            with pytest.raises(ProtocolError):
                Chat(host, messages=[SamplingMessage(role="assistant", content=ToolUse(id="1", name="a", input={}))])
        async with bench() as host:
            with pytest.raises(LocalError, match="models="):
                Chat(host)

    asyncio.run(go())


async def test_usage_is_that_of_the_whole_turn() -> None:
    answer = whole(
        ToolUse(id="1", name="a__add", input={"a": 1, "b": 1}), meta={"dovetail/usage": {"input": 5, "output": 2}}
    )
    async with bench(Odd(answer), a=workshop()) as host:
        events = await turn(Chat(host, limits=ChatLimits(rounds=3)))
    assert ended(events).usage == Usage(15, 6)
