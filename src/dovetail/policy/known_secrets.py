"""Secrets known word for word, because the host gave them to servers: they may come back in any text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dovetail.text.redact import REDACTED

MIN_SECRET = 6
"""Characters; every other text would have something shorter in it by chance."""


class KnownSecrets:
    """Values to be left out of whatever is written or shown."""

    def __init__(self) -> None:
        self._words: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Iterable[str | None]) -> None:
        """Leave these out from now on, in whole and word by word; what is too short to be a secret is let be."""
        words = {part for value in values if value for part in (value, *value.split()) if len(part) >= MIN_SECRET}
        if words <= self._words:
            return
        self._words |= words
        self._pattern = re.compile("|".join(map(re.escape, sorted(self._words, key=len, reverse=True))))

    def cover(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)
