"""An answer put together from the pieces that a model streams."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import InvalidAnswer
from dovetail.types.client_features import CreateMessageResult
from dovetail.types.content import SamplingContent, Text, ToolUse

from .tool_names import ToolNames

MAX_ANSWER = 4_000_000
"""Characters of text and arguments; an endpoint that sends more has lost its way."""

MAX_USES = 1_000
UNREADABLE = "dovetail/unreadable"
"""Key in a tool use's `_meta`: its arguments as the model wrote them, which are no JSON object."""


class AnswerAssembly:
    """Collects text and tool uses in the order in which they begin."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._parts: dict[Hashable, list[str]] = {}
        self._uses: dict[Hashable, tuple[str, str]] = {}
        self._size = 0

    def text(self, key: Hashable, piece: str) -> None:
        """More of a text."""
        self._append(key, piece)

    def use(self, key: Hashable, id: str | None, name: str | None) -> None:
        """A tool use begins, or more is known of it."""
        before = self._uses.get(key, ("", ""))
        self._uses[key] = (before[0] or id or "", before[1] or name or "")
        self._append(key, "")
        if len(self._uses) > MAX_USES:
            raise InvalidAnswer(f"The model wants more than {MAX_USES} tools called at once")

    def arguments(self, key: Hashable, piece: str) -> None:
        """More of the arguments of a tool use."""
        self._append(key, piece)

    def result(self, model: str, stop_reason: str | None, meta: dict[str, Any] | None) -> CreateMessageResult:
        """The whole answer; an answer with tool uses says so whatever the endpoint called its end."""
        taken: set[str] = set()
        blocks: list[SamplingContent] = []
        for key, parts in self._parts.items():
            written = "".join(parts)
            if key in self._uses:
                blocks.append(self._tool_use(key, written, taken))
            elif written:
                blocks.append(Text(text=written))
        if taken and stop_reason in (None, "endTurn"):
            stop_reason = "toolUse"
        return CreateMessageResult(
            role="assistant", content=blocks or Text(text=""), model=model, stop_reason=stop_reason, meta=meta
        )

    def _append(self, key: Hashable, piece: str) -> None:
        self._size += len(piece)
        if self._size > MAX_ANSWER:
            raise InvalidAnswer(f"The model's answer has more than {MAX_ANSWER:,} characters")
        self._parts.setdefault(key, []).append(piece)

    def _tool_use(self, key: Hashable, written: str, taken: set[str]) -> ToolUse:
        id, name = self._uses[key]
        if not name:
            raise InvalidAnswer("The model wants a tool called and does not say which")
        if not id or id in taken:  # Some local servers number nothing; results are told apart by these.
            id = next(new for number in range(len(taken) + 1) if (new := f"{id or 'call'}_{number}") not in taken)
        taken.add(id)
        arguments = _arguments(written)
        meta = {UNREADABLE: written} if arguments is None else None
        return ToolUse(id=id, name=self._names.original(name), input=arguments or {}, meta=meta)


def unreadable(use: ToolUse) -> str | None:
    """The arguments of a tool use as the model wrote them, when nobody can read them."""
    written = (use.meta or {}).get(UNREADABLE)
    return written if isinstance(written, str) else None


def _arguments(written: str) -> dict[str, Any] | None:
    if not written.strip():
        return {}
    try:
        value = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
