"""A chat on a real host: its policy decides, its servers are processes."""

import asyncio
from pathlib import Path

from dovetail.host.chat.events import ChatEvent, ToolFinished, ToolProgress, TurnEnded
from dovetail.host.events import LogLine
from dovetail.host.host import Host
from dovetail.host.models.scripted import ScriptedModel, ScriptStep, ScriptToolUse
from dovetail.policy.approval_questions import CallQuestion, LaunchQuestion, No, Question, Reply, Yes
from dovetail.protocol.sampling import check_conversation
from tests.host.hosting import Somebody, entry, hosting


async def turn(host: Host, *steps: ScriptStep | str) -> tuple[list[ChatEvent], str]:
    chat = host.chat(model=ScriptedModel(list(steps)))
    events = [event async for event in chat.say("Go")]
    check_conversation(chat.messages)
    return events, str(chat.messages)


def finished(events: list[ChatEvent]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


async def test_the_policy_decides_and_the_person_may_edit_or_refuse(tmp_path: Path) -> None:
    def answer(question: Question) -> Reply:
        if isinstance(question, LaunchQuestion):
            return Yes()
        assert isinstance(question, CallQuestion)
        if question.tool == "add":
            return Yes(arguments={"a": 2, "b": 2})
        return No(reason="Not today.")

    person = Somebody(answer)
    async with hosting(tmp_path, entry("calc"), person=person) as host:
        await host.ready()
        step = ScriptStep(
            use=(ScriptToolUse("calc__add", {"a": 1, "b": 1}), ScriptToolUse("calc__echo", {"text": "x"}))
        )
        events, conversation = await turn(host, step, "Done.")
    added, refused = sorted(finished(events), key=lambda event: event.tool)
    assert added.result.text == "4" and not added.refused
    assert refused.refused and "Not today." in refused.result.text
    assert "Not today." in conversation and isinstance(events[-1], TurnEnded) and events[-1].reason == "done"


async def test_a_server_that_dies_is_a_result_and_the_others_answer(tmp_path: Path) -> None:
    async with hosting(tmp_path, entry("one"), entry("two"), person=Somebody()) as host:
        await host.ready()
        step = ScriptStep(use=(ScriptToolUse("one__leave"), ScriptToolUse("two__echo", {"text": "still here"})))
        events, _ = await turn(host, step, "Done.")
    lost, echoed = sorted(finished(events), key=lambda event: event.server)
    assert lost.result.is_error and not lost.refused
    assert echoed.result.text == "still here"


async def test_a_stop_withdraws_questions(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def approve(question: Question) -> Reply:
        if isinstance(question, CallQuestion):
            asked.set()
            await asyncio.Event().wait()
        return True

    person = Somebody()
    async with hosting(tmp_path, entry("calc"), on_approve=approve, on_event=person.heard) as host:
        await host.ready()
        chat = host.chat(model=ScriptedModel([ScriptStep(use=(ScriptToolUse("calc__echo", {"text": "x"}),))]))

        async def listen() -> list[ChatEvent]:
            return [event async for event in chat.say("Go")]

        task = asyncio.create_task(listen())
        await asked.wait()
        await chat.stop()
        assert isinstance((await task)[-1], TurnEnded)
        assert [event.server for event in person.of("withdrawn")] == ["calc"]
        check_conversation(chat.messages)


async def test_a_stop_reaches_the_process(tmp_path: Path) -> None:
    async with hosting(tmp_path, entry("calc"), person=Somebody()) as host:
        await host.ready()
        chat = host.chat(model=ScriptedModel([ScriptStep(use=(ScriptToolUse("calc__wait", {"seconds": 60}),))]))
        events: list[ChatEvent] = []
        async for event in chat.say("Wait"):
            events.append(event)
            if isinstance(event, ToolProgress):
                await chat.stop()
        assert isinstance(events[-1], TurnEnded) and events[-1].reason == "stopped"
        check_conversation(chat.messages)

        def lines() -> list[LogLine]:
            return [line for line in host.logs("calc") if "the wait was cancelled" in line.text]

        async with asyncio.timeout(10):
            while not lines():
                await asyncio.sleep(0.01)
