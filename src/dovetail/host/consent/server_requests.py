"""Requests of one server: sampling, elicitation and roots, each with the consent of the user.

A server gets what it was told of, and nothing else: no conversation, and nothing of another server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from dovetail.client.elicitation import ElicitAnswer, Elicitation
from dovetail.host.limits import Limits
from dovetail.host.models.contract import Model
from dovetail.host.running_work import RunningWork, Stopped
from dovetail.host.tasks.host_task import followed_task
from dovetail.policy.actions import Action, ActionKind
from dovetail.policy.approval_questions import RootsQuestion, SamplingAnswerQuestion, SamplingQuestion
from dovetail.policy.inspection.url_checks import url_concerns, url_problem
from dovetail.protocol.errors import DovetailError, Refused
from dovetail.runtime.rate_limit import TokenBucket
from dovetail.text.redact import is_secret
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, ElicitResult, SamplingMessage
from dovetail.types.serialization import dump

from .consent import Consent, Permission
from .user_prompts import HostElicitation, UserPrompts

OnContext: TypeAlias = Callable[[str, str], Sequence[SamplingMessage]]
"""Gives the messages that a server may see if the user approves; takes its key, and `thisServer` or `allServers`."""

_MAX_SAMPLING = 4
"""Answers of models that one server may wait for at once."""

_SECRET_WORDS = ("password", "passphrase", "secret", "token", "api key", "private key", "credential", "one-time code")


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that answer its servers."""

    consent: Consent
    prompts: UserPrompts
    running_work: RunningWork
    models: Sequence[Model]
    roots: Sequence[str | os.PathLike[str]]
    on_context: Callable[[], OnContext | None]
    limits: Limits


class ServerRequestHandlers:
    """Handlers for the requests of one server: sampling, elicitation and roots.

    `identity` gives trust and launch of the server as they are now (`ServerSupervisor.identity`).
    """

    def __init__(self, key: str, identity: Callable[[], Mapping[str, Any]], context: RequestContext) -> None:
        self._key = key
        self._identity = identity
        self._consent = context.consent
        self._prompts = context.prompts
        self._running_work = context.running_work
        self._models = context.models
        self._roots = context.roots
        self._on_context = context.on_context
        self._turns = asyncio.Semaphore(_MAX_SAMPLING)
        self._rate = TokenBucket(context.limits.questions_per_second, 2 * context.limits.max_questions)
        self._too_often = False

    def options(self) -> dict[str, Any]:
        """Options of the client: only capabilities that this host can serve are announced."""
        return {
            "on_sample": self.sample if self._models else None,
            "sample_tools": bool(self._models),
            "on_elicit": self.elicit if self._prompts.answers else None,
            "roots": self.roots if self._roots else None,
        }

    async def sample(self, params: CreateMessageParams) -> CreateMessageResult:
        """A model's answer, which the user has seen before the server does."""
        from dovetail.host.models.select_model import select_model
        from dovetail.host.models.stream_answer import full_answer

        model = select_model(self._models, params.model_preferences)
        await self._check_rate(self._action("sampling", model.name))
        async with self._turns:
            permission, params = await self._consented(params, model)
            action = self._action("sampling", model.name)
            await self._consent.record("sampling", action, permission.by, permission.rule, params=dump(params))
            try:
                with self._running_work.piece(f"what {self._key!r} asked a model", self._key):
                    answer = await full_answer(model, params)
            except DovetailError as problem:
                self._consent.note("sampling", action, error=str(problem))
                raise
        return await self._shown(params, answer, model)

    async def _consented(self, params: CreateMessageParams, model: Model) -> tuple[Permission, CreateMessageParams]:
        wish = params.include_context
        wants = wish is not None and wish != "none"
        context = self._consent.decide(self._action("context", wish or "")).verdict if wants else "deny"
        permission = await self._consent.authorize(
            self._action("sampling", model.name),
            lambda _: SamplingQuestion(server=self._key, params=params, model=model.name, wants_context=wants),
            # The wish for more of the conversation has to be shown, if there is somebody to show it to.
            "ask" if context == "ask" and self._consent.asks else "allow",
        )
        granted = wants and (context == "allow" or (context == "ask" and permission.yes.context))
        if wants:
            outcome = "granted" if granted else "not granted"
            await self._consent.record(
                "sampling", self._action("context", wish or ""), permission.by, permission.rule, outcome=outcome
            )
        agreed = permission.yes.params or params
        more = self._on_context() if granted else None
        messages = list(agreed.messages)
        if more is not None and wish is not None:
            messages = [*more(self._key, wish), *messages]
        return permission, msgspec.structs.replace(
            agreed, messages=messages, include_context=wish if granted else None, metadata=None, task=None
        )

    async def _shown(
        self, params: CreateMessageParams, answer: CreateMessageResult, model: Model
    ) -> CreateMessageResult:
        action = self._action("sampling-answer", model.name)
        permission = await self._consent.authorize(
            action, lambda _: SamplingAnswerQuestion(server=self._key, params=params, answer=answer)
        )
        given = permission.yes.answer or answer
        await self._consent.record("sampling", action, permission.by, permission.rule, answer=dump(given))
        return given

    async def elicit(self, question: Elicitation) -> ElicitAnswer:
        """The user's answer; it is theirs to give whatever the rules are, unless these say no."""
        concerns = concerns_of(question)
        task, task_hash = followed_task.get() or (None, None)
        waiting = task if task is not None and task.in_background else None
        asked = HostElicitation(**msgspec.structs.asdict(question), key=self._key, concerns=concerns, task=waiting)
        action = self._action("elicitation", question.url or "")
        await self._check_rate(action)
        decision = self._consent.decide(action)
        about = {"message": question.message, "mode": question.mode, "url": question.url, "concerns": concerns}
        if task_hash is not None:
            about["task"] = task_hash
        wrong = None if question.url is None else url_problem(question.url)
        if decision.verdict == "deny" or wrong is not None:
            await self._consent.record("refusal", action, "policy", decision.rule, reason=wrong, **about)
            return ElicitResult("decline")
        await self._consent.record("question", action, None, decision.rule, **about)
        try:
            answer = await self._prompts.elicit(asked)
        except Stopped:
            answer = ElicitResult("cancel")
        except (DovetailError, asyncio.CancelledError) as problem:
            self._consent.note_unanswered(action, decision.rule, problem)
            raise
        await self._consent.record("elicitation", action, "person", "", answer=_outcome(answer), fields=_fields(answer))
        return answer

    async def roots(self) -> Sequence[str | os.PathLike[str]]:
        """The folders, if this server may know of them."""
        action = self._action("roots")
        await self._check_rate(action)
        folders = tuple(os.fspath(root) for root in self._roots)
        permission = await self._consent.authorize(action, lambda _: RootsQuestion(server=self._key, roots=folders))
        await self._consent.record("roots", action, permission.by, permission.rule, roots=list(folders))
        return self._roots

    async def _check_rate(self, action: Action) -> None:
        """Refuse what comes faster than anybody can answer, and record only the first of it: it would fill the disk."""
        wait = self._rate.take(time.monotonic())
        if wait == 0:
            self._too_often = False
            return
        if not self._too_often:
            self._too_often = True
            why = "It asks faster than anybody can answer; until it slows down its questions are refused unrecorded"
            self._consent.note("refusal", action, reason=why)
        raise Refused(f"Too many questions; ask again in {wait:.1f} s")

    def _action(self, kind: ActionKind, name: str = "") -> Action:
        return Action(kind=kind, server=self._key, name=name, **self._identity())


def concerns_of(question: Elicitation) -> tuple[str, ...]:
    """Warnings for the user: an address that misleads, or a form that asks for secrets.

    Servers must not ask for those (elicitation, "Security Considerations").
    """
    if question.url is not None:
        return () if url_problem(question.url) else url_concerns(question.url)
    if question.schema is None:
        return ()
    properties = question.schema.get("properties")
    fields = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    named = [name for name, field in fields.items() if _wants_secret(name, field)]
    concerns = [f"The field {name!r} asks for a secret, which servers must not ask for in a form" for name in named]
    lowered = question.message.casefold()
    if not concerns and any(word in lowered for word in _SECRET_WORDS):
        concerns.append("The question speaks of a secret, which servers must not ask for in a form")
    return tuple(concerns)


def _wants_secret(name: str, field: object) -> bool:
    if is_secret(name):
        return True
    if not isinstance(field, dict):
        return False
    said = cast("dict[str, Any]", field)
    text = f"{said.get('title', '')} {said.get('description', '')} {said.get('format', '')}".casefold()
    return any(word in text for word in _SECRET_WORDS)


def _outcome(answer: object) -> str:
    if isinstance(answer, ElicitResult):
        return answer.action
    if answer is None:
        return "decline"
    return answer if isinstance(answer, str) else "accept"


def _fields(answer: object) -> list[str] | None:
    """The names of what was filled in; what the user wrote is between them and the server."""
    content = answer.content if isinstance(answer, ElicitResult) else answer
    return sorted(cast("Mapping[str, Any]", content)) if isinstance(content, Mapping) else None
