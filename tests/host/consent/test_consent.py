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
from dovetail.policy.user_decisions import SavedAnswers
from dovetail.protocol.errors import LocalError, Refused
from dovetail.runtime.thread_pool import ThreadPool
from tests.host.hosting import records

CALL = Action(kind="tool", server="s", name="t", arguments={"a": 1}, definition="d", launch="l")


def question(rule: str) -> CallQuestion:
    return CallQuestion(server="s", tool="t", rule=rule)


class ConsentFixture:
    """A consent with everything around it."""

    def __init__(self, folder: Path, on_approve: OnApprove | None, *rules: Rule) -> None:
        self.events: list[HostEvent] = []
        self.thread_pool = ThreadPool()
        self.person = UserPrompts(on_approve, None, self.events.append, 2, self.thread_pool)
        home = folder / "user"
        self.audit = Audit(folder=home)
        self.consent = Consent(Policy(rules), SavedAnswers(home), self.person, self.audit, self.thread_pool)

    async def authorize(self, **options: Any) -> Any:
        return await self.consent.authorize(CALL, question, **options)


async def test_what_the_rules_allow_is_not_asked(tmp_path: Path) -> None:
    fixture = ConsentFixture(tmp_path, None, Rule("allow", tool="t"))
    permission = await fixture.authorize()
    assert (permission.by, permission.rule) == ("policy", "allow tool t of any server (code)")
    with pytest.raises(Refused, match="on_approve"):
        await fixture.authorize(at_least="ask")


async def test_what_the_rules_deny_is_not_asked(tmp_path: Path) -> None:
    fixture = ConsentFixture(tmp_path, lambda _: True, Rule("deny", tool="t"))
    with pytest.raises(Refused, match=r"The policy does not allow me to call the tool 't' of 's' \(deny tool t"):
        await fixture.authorize()
    (record,) = records(fixture.audit, "refusal")
    assert (record["by"], record["definition"]) == ("policy", "d")
    assert "deny tool t" in record["rule"]


@pytest.mark.parametrize("hold", ["session", "always"])
async def test_answers_are_remembered(tmp_path: Path, hold: Any) -> None:
    asked: list[Question] = []

    async def approve(one: Question) -> Reply:
        asked.append(one)
        return Yes(remember=hold)

    fixture = ConsentFixture(tmp_path, approve)
    assert (await fixture.authorize()).by == "person"
    assert (await fixture.authorize()).by == "policy"
    assert len(asked) == 1
    again = ConsentFixture(tmp_path, approve)
    assert (await again.authorize()).by == ("policy" if hold == "always" else "person")
    fixture.thread_pool.stop()
    again.thread_pool.stop()


async def test_refusals_are_remembered(tmp_path: Path) -> None:
    replies = iter([No(remember="session", reason="never")])
    fixture = ConsentFixture(tmp_path, lambda _: next(replies))
    for _ in range(2):
        with pytest.raises(Refused):
            await fixture.authorize()
    assert [record["by"] for record in records(fixture.audit, "refusal")] == ["person", "policy"]
    fixture.thread_pool.stop()


async def test_a_question_that_is_withdrawn_is_recorded(tmp_path: Path) -> None:
    async def approve(one: Question) -> Reply:
        await asyncio.sleep(60)
        return True

    fixture = ConsentFixture(tmp_path, approve)
    task = asyncio.create_task(fixture.authorize())
    while not fixture.events:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.kind for event in fixture.events] == ["question", "withdrawn"]
    (record,) = records(fixture.audit, "refusal")
    assert (record["by"], record["details"]["reason"]) == ("nobody", "the question was withdrawn")


async def test_an_answer_that_is_none_is_an_error(tmp_path: Path) -> None:
    async def approve(one: Question) -> Any:
        return "yes please"

    with pytest.raises(LocalError, match="on_approve returns"):
        await ConsentFixture(tmp_path, approve).authorize()


async def test_a_function_that_fails_is_a_no(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def approve(one: Question) -> Reply:
        raise ValueError("no terminal")

    fixture = ConsentFixture(tmp_path, approve)
    with pytest.raises(Refused, match="could not be asked: ValueError: no terminal"):
        await fixture.authorize()
    assert "on_approve failed" in caplog.text
    assert [record["by"] for record in records(fixture.audit, "refusal")] == ["nobody"]


async def test_only_questions_of_servers_are_bounded(tmp_path: Path) -> None:
    async def approve(one: Question) -> Reply:
        await asyncio.sleep(60)
        return True

    person = ConsentFixture(tmp_path, approve).person
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
