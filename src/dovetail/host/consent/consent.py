"""From what is about to happen to whether it may: the rules, the person if need be, and the record of both."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dovetail.policy.actions import Action, Decision, Verdict
from dovetail.policy.approval_questions import Question, Yes
from dovetail.policy.audit.log import Audit, AuditEvent, Decider, Unrecorded
from dovetail.policy.rules import Policy, stricter
from dovetail.policy.saved_answers import Said, SavedAnswers
from dovetail.protocol.errors import DovetailError, Refused
from dovetail.runtime.thread_pool import ThreadPool

from .user_prompts import UserPrompts

logger = logging.getLogger("dovetail")

NOBODY = "Nobody can be asked"
"""How a refusal begins that is nobody's decision."""

_WORDS = {
    "launch": "start the server {server}",
    "tool": "call the tool {name} of {server}",
    "prompt": "get the prompt {name} of {server}",
    "resource": "read {name} of {server}",
    "sampling": "let {server} ask a model",
    "sampling-answer": "let {server} see what the model said",
    "context": "let {server} see more of the conversation",
    "elicitation": "let {server} ask the person",
    "roots": "let {server} know of the folders",
    "definition": "take up what {server} says of {name}",
}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """It may happen: who said so, by which rule, and what the person changed about it."""

    by: Decider
    rule: str
    yes: Yes = Yes()


class Consent:
    """Decides on every action of a host; nobody to ask means no."""

    def __init__(
        self, policy: Policy, remembered: SavedAnswers, person: UserPrompts, audit: Audit | None, workers: ThreadPool
    ) -> None:
        self.policy = policy
        self._remembered = remembered
        self._person = person
        self._audit = audit
        self._workers = workers

    @property
    def asks(self) -> bool:
        """Whether there is somebody to ask."""
        return self._person.approves

    def decide(self, action: Action) -> Decision:
        """What the rules and the person's earlier answers say."""
        return self.policy.decide(action, self._remembered.answers(action))

    def record(self, event: AuditEvent, action: Action, by: Decider | None, rule: str, **details: Any) -> None:
        """Write something about an action down; what cannot be recorded is refused."""
        if self._audit is not None:
            kept = {name: value for name, value in details.items() if value not in (None, (), "")}
            self._audit.write(
                event,
                server=action.server,
                name=action.name,
                by=by,
                rule=rule,
                definition=action.definition,
                kind=action.kind,
                **kept,
            )

    def hide(self, values: Iterable[str | None]) -> None:
        """Keep values out of the record from now on: what a server was given as a secret it may say again."""
        if self._audit is not None:
            self._audit.hide(values)

    def note(self, event: AuditEvent, action: Action, **details: Any) -> None:
        """Write down what has happened already: where that fails, it is said in the log, and undoes nothing."""
        try:
            self.record(event, action, None, "", **details)
        except Unrecorded as problem:
            logger.error("%s: %s %s: %s (%s)", action.server, action.kind, action.name, details, problem)

    async def settle(
        self, action: Action, question: Callable[[str], Question], at_least: Verdict = "allow"
    ) -> Permission:
        """Whether an action may happen; raises `Refused` if not.

        `question` is made of the rule that wants it asked. With `at_least` it is asked even where the rules allow it.
        """
        decision = self.decide(action)
        verdict = stricter(decision.verdict, at_least)
        if verdict == "allow":
            return Permission(by="policy", rule=decision.rule)
        if verdict == "deny":
            raise self.refuse(action, "policy", decision.rule, f"The policy does not let me {_words(action)}")
        if not self._person.approves:
            why = f"{NOBODY} whether to {_words(action)}: give the host on_approve, or a rule that allows it"
            raise self.refuse(action, "nobody", decision.rule, why)
        return await self._ask(action, question(decision.rule), decision.rule)

    def refuse(self, action: Action, by: Decider, rule: str, why: str, **details: Any) -> Refused:
        """The refusal of an action, recorded."""
        self.record("refusal", action, by, rule, reason=why, arguments=action.arguments or None, **details)
        return Refused(f"{why} ({rule})" if by != "person" and rule else why)

    async def _ask(self, action: Action, question: Question, rule: str) -> Permission:
        self.record("question", action, None, rule, arguments=action.arguments or None)
        try:
            reply = await self._person.approve(question)
        except (DovetailError, asyncio.CancelledError) as problem:
            self.note_unasked(action, rule, problem)
            raise
        if not isinstance(reply, Yes):
            self.record("answer", action, "person", rule, answer="no", remember=reply.remember, reason=reply.reason)
            await self._keep(action, "deny", reply.remember)
            because = f": {reply.reason}" if reply.reason else ""
            raise self.refuse(action, "person", rule, f"The person refused to {_words(action)}{because}")
        self.record("answer", action, "person", rule, answer="yes", remember=reply.remember)
        await self._keep(action, "allow", reply.remember)
        return Permission(by="person", rule=rule, yes=reply)

    def note_unasked(self, action: Action, rule: str, problem: BaseException) -> None:
        """Write down that a question got no answer; that it was withdrawn holds whether or not it is recorded."""
        gone = "the question was withdrawn" if isinstance(problem, asyncio.CancelledError) else str(problem)
        try:
            self.record("refusal", action, "nobody", rule, reason=gone)
        except Unrecorded as unrecorded:
            logger.error("%s: %s: %s (%s)", action.server, action.kind, gone, unrecorded)

    async def _keep(self, action: Action, said: Said, hold: Any) -> None:
        # How a server is started is approved by its whole launch, in a file of its own.
        if hold == "once" or (action.kind == "launch" and said == "allow"):
            return
        if hold == "session":
            self._remembered.remember(action, said, hold)
        else:
            await self._workers.run(functools.partial(self._remembered.remember, action, said, hold))


def _words(action: Action) -> str:
    return _WORDS[action.kind].format(server=repr(action.server), name=repr(action.name))
