"""Conversion of messages to editable text and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import msgspec

from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage
from dovetail.types.content import Role, SamplingContent, Text

_HEAD = re.compile(r"^=== (system|user|assistant)(?: \[(\d+): [^\]]*\])? ===$", re.MULTILINE)


def blocks_of(content: SamplingContent | list[SamplingContent]) -> list[SamplingContent]:
    """The blocks of a message as a list."""
    return content if isinstance(content, list) else [content]


def words_of(content: SamplingContent | list[SamplingContent]) -> str:
    """A message as text; other blocks are named."""
    return "\n".join(b.text if isinstance(b, Text) else f"[{_kind(b)}]" for b in blocks_of(content))


def as_draft(messages: Sequence[SamplingMessage], system: str | None = None) -> str:
    """The messages as editable text, each under a line with its role; other blocks are referred to by number."""
    parts = [] if system is None else [f"=== system ===\n{system}"]
    for number, (role, block) in enumerate(_flat(messages)):
        if isinstance(block, Text):
            parts.append(f"=== {role} ===\n{block.text}")
        else:
            parts.append(f"=== {role} [{number}: {_kind(block)}] ===")
    return "\n".join(parts)


def read_draft(text: str, messages: Sequence[SamplingMessage]) -> tuple[str | None, list[SamplingMessage]]:
    """Parse an edited draft to system prompt and messages; ValueError with a reason if it is invalid."""
    pieces = _HEAD.split(text)
    if pieces[0].strip():
        raise ValueError("the first line must name the role: === user ===")
    before = _flat(messages)
    system: str | None = None
    parsed: list[tuple[Role, SamplingContent]] = []
    for role, number, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        words = body.removeprefix("\n").removesuffix("\n")
        if role == "system":
            system = words or None
        elif number is not None:
            if int(number) >= len(before):
                raise ValueError(f"there is no block with the number {number}")
            parsed.append((cast("Role", role), before[int(number)][1]))
        elif words.strip():
            parsed.append((cast("Role", role), Text(words)))
    if not parsed:
        raise ValueError("no message is left")
    return system, _joined(parsed)


def edited_params(params: CreateMessageParams, text: str) -> CreateMessageParams:
    """A sampling request with an edited prompt."""
    system, messages = read_draft(text, params.messages)
    return msgspec.structs.replace(params, system_prompt=system, messages=messages)


def edited_answer(answer: CreateMessageResult, text: str) -> CreateMessageResult:
    """A model's answer with edited text; other blocks stay."""
    kept = [block for block in blocks_of(answer.content) if not isinstance(block, Text)]
    content: list[SamplingContent] = [*([Text(text)] if text.strip() else []), *kept]
    if not content:
        raise ValueError("the answer is empty")
    return msgspec.structs.replace(answer, content=content[0] if len(content) == 1 else content)


def _flat(messages: Sequence[SamplingMessage]) -> list[tuple[Role, SamplingContent]]:
    return [(message.role, block) for message in messages for block in blocks_of(message.content)]


def _joined(blocks: list[tuple[Role, SamplingContent]]) -> list[SamplingMessage]:
    """Join consecutive blocks of one role to one message."""
    messages: list[tuple[Role, list[SamplingContent]]] = []
    for role, block in blocks:
        if messages and messages[-1][0] == role:
            messages[-1][1].append(block)
        else:
            messages.append((role, [block]))
    return [SamplingMessage(role, parts[0] if len(parts) == 1 else parts) for role, parts in messages]


def _kind(block: SamplingContent) -> str:
    name = getattr(block, "name", None) or getattr(block, "mime_type", None)
    return f"{type(block).__name__.lower()}{f' {name}' if name else ''}".replace("]", ")")
