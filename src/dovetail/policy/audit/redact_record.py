"""Redaction of audit records: any value becomes bounded JSON without secrets."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any, cast

import msgspec

from dovetail.policy.known_secrets import KnownSecrets
from dovetail.text.redact import REDACTED, is_secret, is_secret_option, redact_text

MAX_TEXT = 4_000
"""Characters of one text that are recorded."""
MAX_LABEL = 500
"""Characters of a label that is remembered."""
MAX_NAME = 200
"""Characters of the name of a member."""
MAX_VALUES = 1_000
"""Values of one record, at all depths."""
MAX_TOTAL = 64_000
"""Characters of all texts of a record."""
MAX_DEPTH = 20


class RecordRedactor:
    """Redacts one record within its size limits; what does not fit is counted."""

    def __init__(self, secrets: KnownSecrets | None = None, known: MutableMapping[str, str] | None = None) -> None:
        """`known` holds what `label` made of earlier texts; it is to be emptied when there are more secrets."""
        self._secrets = secrets
        self._known = known
        self._values = MAX_VALUES
        self._characters = MAX_TOTAL

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value as it is recorded."""
        self._values -= 1
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, (msgspec.Struct, bytes, bytearray)):
            value = f"[{len(value)} bytes]" if not isinstance(value, msgspec.Struct) else _plain(value)
            return self.value(value, depth)
        if depth >= MAX_DEPTH:
            return "[nested too deeply]"
        if isinstance(value, dict):
            return self._members(cast("dict[Any, Any]", value), depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._items(cast("Collection[Any]", value), depth)
        return self.text(str(value))

    def label(self, text: str) -> str:
        """A short text that comes again and again, such as the name of a tool or a rule."""
        if not text:
            return text
        if self._known is None or len(text) > MAX_LABEL:
            return self.text(text)
        redacted = self._known.get(text)
        if redacted is None:
            redacted = self._known[text] = self.text(text)
        else:
            self._characters -= len(redacted)
        return redacted

    def text(self, text: str) -> str:
        """A text without what looks like a secret, cut where it is too long.

        It is looked at twice as far as it is kept, so that no secret is cut in two before it is seen.
        """
        room = MAX_TEXT if self._characters >= MAX_TEXT else max(0, self._characters)
        kept = redact_text(text if len(text) <= 2 * MAX_TEXT else text[: 2 * MAX_TEXT])
        if self._secrets is not None:
            kept = self._secrets.cover(kept)
        if len(kept) > room or len(text) > 2 * MAX_TEXT:
            kept = f"{kept[:room]}[… {len(text)} characters]"
        self._characters -= len(kept)
        return _sound(kept)

    def _members(self, members: dict[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in members.items():
            if self._values <= 0 or self._characters <= 0:
                kept["…"] = f"[{len(members) - len(kept)} more]"
                break
            called = str(name)
            hidden = is_secret(called) and value is not None and not isinstance(value, bool)
            self._characters -= len(called)
            kept[_sound(called[:MAX_NAME])] = REDACTED if hidden else self.value(value, depth + 1)
        return kept

    def _items(self, items: Collection[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        before: object = None
        for value in items:
            if self._values <= 0 or self._characters <= 0:
                kept.append(f"[{len(items) - len(kept)} more]")
                break
            hidden = isinstance(value, str) and is_secret_option(before)
            kept.append(REDACTED if hidden else self.value(value, depth + 1))
            before = value
        return kept


def _sound(text: str) -> str:
    """A text that can be encoded: half a surrogate pair cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
