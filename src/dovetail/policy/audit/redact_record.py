"""Redaction of audit records: any value becomes bounded JSON without secrets."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, cast

import msgspec

from dovetail.policy.known_secrets import KnownSecrets
from dovetail.text.redact import REDACTED, is_secret, is_secret_option, redact_text

MAX_TEXT = 4_000
"""Characters of one text that are recorded."""
MAX_NAME = 200
"""Characters of the name of a member."""
MAX_VALUES = 1_000
"""Values of one record, at all depths."""
MAX_TOTAL = 64_000
"""Characters of all texts of a record."""
MAX_DEPTH = 20
_TOO_DEEP = "[nested too deeply]"


class RecordRedactor:
    """Redacts one record within its size limits; what does not fit is counted."""

    __slots__ = ("_secrets", "_values", "characters_used")

    def __init__(self, secrets: KnownSecrets | None = None) -> None:
        self._secrets = secrets
        self._values = MAX_VALUES
        self.characters_used = 0

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value as it is recorded."""
        self._values -= 1
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, dict):
            members = cast("dict[Any, Any]", value)
            return self._members(members, depth) if depth < MAX_DEPTH else _TOO_DEEP
        if isinstance(value, (msgspec.Struct, bytes, bytearray)):
            value = f"[{len(value)} bytes]" if not isinstance(value, msgspec.Struct) else _plain(value)
            return self.value(value, depth)
        if depth >= MAX_DEPTH:
            return _TOO_DEEP
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._items(cast("Collection[Any]", value), depth)
        return self.text(str(value))

    def text(self, text: str) -> str:
        """A text without what looks like a secret, cut where it is too long.

        It is looked at twice as far as it is kept, so that no secret is cut in two before it is seen.
        """
        kept = redact_text(text if len(text) <= 2 * MAX_TEXT else text[: 2 * MAX_TEXT])
        if self._secrets is not None:
            kept = self._secrets.cover(kept)
        room = MAX_TOTAL - self.characters_used
        if len(kept) > room or len(kept) > MAX_TEXT or len(text) > 2 * MAX_TEXT:
            kept = f"{kept[: max(0, min(room, MAX_TEXT))]}[… {len(text)} characters]"
        self.characters_used += len(kept)
        return _sound(kept)

    def _members(self, members: dict[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in members.items():
            if self._values <= 0 or self.characters_used >= MAX_TOTAL:
                kept["…"] = f"[{len(members) - len(kept)} more]"
                break
            called = str(name)
            self.characters_used += len(called)
            recorded, is_secret_name = _member_name(called[:MAX_NAME])
            hidden = is_secret_name and value is not None and not isinstance(value, bool)
            kept[recorded] = REDACTED if hidden else self.value(value, depth + 1)
        return kept

    def _items(self, items: Collection[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        before: object = None
        for value in items:
            if self._values <= 0 or self.characters_used >= MAX_TOTAL:
                kept.append(f"[{len(items) - len(kept)} more]")
                break
            hidden = isinstance(value, str) and is_secret_option(before)
            kept.append(REDACTED if hidden else self.value(value, depth + 1))
            before = value
        return kept


@functools.lru_cache(maxsize=1024)
def _member_name(name: str) -> tuple[str, bool]:
    """The name of a member as it is recorded; and True if its value is a secret."""
    return _sound(name), is_secret(name)


def _sound(text: str) -> str:
    """A text that can be encoded: half a surrogate pair cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
