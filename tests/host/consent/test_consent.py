"""Rules, the person, and the record of both."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail.host.consent.consent import Consent
from dovetail.host.consent.user_prompts import UserPrompts
from dovetail.host.events import HostEvent
from dovetail.policy.actions import Action
from dovetail.policy.approval_questions import CallQuestion, No, OnApprove, Question, Reply, RootsQuestion, Yes
from dovetail.policy.audit.log import Audit
from dovetail.policy.rules import Policy, Rule
from dovetail.policy.saved_answers import SavedAnswers
from dovetail.protocol.errors import LocalError, Refused
from dovetail.runtime.thread_pool import ThreadPool
from tests.host.hosting import records

CALL = Action(kind="tool", server="s", name="t", arguments={"a": 1}, definition="d", launch="l")


def question(rule: str) -> CallQuestion:
    return CallQuestion(server="s", tool="t", rule=rule)


class Desk:
    """A consent with everything around it."""

    def __init__(self, folder: Path, on_approve: OnApprove | None, *rules: Rule) -> None:
        self.events: list[HostEvent] = []
        self.workers = ThreadPool()
        self.person = UserPrompts(on_approve, None, self.events.append, 2, self.workers)
        home = folder / "user"
        self.audit = Audit(folder=home)
        self.consent = Consent(Policy(rules), SavedAnswers(home), self.person, self.audit, self.workers)

    async def settle(self, **options: Any) -> Any:
        return await self.consent.settle(CALL, question, **options)


async def test_what_the_rules_allow_is_not_asked(tmp_path: Path) -> None:
    desk = Desk(tmp_path, None, Rule("allow", tool="t"))
    settled = await desk.settle()
    assert (settled.by, settled.rule) == ("policy", "allow tool t of any server (code)")
    with pytest.raises(Refused, match="on_approve"):
        await desk.settle(at_least="ask")


async def test_what_they_deny_is_not_asked_either(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda _: True, Rule("deny", tool="t"))
    with pytest.raises(Refused, match=r"The policy does not let me call the tool 't' of 's' \(deny tool t"):
        await desk.settle()
    (record,) = records(tmp_path, "refusal")
    assert (record["by"], record["definition"]) == ("policy", "d")
    assert "deny tool t" in record["rule"]


@pytest.mark.parametrize("hold", ["session", "always"])
async def test_answers_are_remembered(tmp_path: Path, hold: Any) -> None:
    asked: list[Question] = []

    async def approve(one: Question) -> Reply:
        asked.append(one)
        return Yes(remember=hold)

    desk = Desk(tmp_path, approve)
    assert (await desk.settle()).by == "person"
    assert (await desk.settle()).by == "policy"
    assert len(asked) == 1
    again = Desk(tmp_path, approve)
    assert (await again.settle()).by == ("policy" if hold == "always" else "person")
    desk.workers.stop()
    again.workers.stop()


async def test_so_are_refusals(tmp_path: Path) -> None:
    replies = iter([No(remember="session", reason="never")])
    desk = Desk(tmp_path, lambda _: next(replies))
    for _ in range(2):
        with pytest.raises(Refused):
            await desk.settle()
    assert [record["by"] for record in records(tmp_path, "refusal")] == ["person", "policy"]
    desk.workers.stop()


async def test_a_question_that_is_withdrawn_is_recorded(tmp_path: Path) -> None:
    async def approve(one: Question) -> Reply:
        await asyncio.sleep(60)
        return True

    desk = Desk(tmp_path, approve)
    task = asyncio.create_task(desk.settle())
    while not desk.events:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.kind for event in desk.events] == ["question", "withdrawn"]
    (record,) = records(tmp_path, "refusal")
    assert (record["by"], record["details"]["reason"]) == ("nobody", "the question was withdrawn")


async def test_an_answer_that_is_none_is_an_error(tmp_path: Path) -> None:
    async def approve(one: Question) -> Any:
        return "yes please"

    with pytest.raises(LocalError, match="on_approve returns"):
        await Desk(tmp_path, approve).settle()


async def test_a_function_that_fails_is_a_no(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def approve(one: Question) -> Reply:
        raise ValueError("no terminal")

    with pytest.raises(Refused, match="could not be asked: ValueError: no terminal"):
        await Desk(tmp_path, approve).settle()
    assert "on_approve failed" in caplog.text
    assert [record["by"] for record in records(tmp_path, "refusal")] == ["nobody"]


async def test_only_what_servers_ask_is_bounded(tmp_path: Path) -> None:
    async def approve(one: Question) -> Reply:
        await asyncio.sleep(60)
        return True

    person = Desk(tmp_path, approve).person
    ours = [asyncio.create_task(person.approve(question(""))) for _ in range(5)]
    theirs = [asyncio.create_task(person.approve(RootsQuestion(server="s", roots=()))) for _ in range(3)]
    await asyncio.sleep(0)
    assert [task.done() for task in ours] == [False] * 5
    await asyncio.wait(theirs, return_when=asyncio.FIRST_COMPLETED)
    assert [task.done() for task in theirs] == [False, False, True]
    with pytest.raises(Refused, match="2 questions open"):
        await theirs[2]
    await person.questions.stop()
    await asyncio.gather(*ours, *theirs, return_exceptions=True)
