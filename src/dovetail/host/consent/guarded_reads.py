"""Prompts and resources that the person picks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from dovetail.host.catalogue import HostPrompt
from dovetail.host.servers.bounded_client import ServerFeatures
from dovetail.host.servers.supervisor import ServerSupervisor
from dovetail.policy.actions import Action
from dovetail.policy.approval_questions import CallQuestion
from dovetail.policy.definitions import define
from dovetail.protocol.errors import DovetailError, LocalError
from dovetail.types.prompts import GetPromptResult, Prompt
from dovetail.types.resources import ReadResourceResult

from .consent import Consent
from .definition_review import DefinitionReview

T = TypeVar("T")


class Getting:
    """Gets them, as far as the rules let it."""

    def __init__(self, consent: Consent, quarantine: DefinitionReview) -> None:
        self._consent = consent
        self._quarantine = quarantine

    async def prompt(self, found: HostPrompt, server: ServerSupervisor, arguments: dict[str, str]) -> GetPromptResult:
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
        if not (server.status.trusted and attendance.announces("prompts")):
            prompts: tuple[Prompt, ...] = await attendance.fetch_now("prompts")
            now = next((prompt for prompt in prompts if prompt.name == name), None)
            if now is None or define(now).digest != found.digest:
                why = f"The prompt {name!r} of {found.server!r} is not what it was when it was approved"
                raise self._consent.refuse(action, "policy", "", why)
        self._consent.record("call", action, settled.by, settled.rule, arguments=arguments)
        return await self._noted(action, attendance.client.prompt(name, arguments))

    async def read(self, server: ServerSupervisor, uri: str) -> ReadResourceResult:
        """The contents of a resource; not through a template that is held back."""
        action = _resource(server, uri)
        attendance = await server.connected()
        self._check_template(action, attendance.offer)
        settled = await self._consent.settle(action, _question(action, None))
        self._consent.record("call", action, settled.by, settled.rule)
        return await self._noted(action, attendance.client.read(uri))

    async def subscribe(self, server: ServerSupervisor, uri: str) -> None:
        """Hear of changes of a resource that may be read."""
        action = _resource(server, uri)
        attendance = await server.connected()
        self._check_template(action, attendance.offer)
        await self._consent.settle(action, _question(action, None))
        await server.subscribe(uri)

    async def _noted(self, action: Action, work: Awaitable[T]) -> T:
        """What came of it, recorded."""
        try:
            result = await work
        except DovetailError as problem:
            self._consent.note("result", action, error=str(problem))
            raise
        except BaseException:
            self._consent.note("result", action, error="stopped")
            raise
        self._consent.note("result", action, is_error=False)
        return result

    def _check_template(self, action: Action, offer: ServerFeatures) -> None:
        """Refuse a URI that only a template leads to that was not approved, or has changed since."""
        if any(each.uri == action.name for each in offer.resources):
            return
        fits = [each.uri_template for each in offer.templates if _fits(each.uri_template, action.name)]
        if fits and all(self._quarantine.digest(action.server, "template", each) is None for each in fits):
            why = f"The template {fits[0]!r} of {action.server!r} is held back, and so is {action.name!r}"
            raise self._consent.refuse(action, "policy", "", why)


def _resource(server: ServerSupervisor, uri: str) -> Action:
    return Action(
        kind="resource", server=server.entry.key, name=uri, trusted=server.status.trusted, launch=server.launch
    )


def _fits(template: str, uri: str) -> bool:
    from dovetail.uri_template.template import UriTemplate

    try:
        return UriTemplate(template).match(uri) is not None
    except LocalError:
        return False  # one that cannot be read leads nowhere


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
