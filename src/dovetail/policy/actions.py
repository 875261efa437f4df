"""What somebody is about to do, as the rules see it."""

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
"""Starting a server; using its tools, prompts and resources; what it asks of the person; taking up a definition."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is to be decided on."""

    kind: ActionKind
    server: str
    """The key in the configuration, never the name that a server gives itself."""
    name: str = ""
    """The tool or prompt, or the URI of the resource."""
    arguments: dict[str, Any] = {}
    annotations: ToolAnnotations | None = None
    """What the server says of its tool; believed only where it makes things stricter, or the person trusts it."""
    trusted: bool = False
    definition: str | None = None
    """SHA-256 of the definition that is acted on."""
    launch: str | None = None
    """`LaunchSpec.digest` of the server, so that what was said of one program is not said of another of its name."""


class Decision(msgspec.Struct, frozen=True):
    """What the rules say, and which of them."""

    verdict: Verdict
    rule: str
    """The rule in words, with where it stands."""
