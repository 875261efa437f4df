"""Prompts and resources that the person picks."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.policy.actions import Action
from dovetail.policy.definitions import define
from dovetail.policy.questions import CallQuestion
from dovetail.types.prompts import GetPromptResult, Prompt
from dovetail.types.resources import ReadResourceResult

from .consent import Consent
from .namespace import HostPrompt
from .quarantine import Quarantine
from .supervision import Supervised


class Getting:
    """Gets them, as far as the rules let it."""

    def __init__(self, consent: Consent, quarantine: Quarantine) -> None:
        self._consent = consent
        self._quarantine = quarantine

    async def prompt(self, found: HostPrompt, server: Supervised, arguments: dict[str, str]) -> GetPromptResult:
        """A prompt, filled in; one that is not what was approved is refused."""
        name = found.prompt.name
        action = Action(
            kind="prompt",
            server=found.server,
            name=name,
            arguments=dict(arguments),
            trusted=server.status.trusted,
            definition=found.digest or None,
            launch=server.launch,
        )
        if not found.digest:
            raise self._consent.refuse(action, "policy", "", f"The prompt {name!r} of {found.server!r} is held back")
        attendance = await server.connected()
        settled = await self._consent.settle(action, _question(action, found.prompt.description))
        if not server.status.trusted:
            prompts: tuple[Prompt, ...] = await attendance.fetch_now("prompts")
            now = next((prompt for prompt in prompts if prompt.name == name), None)
            if now is None or define(now).digest != found.digest:
                why = f"The prompt {name!r} of {found.server!r} is not what it was when it was approved"
                raise self._consent.refuse(action, "policy", "", why)
        self._consent.record("call", action, settled.by, settled.rule, arguments=arguments)
        return await attendance.client.prompt(name, arguments)

    async def read(self, server: Supervised, uri: str) -> ReadResourceResult:
        """The contents of a resource."""
        action = Action(
            kind="resource", server=server.entry.key, name=uri, trusted=server.status.trusted, launch=server.launch
        )
        attendance = await server.connected()
        settled = await self._consent.settle(action, _question(action, None))
        self._consent.record("call", action, settled.by, settled.rule)
        return await attendance.client.read(uri)


def _question(action: Action, description: str | None) -> Callable[[str], CallQuestion]:
    def ask(rule: str) -> CallQuestion:
        return CallQuestion(
            server=action.server,
            tool=f"{action.kind} {action.name}",
            description=description,
            arguments=action.arguments,
            rule=rule,
        )

    return ask
