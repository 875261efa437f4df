"""Consent: permission for actions, from the rules or the user, and the audit records of both."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from dovetail.policy.actions import Action, Decision, Verdict
from dovetail.policy.approval_questions import Question, Yes
from dovetail.policy.audit.log import Audit, AuditEvent, Decider
from dovetail.policy.rules import Policy, Rule, stricter
from dovetail.policy.user_decisions import Said, SavedAnswers
from dovetail.protocol.errors import DovetailError, Refused
from dovetail.runtime.thread_pool import ThreadPool

from .user_prompts import UserPrompts

logger = logging.getLogger("dovetail")

NOBODY = "Nobody can be asked"
"""Beginning of a refusal because no user can be asked."""

_DESCRIPTIONS = {
    "launch": "start the server {server}",
    "tool": "call the tool {name} of {server}",
    "prompt": "get the prompt {name} of {server}",
    "resource": "read {name} of {server}",
    "sampling": "let {server} ask a model",
    "sampling-answer": "let {server} see what the model said",
    "context": "let {server} see more of the conversation",
    "elicitation": "let {server} ask the user",
    "roots": "let {server} know of the folders",
    "definition": "take up what {server} says of {name}",
}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """Permission for an action: the decider, the rule, and what the user changed."""

    by: Decider
    rule: str
    yes: Yes = Yes()


class Consent:
    """Decides on every action of a host; where no user can be asked, the answer is no."""

    def __init__(
        self,
        policy: Policy,
        saved_answers: SavedAnswers,
        prompts: UserPrompts,
        audit: Audit | None,
        thread_pool: ThreadPool,
    ) -> None:
        self.policy = policy
        self._saved_answers = saved_answers
        self._prompts = prompts
        self._audit = audit
        self._thread_pool = thread_pool

    @property
    def asks(self) -> bool:
        """True if there is somebody to ask."""
        return self._prompts.approves

    def decide(self, action: Action) -> Decision:
        """The decision of the rules and the user's saved answers."""
        return self.policy.decide(action, self._saved_answers.answers(action))

    def saved_rules(self) -> list[Rule]:
        """The user's saved answers as rules: for the session first, then for always."""
        return self._saved_answers.all()

    async def record(self, event: AuditEvent, action: Action, by: Decider | None, rule: str, **details: Any) -> None:
        """Write a decision to the audit log before it takes effect; `Unrecorded` where that cannot be done."""
        if self._audit is not None:
            await self._audit.record(event, **_fields(action, by, rule, details))

    def note(
        self, event: AuditEvent, action: Action, by: Decider | None = None, rule: str = "", **details: Any
    ) -> None:
        """Write what has happened already to the audit log, soon: where that fails it is logged, and undoes nothing."""
        if self._audit is not None:
            on_failure = functools.partial(_log_unrecorded, action, details)
            self._audit.record_soon(on_failure, event, **_fields(action, by, rule, details))

    def hide(self, values: Iterable[str | None]) -> None:
        """Redact values in the audit log from now on: a server may repeat what it was given as a secret."""
        if self._audit is not None:
            self._audit.hide(values)

    async def authorize(
        self, action: Action, question: Callable[[str], Question], at_least: Verdict = "allow", confirmed: bool = False
    ) -> Permission:
        """Obtain permission for an action from the rules or the user; raises `Refused`.

        `question` is made of the rule that wants it asked. With `at_least` it is asked even where the rules allow it.
        With `confirmed` the user has just agreed to exactly this action: they are not asked again, and only a rule
        that denies it still matters.
        """
        decision = self.decide(action)
        verdict = stricter(decision.verdict, at_least)
        if verdict == "allow":
            return Permission(by="policy", rule=decision.rule)
        if verdict == "deny":
            why = f"The policy does not allow me to {_describe(action)}"
            raise await self.refuse(action, "policy", decision.rule, why)
        if confirmed:
            await self.record("answer", action, "person", decision.rule, answer="yes", remember="once")
            return Permission(by="person", rule=decision.rule)
        if not self._prompts.approves:
            why = f"{NOBODY} whether to {_describe(action)}: give the host on_approve, or a rule that allows it"
            raise await self.refuse(action, "nobody", decision.rule, why)
        return await self._ask(action, question(decision.rule), decision.rule)

    async def refuse(self, action: Action, by: Decider, rule: str, why: str, **details: Any) -> Refused:
        """Record a refusal; the error to raise for it."""
        await self.record("refusal", action, by, rule, reason=why, arguments=action.arguments or None, **details)
        return Refused(f"{why} ({rule})" if by != "person" and rule else why)

    def note_unanswered(self, action: Action, rule: str, problem: BaseException) -> None:
        """Record that a question got no answer; that it was withdrawn holds whether or not it is recorded."""
        reason = "the question was withdrawn" if isinstance(problem, asyncio.CancelledError) else str(problem)
        self.note("refusal", action, "nobody", rule, reason=reason)

    async def _ask(self, action: Action, question: Question, rule: str) -> Permission:
        await self.record("question", action, None, rule, arguments=action.arguments or None)
        try:
            reply = await self._prompts.approve(question)
        except (DovetailError, asyncio.CancelledError) as problem:
            self.note_unanswered(action, rule, problem)
            raise
        if not isinstance(reply, Yes):
            await self.record(
                "answer", action, "person", rule, answer="no", remember=reply.remember, reason=reply.reason
            )
            await self._save(action, "deny", reply.remember)
            because = f": {reply.reason}" if reply.reason else ""
            raise await self.refuse(action, "person", rule, f"The user refused to {_describe(action)}{because}")
        await self.record("answer", action, "person", rule, answer="yes", remember=reply.remember)
        await self._save(action, "allow", reply.remember)
        return Permission(by="person", rule=rule, yes=reply)

    async def _save(self, action: Action, said: Said, hold: Any) -> None:
        # How a server is started is approved by its whole launch, in a file of its own.
        if hold == "once" or (action.kind == "launch" and said == "allow"):
            return
        if hold == "session":
            self._saved_answers.remember(action, said, hold)
        else:
            await self._thread_pool.run(functools.partial(self._saved_answers.remember, action, said, hold))


def _describe(action: Action) -> str:
    return _DESCRIPTIONS[action.kind].format(server=repr(action.server), name=repr(action.name))


def _fields(action: Action, by: Decider | None, rule: str, details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "server": action.server,
        "name": action.name,
        "by": by,
        "rule": rule,
        "definition": action.definition,
        "kind": action.kind,
        **{name: value for name, value in details.items() if value not in (None, (), "")},
    }


def _log_unrecorded(action: Action, details: Mapping[str, Any], problem: BaseException) -> None:
    logger.error("%s: %s %s: %s (%s)", action.server, action.kind, action.name, dict(details), problem)
