"""Questions to the user before an action, and the answers to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.config.launch_spec import LaunchSpec
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult

from .launch import launch_changes

Remember: TypeAlias = Literal["once", "session", "always"]


class LaunchQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May this server be started, or reached? The whole command line or URL is shown."""

    server: str
    spec: LaunchSpec
    origin: str
    """The file and line that it stands in."""
    before: LaunchSpec | None = None
    """The launch that was approved earlier, if it has changed since."""

    @property
    def changes(self) -> list[str]:
        """The changes since the earlier approval, a sentence each."""
        return [] if self.before is None else launch_changes(self.before, self.spec)


class CallQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May this tool be called with these arguments? The user may edit them."""

    server: str
    tool: str
    title: str | None = None
    description: str | None = None
    arguments: dict[str, Any] = {}
    input_schema: dict[str, Any] = {}
    rule: str = ""
    """The rule, or the problem, that is the reason to ask."""


class SamplingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May a server ask a model this? The user may edit it."""

    server: str
    params: CreateMessageParams
    model: str
    wants_context: bool = False
    """The server wants to see more of the conversation than what it sends (`includeContext`)."""


class SamplingAnswerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May a server see what the model said? The user may edit it."""

    server: str
    params: CreateMessageParams
    answer: CreateMessageResult


class RootsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May a server know of these folders? It is told nothing but their names."""

    server: str
    roots: tuple[str, ...]


class DefinitionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May a definition be taken up that is new, or has changed, or looks wrong? All of it is shown."""

    server: str
    kind: Literal["tool", "prompt", "template", "instructions"]
    name: str
    difference: str
    """A readable diff against what was approved; all of it as new where there was nothing."""
    status: Literal["new", "changed", "same"] = "changed"
    """Compared with what was approved; it is "same" if it is asked about for its concerns alone."""
    concerns: tuple[str, ...] = ()
    """Warnings about it, in words."""


Question: TypeAlias = (
    LaunchQuestion | CallQuestion | SamplingQuestion | SamplingAnswerQuestion | RootsQuestion | DefinitionQuestion
)


class Yes(msgspec.Struct, frozen=True, kw_only=True):
    """The user agrees, perhaps to something else than was proposed."""

    remember: Remember = "once"
    arguments: dict[str, Any] | None = None
    """The arguments as the user edited them (`CallQuestion`)."""
    params: CreateMessageParams | None = None
    """The prompt as the user edited it (`SamplingQuestion`)."""
    answer: CreateMessageResult | None = None
    """The model's words as the user edited them (`SamplingAnswerQuestion`)."""
    context: bool = False
    """True if the server's wish for more of the conversation is granted too (`SamplingQuestion`)."""


class No(msgspec.Struct, frozen=True, kw_only=True):
    """The user does not agree."""

    remember: Remember = "once"
    reason: str = ""
    """Words that reach the model, or the server."""


Reply: TypeAlias = "Yes | No | bool"
OnApprove: TypeAlias = Callable[[Question], "Reply | Awaitable[Reply]"]
"""Asks the user; what cannot be asked, since nobody was named to, is refused."""
