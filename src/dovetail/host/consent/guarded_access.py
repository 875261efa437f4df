"""Guarded access: the one path of every tool call, prompt and resource read of a host.

1. Describe the action, and refuse what is switched off or held back before the user is asked about it.
2. Connect to the server.
3. Obtain permission from the rules or the user, who may edit the arguments of a call.
4. Check again where time has passed: the definition may have changed, or the tool may be switched off by now.
5. List the definitions once more, unless the server is trusted and announces changes.
6. Write the decision to the audit log; what cannot be recorded is not sent.
7. Send the request, once, and record its outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from dovetail.host.catalogue import HostPrompt, HostTool
from dovetail.host.events import CallProgress, HostEvent, OnEvent
from dovetail.host.servers.bounded_client import BoundedClient, ServerFeatures
from dovetail.host.servers.connected_server import ConnectedServer
from dovetail.host.servers.supervisor import ServerSupervisor
from dovetail.policy.actions import Action, Verdict
from dovetail.policy.approval_questions import CallQuestion
from dovetail.policy.audit.log import Unrecorded
from dovetail.policy.definitions import define
from dovetail.policy.user_decisions import ToolSwitches
from dovetail.protocol.errors import ConnectionLost, DovetailError, LocalError, Refused, Timeout
from dovetail.runtime.pending_requests import OnProgress
from dovetail.runtime.thread_pool import run_in_thread
from dovetail.types.prompts import GetPromptResult, Prompt
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult, Tool

from .consent import Consent, Permission
from .definition_review import DefinitionReview

if TYPE_CHECKING:
    from dovetail.client.tasks.task import Task

T = TypeVar("T")

_MAX_EDITS = 5
"""Times that the user may give arguments that do not fit before the call is refused."""

_LISTS: dict[str, Literal["tools", "prompts"]] = {"tool": "tools", "prompt": "prompts"}
"""Kinds of actions whose definitions are approved one by one, and the list that has them."""


class _Access(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One access: the steps that differ between tools, prompts and resources."""

    action: Action
    question: Callable[[Action, str], CallQuestion]
    """Makes the question to the user, of the action and the reason to ask."""
    send: Callable[[BoundedClient, Action], Awaitable[T]]
    outcome: Callable[[T], dict[str, Any] | None] = lambda _: {"is_error": False}
    """Details of a result for the audit log; None if it is recorded later."""
    problems: Callable[[dict[str, Any]], list[str]] = lambda _: []
    """Problems of arguments that the user has edited."""
    timeout: float | None = None
    confirmed: bool = False
    """The user has agreed to it already."""


class StartedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call that became a task, and where its progress goes."""

    task: Task
    action: Action
    report: OnProgress | None


class GuardedAccess:
    """Uses what servers offer, as far as policy and user permit."""

    def __init__(
        self, consent: Consent, review: DefinitionReview, switches: ToolSwitches, on_event: OnEvent | None
    ) -> None:
        self._consent = consent
        self._review = review
        self._switches = switches
        self._on_event = on_event

    async def call_tool(
        self,
        tool: HostTool,
        server: ServerSupervisor,
        arguments: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
        confirmed: bool = False,
    ) -> CallToolResult | StartedTask:
        """Call a tool, once: a call that is lost on its way is not sent again, since its effect is unknown.

        With `confirmed` the user has just agreed to this call with these arguments. A call that becomes a task is
        not waited for.
        """
        action = Action(
            kind="tool",
            server=tool.server,
            name=tool.tool.name,
            arguments=arguments,
            annotations=tool.tool.annotations,
            trusted=server.status.trusted,
            definition=tool.digest,
            launch=server.launch,
        )
        report = progress if self._on_event is None else _reporter(action, self._on_event, progress)
        outcome = await self._run(
            server,
            _Access(
                action=action,
                question=lambda action, reason: _tool_question(action, tool.tool, reason),
                send=lambda client, action: client.call_tool(action.name, action.arguments, timeout, report),
                outcome=_tool_outcome,
                problems=lambda edited: _argument_problems(tool.tool, edited),
                timeout=timeout,
                confirmed=confirmed,
            ),
        )
        return (
            outcome if isinstance(outcome, CallToolResult) else StartedTask(task=outcome, action=action, report=report)
        )

    async def get_prompt(
        self, prompt: HostPrompt, server: ServerSupervisor, arguments: dict[str, str]
    ) -> GetPromptResult:
        """Get a prompt, filled in with arguments."""
        action = Action(
            kind="prompt",
            server=prompt.server,
            name=prompt.prompt.name,
            arguments=dict(arguments),
            trusted=server.status.trusted,
            definition=prompt.digest or None,
            launch=server.launch,
        )
        return await self._run(
            server,
            _Access(
                action=action,
                question=lambda action, reason: _question(action, prompt.prompt.description, reason),
                send=lambda client, action: client.prompt(action.name, arguments),
            ),
        )

    async def read_resource(self, server: ServerSupervisor, uri: str) -> ReadResourceResult:
        """Read a resource; not through a template that is held back."""
        return await self._run(
            server,
            _Access(
                action=_resource_action(server, uri),
                question=lambda action, reason: _question(action, None, reason),
                send=lambda client, action: client.read(action.name),
            ),
        )

    async def subscribe(self, server: ServerSupervisor, uri: str) -> None:
        """Subscribe to a resource that may be read."""
        action = _resource_action(server, uri)
        connected = await server.connected()
        await self._check(action, connected.features)
        await self._consent.authorize(action, lambda rule: _question(action, None, rule))
        await server.subscribe(uri)

    async def _run(self, server: ServerSupervisor, access: _Access[T]) -> T:
        connected = server.ready
        await self._check(access.action, None if connected is None else connected.features)
        was_ready = connected is not None
        if connected is None:
            connected = await server.connected(access.timeout)
        permission, action = await self._authorize(access)
        connected.busy += 1
        try:
            if permission.by != "policy" or not was_ready:
                await self._check(action, connected.features)
            if action.kind in _LISTS and not (server.status.trusted and connected.announces(_LISTS[action.kind])):
                await self._check_listed(action, connected)
            return await self._send(access, action, permission, connected.client)
        except (ConnectionLost, Timeout):
            connected.suspect()
            raise
        finally:
            connected.busy -= 1

    async def _check(self, action: Action, features: ServerFeatures | None) -> None:
        """Refuse what is switched off, or held back until the user approves it."""
        if action.kind == "tool" and not self._switches.is_on(action.server, action.name):
            why = f"The user has switched off the tool {action.name!r}"
            raise await self._consent.refuse(action, "person", "", why)
        if action.kind in ("tool", "prompt"):
            approved = self._review.digest(action.server, action.kind, action.name)
            if approved is None or approved != action.definition:
                raise await self._held_back(action)
        elif features is not None:
            await self._check_template(action, features)

    async def _check_template(self, action: Action, features: ServerFeatures) -> None:
        """Refuse a URI that only templates lead to that are held back."""
        if any(resource.uri == action.name for resource in features.resources):
            return
        templates = [each.uri_template for each in features.templates if _matches(each.uri_template, action.name)]
        if templates and all(self._review.digest(action.server, "template", each) is None for each in templates):
            why = f"The template {templates[0]!r} of {action.server!r} is held back, and so is {action.name!r}"
            raise await self._consent.refuse(action, "policy", "", why)

    async def _check_listed(self, action: Action, connected: ConnectedServer) -> None:
        """List the definitions, to see that this one still is what was approved."""
        try:
            listed: tuple[Tool | Prompt, ...] = await connected.fetch_now(_LISTS[action.kind])
        except DovetailError as problem:
            reason = f"It is not known whether the {action.kind} is what it was: {problem}"
            self._consent.note("refusal", action, reason=reason)
            raise
        current = next((each for each in listed if each.name == action.name), None)
        if current is None:
            why = f"The server {action.server!r} does not have the {action.kind} {action.name!r} any more"
            raise await self._consent.refuse(action, "policy", "", why)
        if define(current).digest != action.definition:
            raise await self._held_back(action)

    async def _held_back(self, action: Action) -> Refused:
        assert action.kind in ("tool", "prompt")
        finding = self._review.held(action.server, action.kind, action.name)
        changed = finding is None or finding.before is not None
        what = "is not what it was when it was approved" if changed else "has not been approved"
        why = (
            f"The {action.kind} {action.name!r} of {action.server!r} {what}; it is held back until the user approves it"
        )
        if finding is None:
            return await self._consent.refuse(action, "policy", "", why)
        offered = finding.definition.digest
        action = msgspec.structs.replace(action, definition=action.definition or offered)
        return await self._consent.refuse(action, "policy", "", why, offered=offered, concerns=finding.concerns)

    async def _authorize(self, access: _Access[Any]) -> tuple[Permission, Action]:
        """Obtain permission for the action, or for what the user makes of it by editing the arguments."""
        action, problem = access.action, ""
        for _ in range(_MAX_EDITS):
            question = _asking(access, action, problem)
            at_least: Verdict = "ask" if problem else "allow"
            permission = await self._consent.authorize(action, question, at_least, access.confirmed)
            edited = permission.yes.arguments
            if edited is None or action.kind != "tool":
                return permission, action
            action = msgspec.structs.replace(action, arguments=edited)
            # In a thread: the server wrote the schema that is compiled for it.
            problems = await run_in_thread(access.problems, edited)
            if not problems:
                # The user has just agreed to these: only a rule that denies them still matters.
                decision = self._consent.decide(action)
                if decision.verdict == "deny":
                    why = f"The policy forbids {action.name!r} with the arguments as they were edited"
                    raise await self._consent.refuse(action, "policy", decision.rule, why)
                return permission, action
            problem = f"The edited arguments do not fit: {'; '.join(problems)}"
        why = f"No arguments that fit were given for {action.name!r}"
        raise await self._consent.refuse(action, "person", "", why)

    async def _send(self, access: _Access[T], action: Action, permission: Permission, client: BoundedClient) -> T:
        arguments = None if action.kind == "resource" else action.arguments
        stopped = "stopped before it was sent"
        try:
            await self._consent.record("call", action, permission.by, permission.rule, arguments=arguments)
            stopped = "stopped; the server was told"
            result = await access.send(client, action)
        except Unrecorded:
            raise
        except DovetailError as problem:
            self._consent.note("result", action, error=str(problem))
            raise
        except BaseException:
            self._consent.note("result", action, error=stopped)
            raise
        # It was done. An error now, because its outcome cannot be recorded, would have it done twice.
        if (details := access.outcome(result)) is not None:
            self._consent.note("result", action, **details)
        return result


def _tool_outcome(result: CallToolResult | Task) -> dict[str, Any] | None:
    if not isinstance(result, CallToolResult):
        return None  # its records follow, from its creation to its end
    return {"is_error": bool(result.is_error), "characters": len(result.text)}


def _asking(access: _Access[Any], action: Action, problem: str) -> Callable[[str], CallQuestion]:
    return lambda rule: access.question(action, problem or rule)


def _reporter(action: Action, on_event: OnEvent, wanted: OnProgress | None) -> OnProgress:
    def report(progress: float, total: float | None, message: str | None) -> Any:
        detail = CallProgress(tool=action.name, progress=progress, total=total, message=message)
        on_event(HostEvent(kind="progress", server=action.server, detail=detail))
        return wanted(progress, total, message) if wanted is not None else None

    return report


def _resource_action(server: ServerSupervisor, uri: str) -> Action:
    return Action(
        kind="resource", server=server.entry.key, name=uri, trusted=server.status.trusted, launch=server.launch
    )


def _tool_question(action: Action, tool: Tool, reason: str) -> CallQuestion:
    return CallQuestion(
        server=action.server,
        tool=action.name,
        title=tool.title or (tool.annotations.title if tool.annotations is not None else None),
        description=tool.description,
        arguments=action.arguments,
        input_schema=tool.input_schema,
        rule=reason,
    )


def _question(action: Action, description: str | None, reason: str) -> CallQuestion:
    return CallQuestion(
        server=action.server,
        tool=f"{action.kind} {action.name}",
        description=description,
        arguments=action.arguments,
        rule=reason,
    )


def _argument_problems(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    from dovetail.schema.validation import compile_schema

    try:
        return compile_schema(tool.input_schema).problems(arguments)
    except LocalError:
        return []  # a schema that cannot be read checks nothing; the server will


def _matches(template: str, uri: str) -> bool:
    from dovetail.uri_template.template import UriTemplate

    try:
        return UriTemplate(template).match(uri) is not None
    except LocalError:
        return False  # one that cannot be read leads nowhere
