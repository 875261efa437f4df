"""The way of one call: is it still what was approved, may it be made, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.host.catalogue import HostTool
from dovetail.host.events import CallProgress, HostEvent, OnEvent
from dovetail.host.servers.connected_server import ConnectedServer
from dovetail.host.servers.supervisor import ServerSupervisor
from dovetail.policy.actions import Action
from dovetail.policy.approval_questions import CallQuestion
from dovetail.policy.definitions import define
from dovetail.policy.tool_switches import ToolSwitches
from dovetail.protocol.errors import ConnectionLost, DovetailError, LocalError, Refused, Timeout
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.tools import CallToolResult, Tool

from .consent import Consent, Permission
from .definition_review import DefinitionReview

_EDITS = 5
"""How often a person may give arguments that do not fit before the call is refused."""


class Calling:
    """Calls tools for whoever may call them."""

    def __init__(
        self, consent: Consent, quarantine: DefinitionReview, switches: ToolSwitches, tell: OnEvent | None
    ) -> None:
        self._consent = consent
        self._quarantine = quarantine
        self._switches = switches
        self._tell = tell

    async def call(
        self,
        found: HostTool,
        server: ServerSupervisor,
        arguments: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
    ) -> CallToolResult:
        """Call a tool, once: a call that is lost on its way is not made again, since nobody knows what it did."""
        action = self._action(found, server, arguments)
        self._check(action)
        attendance = await server.connected(timeout)
        settled, arguments = await self._settle(action, found.tool)
        action = msgspec.structs.replace(action, arguments=arguments)
        attendance.busy += 1
        try:
            # The person may have taken a while, and the tool may be another one by now, or switched off.
            self._check(action)
            if not (server.status.trusted and attendance.announces("tools")):
                await self._check_again(action, attendance)
            self._consent.record("call", action, settled.by, settled.rule, arguments=arguments)
            return await self._send(action, attendance, timeout, progress)
        except (ConnectionLost, Timeout):
            attendance.suspect()
            raise
        finally:
            attendance.busy -= 1

    def _action(self, found: HostTool, server: ServerSupervisor, arguments: dict[str, Any]) -> Action:
        return Action(
            kind="tool",
            server=found.server,
            name=found.tool.name,
            arguments=arguments,
            annotations=found.tool.annotations,
            trusted=server.status.trusted,
            definition=found.digest,
            launch=server.launch,
        )

    def _check(self, action: Action) -> None:
        """Refuse what is switched off or held back, before anybody is asked about it."""
        if not self._switches.is_on(action.server, action.name):
            raise self._consent.refuse(action, "person", "", f"The person has switched off the tool {action.name!r}")
        if self._quarantine.digest(action.server, "tool", action.name) != action.definition:
            raise self._held(action)

    async def _check_again(self, action: Action, attendance: ConnectedServer) -> None:
        """See, after the person has agreed, that the tool is at this moment what they agreed to."""
        try:
            tools: tuple[Tool, ...] = await attendance.fetch_now("tools")
        except DovetailError as problem:
            self._consent.note("refusal", action, reason=f"It is not known whether the tool is what it was: {problem}")
            raise
        now = next((tool for tool in tools if tool.name == action.name), None)
        if now is None:
            why = f"The server {action.server!r} does not have the tool {action.name!r} any more"
            raise self._consent.refuse(action, "policy", "", why)
        if define(now).digest != action.definition:
            raise self._held(action)

    def _held(self, action: Action) -> Refused:
        finding = self._quarantine.held(action.server, "tool", action.name)
        changed = finding is None or finding.before is not None
        what = "is not what it was when it was approved" if changed else "has not been approved"
        why = f"The tool {action.name!r} of {action.server!r} {what}; it cannot be called until the person approves it"
        if finding is None:
            return self._consent.refuse(action, "policy", "", why)
        offered = finding.definition.digest
        about = msgspec.structs.replace(action, definition=action.definition or offered)
        return self._consent.refuse(about, "policy", "", why, offered=offered, concerns=finding.concerns)

    async def _settle(self, action: Action, tool: Tool) -> tuple[Permission, dict[str, Any]]:
        """Consent to a call with these arguments, or those that the person makes of them."""
        problem = ""
        for _ in range(_EDITS):
            settled = await self._consent.settle(
                action, _question(action, tool, problem), "ask" if problem else "allow"
            )
            edited = settled.yes.arguments
            if edited is None:
                return settled, action.arguments
            action = msgspec.structs.replace(action, arguments=edited)
            problems = _problems(tool, edited)
            if not problems:
                # The person has just agreed to these: only a rule that forbids them is still of interest.
                decision = self._consent.decide(action)
                if decision.verdict == "deny":
                    why = f"The policy forbids {action.name!r} with the arguments as they were edited"
                    raise self._consent.refuse(action, "policy", decision.rule, why)
                return settled, edited
            problem = f"The edited arguments do not fit: {'; '.join(problems)}"
        raise self._consent.refuse(action, "person", "", f"No arguments that fit were given for {action.name!r}")

    async def _send(
        self, action: Action, attendance: ConnectedServer, timeout: float | None, progress: OnProgress | None
    ) -> CallToolResult:
        try:
            result = await attendance.client.call(
                action.name, action.arguments, timeout=timeout, progress=self._progress(action, progress), check=False
            )
        except DovetailError as problem:
            self._consent.note("result", action, error=str(problem))
            raise
        except BaseException:
            self._consent.note("result", action, error="stopped; the server was told")
            raise
        # It was done: who said now that it was not, since that cannot be recorded, would have it done twice.
        self._consent.note("result", action, is_error=bool(result.is_error), characters=len(result.text))
        return result

    def _progress(self, action: Action, wanted: OnProgress | None) -> OnProgress | None:
        tell = self._tell
        if tell is None:
            return wanted

        def told(progress: float, total: float | None, message: str | None) -> Any:
            news = CallProgress(tool=action.name, progress=progress, total=total, message=message)
            tell(HostEvent(kind="progress", server=action.server, detail=news))
            return wanted(progress, total, message) if wanted is not None else None

        return told


def _question(action: Action, tool: Tool, problem: str) -> Callable[[str], CallQuestion]:
    def ask(rule: str) -> CallQuestion:
        return CallQuestion(
            server=action.server,
            tool=action.name,
            title=tool.title or (tool.annotations.title if tool.annotations is not None else None),
            description=tool.description,
            arguments=action.arguments,
            input_schema=tool.input_schema,
            rule=problem or rule,
        )

    return ask


def _problems(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    from dovetail.schema.validation import compile_schema

    try:
        return compile_schema(tool.input_schema).problems(arguments)
    except LocalError:
        return []  # a schema that cannot be read checks nothing; the server will
