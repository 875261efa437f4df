"""Actions that the rules decide on, and decisions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.types.tools import ToolAnnotations

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

ActionKind: TypeAlias = Literal[
    "launch",
    "tool",
    "prompt",
    "resource",
    "sampling",
    "sampling-answer",
    "context",
    "elicitation",
    "roots",
    "definition",
]
"""Starting a server; using its tools, prompts and resources; what it asks of the user; taking up a definition."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is to be decided on."""

    kind: ActionKind
    server: str
    """The key in the configuration, never the name that a server gives itself."""
    name: str = ""
    """The tool or prompt, or the URI of the resource."""
    arguments: dict[str, Any] = {}
    annotations: ToolAnnotations | None = None
    """Annotations of the tool; believed only where they make things stricter, or the user trusts the server."""
    trusted: bool = False
    definition: str | None = None
    """SHA-256 of the definition that is acted on."""
    launch: str | None = None
    """`LaunchSpec.digest` of the server, so that what was said of one program is not said of another of its name."""
    principal: str | None = None
    """The authenticated caller of a gateway; None where there is no authentication."""
    groups: frozenset[str] = frozenset()
    """The groups of the caller, from the claims of its token."""


class Decision(msgspec.Struct, frozen=True):
    """The verdict of the rules, and the rule that gave it."""

    verdict: Verdict
    rule: str
    """The rule in words, with where it stands."""
