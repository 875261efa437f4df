"""Names of tools as providers take them: up to 64 letters, digits, `_` and `-`, where the protocol allows more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

MAX_NAME = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]")


def sent_name(name: str) -> str:
    """The name for a provider: the same one where that will do, else one that ends in a hash of it."""
    if name and len(name) <= MAX_NAME and not _ODD.search(name):
        return name
    return f"{_ODD.sub('_', name)[: MAX_NAME - 13]}_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


class ToolNames:
    """Knows the tools of one request by the names that were sent."""

    def __init__(self, names: Iterable[str]) -> None:
        self._original = {sent_name(name): name for name in names}

    def original(self, sent: str) -> str:
        """The name that a model means; one that it made up stays as it is."""
        return self._original.get(sent, sent)
