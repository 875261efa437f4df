"""Access: who may use which tool, prompt or resource of a gateway, how often, and the record of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast

import msgspec

from dovetail.gateway.accounts.account_upstream import ACCOUNT
from dovetail.policy.actions import Action, Decision
from dovetail.policy.audit.log import Audit, AuditEvent, Decider, Unrecorded
from dovetail.policy.inspection.invisible_chars import show_hidden
from dovetail.policy.policy_file import load_policy, read_rules
from dovetail.policy.rules import Policy
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    DovetailError,
    InvalidAnswer,
    LocalError,
    MissingCapability,
    ProtocolError,
    Refused,
    RemoteError,
)
from dovetail.runtime.rate_limit import TokenBuckets, rate_limit_error
from dovetail.server.mrtr.client_requests import elicit_form
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.client_features import InputRequired
from dovetail.types.tools import CallToolResult, Tool

from .inbound import Caller, caller_of
from .quarantine import Quarantine, digest_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dovetail.gateway.settings import ServerSettings
    from dovetail.server.invocation import Invocation
    from dovetail.server.session import ServerCall

logger = logging.getLogger("dovetail")

MAX_SHOWN = 1000
"""Characters of the arguments that an approval question shows: each argument has an equal part of them."""

MAX_ARGUMENTS = 50
"""Arguments that an approval question shows; a call with more cannot be approved."""

MAX_DIGESTS = 10_000
"""Definitions whose digests are remembered."""

MAX_LIMITED = 10_000
"""Callers beyond the rate limit of whom it is known that this is recorded."""

SubjectKind = Literal["tool", "prompt", "resource"]

_VERBS = {"tool": "call the tool", "prompt": "get the prompt", "resource": "read the resource"}

_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Yes: it is done, once."}},
    "required": ["approve"],
}

ResultT = TypeVar("ResultT")

PolicyOption: TypeAlias = "Policy | Mapping[str, Any] | str | os.PathLike[str] | None"
"""Rules, a mapping as in a policy file, or the file."""


class Subject(NamedTuple):
    """Subject of a request: a tool, a prompt or a resource of one server."""

    kind: SubjectKind
    server: str
    """The key of the server in the configuration."""
    name: str
    """The name, or the URI, as the server knows it."""
    trusted: bool = False
    definition: Any = None
    """The definition of a tool or prompt."""


class Authorized(NamedTuple):
    """A request that may be sent."""

    definition: str | None
    """The digest of the definition that it is about."""
    waited: bool = False
    """True if a user was asked first, so that something may have changed meanwhile."""


class Access:
    """The rules, the lockfile, the rate limit and the audit log of a gateway; each may be absent."""

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        quarantine: Quarantine | None = None,
        audit: Audit | None = None,
        rate: float | None = None,
        burst: float | None = None,
    ) -> None:
        self.policy = policy
        self.quarantine = quarantine
        self.audit = audit
        self._rates = _buckets(rate, burst)
        self._limited: BoundedDict[Hashable, None] = BoundedDict(MAX_LIMITED)
        """The callers beyond the rate limit, of whom that is recorded already."""
        self._digests: BoundedDict[int, tuple[Any, str]] = BoundedDict(MAX_DIGESTS)

    def limit_rate(self, rate: float | None, burst: float | None) -> None:
        """Use another rate limit from now on; what callers have used of the limit before does not count."""
        self._rates = _buckets(rate, burst)

    def list_key(self, call: ServerCall) -> Hashable:
        """Equal for callers that see the same lists."""
        if self.policy is None:
            return None
        caller = caller_of(call)
        return call.terms.principal, None if caller is None else caller.groups

    def depends_on_definitions(self, settings: ServerSettings) -> bool:
        """True if what may be done with a server depends on its definitions, and not on names alone."""
        # The default rules believe the annotations of a server that is trusted.
        policy = self.policy
        return self.quarantine is not None or (policy is not None and (settings.trusted or policy.looks_at_definitions))

    def hides(self, call: ServerCall, subject: Subject) -> bool:
        """True if a caller may never use something, so that it is not listed for it."""
        return self.policy is not None and self.policy.always_denies(self._action(call, subject, {}))

    def hides_from(self, caller: Caller | None, subject: Subject) -> bool:
        """True if a caller may never use something, for what concerns no request."""
        principal = None if caller is None else caller.name
        return self.policy is not None and self.policy.always_denies(action_of(subject, principal, caller, {}, None))

    def hides_server(self, call: ServerCall, server: str) -> bool:
        """True if a caller may use nothing of a server, so that it is told nothing about it."""
        if self.policy is None:
            return False
        caller = caller_of(call)
        groups = frozenset[str]() if caller is None else caller.groups
        return self.policy.denies_server(server, call.terms.principal, groups)

    async def admit_login(self, call: ServerCall, subject: Subject) -> None:
        """Decide on a login at the server of a subject, before the user is asked for it; raises if it is refused."""
        await self._take(call, subject)
        if self.hides_server(call, subject.server):
            _check_caller(call)
            await self.record("refusal", call, subject, None, "policy", "nothing of the server is allowed")
            raise ProtocolError(
                INVALID_REQUEST,
                f"The policy of the gateway does not allow anything of {subject.server!r}",
                {"server": subject.server},
            )

    async def refuse_denied(self, call: ServerCall, subject: Subject) -> None:
        """Raise for what a caller may never use; for requests that only concern it, such as completion."""
        if self.policy is not None:
            _check_caller(call)
            action = self._action(call, subject, {})
            if self.policy.always_denies(action):
                decision = self.policy.decide(action)
                await self.record("refusal", call, subject, action.definition, "policy", decision.rule)
                raise denial(subject, decision)

    def permitted(self, invocation: Invocation, subject: Subject, arguments: dict[str, Any] | None) -> Permit:
        """A context in which a request is forwarded: entering it raises if that is not allowed, leaving it records."""
        is_open = self.policy is None and self.audit is None and self._rates is None
        return _OPEN if is_open else _CheckedPermit(self, invocation, subject, arguments or {})

    def finishing(self, invocation: Invocation, subject: Subject) -> Permit:
        """A context in which the server finishes what was permitted before, as a task: leaving it records."""
        return _OPEN if self.audit is None else _RecordedPermit(self, invocation, subject, self._digest(subject))

    async def authorize(self, invocation: Invocation, subject: Subject, arguments: dict[str, Any]) -> Authorized:
        """Decide on a request, after asking the client if the rules say so."""
        call = invocation.call
        await self._take(call, subject)
        if self.policy is None:
            digest = self._digest(subject)
            await self.record("call", call, subject, digest, None, "no policy", arguments=arguments)
            return Authorized(digest)
        _check_caller(call)
        action = self._action(call, subject, arguments)
        decision = self.policy.decide(action)
        if decision.verdict == "deny":
            await self.record("refusal", call, subject, action.definition, "policy", decision.rule)
            raise denial(subject, decision)
        by: Decider = "policy"
        waited = False
        if decision.verdict == "ask":
            waited = await self._ask(invocation, subject, decision, action)
            by = "person"
        await self.record("call", call, subject, action.definition, by, decision.rule, arguments=arguments)
        return Authorized(action.definition, waited)

    async def _take(self, call: ServerCall, subject: Subject) -> None:
        """Count a request; raises if the caller has no more of them now."""
        if self._rates is None:
            return
        caller = call.client_key or id(call.session)
        wait = self._rates.take(caller, time.monotonic())
        if wait <= 0:
            self._limited.pop(caller, None)
            return
        if caller not in self._limited:
            # Once until a request is admitted again: otherwise who sends too many would fill the log.
            self._limited[caller] = None
            await self.record("refusal", call, subject, self._digest(subject), "policy", "rate limit")
        raise rate_limit_error("requests", wait)

    async def _ask(self, invocation: Invocation, subject: Subject, decision: Decision, action: Action) -> bool:
        """Have the client's user approve; raises if they do not, or cannot be asked. False if they did so before."""
        call = invocation.call
        if _is_rerun(invocation):
            return False  # approved before the server asked its own questions
        if len(action.arguments) > MAX_ARGUMENTS:
            await self.record("refusal", call, subject, action.definition, "nobody", decision.rule)
            raise _declined(subject, decision, f"more than {MAX_ARGUMENTS} arguments cannot be shown")
        text = question(subject, action.arguments, decision)
        await self.record("question", call, subject, action.definition, "policy", decision.rule)
        try:
            answer = await elicit_form(invocation, text, _APPROVAL, None)
            approved = answer.accepted and cast("dict[str, Any]", answer.data).get("approve") is True
        except (MissingCapability, LocalError) as problem:
            await self.record("refusal", call, subject, action.definition, "nobody", decision.rule)
            raise _unasked(subject, decision, problem) from problem
        except (InvalidAnswer, Refused, RemoteError) as problem:
            await self.record("answer", call, subject, action.definition, "person", decision.rule, approved=False)
            raise _declined(subject, decision, f"the answer was no approval: {problem}") from problem
        await self.record("answer", call, subject, action.definition, "person", decision.rule, approved=approved)
        if not approved:
            raise _declined(subject, decision, "the user did not approve it")
        # A user may take long to answer, and the rules may be others by then.
        now = Decision("allow", "no policy") if self.policy is None else self.policy.decide(action)
        if now.verdict == "deny" or (now.verdict == "ask" and now.rule != decision.rule):
            await self.record("refusal", call, subject, action.definition, "policy", now.rule)
            if now.verdict == "deny":
                raise denial(subject, now)
            raise _declined(subject, now, "the rules have changed since it was given. Send the request again")
        return True

    async def record(
        self,
        event: AuditEvent,
        call: ServerCall,
        subject: Subject,
        definition: str | None,
        by: Decider | None,
        rule: str,
        **details: Any,
    ) -> None:
        """Append a record before something is done; raises if that fails, and then it is not done."""
        if self.audit is None:
            return
        try:
            await self.audit.record(
                event,
                server=subject.server,
                name=subject.name,
                by=by,
                rule=rule,
                definition=definition,
                kind=subject.kind,
                principal=call.terms.principal,
                **details,
            )
        except Unrecorded as problem:
            logger.error("%s", problem)
            raise ProtocolError(INTERNAL_ERROR, "It was not done, because it cannot be recorded") from problem

    def record_outcome(self, call: ServerCall, subject: Subject, definition: str | None, outcome: str) -> None:
        """Append what came of a request, without waiting for it."""
        if self.audit is not None:
            self.audit.record_soon(
                _warn_unrecorded,
                "result",
                server=subject.server,
                name=subject.name,
                definition=definition,
                kind=subject.kind,
                principal=call.terms.principal,
                outcome=outcome,
            )

    def close(self) -> None:
        """Write what is left of the audit log."""
        if self.audit is not None:
            self.audit.close()

    def _action(self, call: ServerCall, subject: Subject, arguments: dict[str, Any]) -> Action:
        return action_of(subject, call.terms.principal, caller_of(call), arguments, self._digest(subject))

    def _digest(self, subject: Subject) -> str | None:
        definition = subject.definition
        if definition is None:
            return None
        known = self._digests.get(id(definition))
        if known is None or known[0] is not definition:
            known = self._digests[id(definition)] = (definition, digest_of(definition))
        return known[1]


def read_policy(given: PolicyOption) -> Policy | None:
    """The rules of the option `policy`; raises `LocalError` for rules, or a file, that cannot be used."""
    if isinstance(given, str | os.PathLike):
        return load_policy(Path(given))
    return given if given is None or isinstance(given, Policy) else Policy(read_rules(given))


def make_access(
    *,
    policy: PolicyOption = None,
    lockfile: str | os.PathLike[str] | None = None,
    audit: Audit | str | os.PathLike[str] | None = None,
    rate_limit: float | None = None,
    burst: float | None = None,
) -> Access:
    """The access control of a gateway, from its options; raises `LocalError` for files that cannot be used."""
    return Access(
        policy=read_policy(policy),
        quarantine=None if lockfile is None else Quarantine(Path(lockfile)),
        audit=Audit(audit) if isinstance(audit, str | os.PathLike) else audit,
        rate=rate_limit,
        burst=burst,
    )


class Permit:
    """The context of a request that needs no permission."""

    waited = False
    """True if a user was asked first, so that something may have changed meanwhile."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def note(self, result: ResultT) -> ResultT:
        """Take note of the result, which is returned."""
        return result


_OPEN = Permit()


class _RecordedPermit(Permit):
    """The context of a request whose outcome is recorded."""

    def __init__(self, access: Access, invocation: Invocation, subject: Subject, definition: str | None = None) -> None:
        self._access = access
        self._invocation = invocation
        self._subject = subject
        self._definition = definition
        self._outcome = "task"  # unless there is a result, the call goes on as a task of the server

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if problem is not None:
            self._outcome = f"error: {problem}" if isinstance(problem, DovetailError) else kind.__name__ if kind else ""
        self._access.record_outcome(self._invocation.call, self._subject, self._definition, self._outcome)

    def note(self, result: ResultT) -> ResultT:
        """Take note of the result, which is returned."""
        self._outcome = "ok" if self._access.audit is None else outcome_of(result)
        return result


class _CheckedPermit(_RecordedPermit):
    """The context of a request that is also decided on."""

    def __init__(self, access: Access, invocation: Invocation, subject: Subject, arguments: dict[str, Any]) -> None:
        super().__init__(access, invocation, subject)
        self._arguments = arguments

    async def __aenter__(self) -> Self:
        self._definition, self.waited = await self._access.authorize(self._invocation, self._subject, self._arguments)
        return self


def _buckets(rate: float | None, burst: float | None) -> TokenBuckets | None:
    return None if rate is None else TokenBuckets(rate, max(1.0, rate) if burst is None else burst)


def action_of(
    subject: Subject, principal: str | None, caller: Caller | None, arguments: dict[str, Any], digest: str | None
) -> Action:
    """The action that the rules decide on."""
    definition = subject.definition
    return Action(
        kind=subject.kind,
        server=subject.server,
        name=subject.name,
        arguments=arguments,
        annotations=definition.annotations if isinstance(definition, Tool) else None,
        trusted=subject.trusted,
        definition=digest,
        principal=principal,
        groups=frozenset() if caller is None else caller.groups,
    )


def _check_caller(call: ServerCall) -> None:
    """Refuse work that has lost the caller of its request, since rules about groups could not be decided."""
    if call.terms.principal is not None and caller_of(call) is None:
        raise ProtocolError(INTERNAL_ERROR, "The groups of the caller are not known here; send the request again")


def question(subject: Subject, arguments: dict[str, Any], decision: Decision) -> str:
    """The approval question to the user of a client."""
    # Each argument is shown, so that none of them can be pushed out of sight by a long one.
    room = MAX_SHOWN // max(len(arguments), 1)
    shown = ",".join(f"{_cut(key, room)}:{_cut(arguments[key], room)}" for key in sorted(arguments))
    given = f" with {{{shown}}}" if arguments else ""
    name = show_hidden(subject.name)
    return f"May the gateway {_VERBS[subject.kind]} {name!r} of {subject.server!r}{given}? Rule: {decision.rule}."


def _cut(value: Any, room: int) -> str:
    text = msgspec.json.encode(value, order="sorted").decode("utf-8", "replace")
    cut = "" if len(text) <= room else f" … ({len(text)} characters)"
    return show_hidden(text[:room]) + cut


def denial(subject: Subject, decision: Decision) -> ProtocolError:
    """The error for what a rule denies."""
    return _refusal(subject, decision, f"The policy of the gateway does not allow it: {decision.rule}.")


class _Outcome(msgspec.Struct):
    is_error: bool | None = msgspec.field(default=None, name="isError")
    result_type: str | None = msgspec.field(default=None, name="resultType")


_read_outcome = msgspec.json.Decoder(_Outcome).decode


def outcome_of(result: Any) -> str:
    """A result in one word for the audit log: ok, failed (by the tool itself), or input required."""
    if isinstance(result, bytes):
        head = _read_outcome(result)
        return "failed" if head.is_error else "ok" if head.result_type in (None, "complete") else str(head.result_type)
    if isinstance(result, CallToolResult):
        return "failed" if result.is_error else "ok"
    return "input_required" if isinstance(result, InputRequired) else "ok"


def _unasked(subject: Subject, decision: Decision, problem: Exception) -> ProtocolError:
    text = f"The policy of the gateway wants a user to approve it, and the client cannot be asked ({problem})"
    return _refusal(subject, decision, f"{text}. Rule: {decision.rule}.")


def _declined(subject: Subject, decision: Decision, reason: str) -> ProtocolError:
    return _refusal(subject, decision, f"It needs approval, and {reason}. Rule: {decision.rule}.")


def _refusal(subject: Subject, decision: Decision, why: str) -> ProtocolError:
    text = f"The gateway did not {_VERBS[subject.kind]} {subject.name!r} of {subject.server!r}. {why}"
    return ProtocolError(INVALID_REQUEST, text, {"server": subject.server, "rule": decision.rule})


def _is_rerun(invocation: Invocation) -> bool:
    """True if the questions of the server were answered since the approval, on a revision with direct requests.

    In rounds the journal of the call has the approval, and gives it again; here the framework itself has run the
    handler before, and the client has no way to pretend so.
    """
    direct = invocation.call.terms.revision.server_requests == "direct"
    # A user who has only logged in at the server so far has approved nothing yet.
    return direct and (bool(invocation.answers.keys() - {ACCOUNT}) or invocation.request_state is not None)


def _warn_unrecorded(problem: Exception) -> None:
    logger.error("The outcome of a request was not recorded: %s", problem)
