"""Which branch of a handler does something, told in the same way each time the handler runs.

Branches are tasks, as `asyncio.gather` and task groups make them. Which of them comes first may differ from
run to run, so a branch is known by its parent and by the first thing that it asks or does.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from dovetail.protocol.mrtr import digest

_inherited: ContextVar[tuple[Lanes, str] | None] = ContextVar("dovetail-lane", default=None)


class Lanes:
    """The branches of one handler; the handler itself is the one without a name."""

    def __init__(self, handler: asyncio.Task[Any] | None = None) -> None:
        self._names: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()
        if handler is not None:
            self._names[handler] = ""
        self._alike: dict[str, int] = {}

    def here(self, doing: str) -> str:
        """The name of the branch that runs now, given the digest of what it does."""
        task = asyncio.current_task()
        assert task is not None
        name = self._names.get(task)
        if name is None:
            name = self._names[task] = self._named(doing)
            _inherited.set((self, name))
        return name

    def _named(self, doing: str) -> str:
        above = _inherited.get()
        base = digest(above[1] if above is not None and above[0] is self else "", doing)
        count = self._alike[base] = self._alike.get(base, -1) + 1
        return f"{base}.{count}"
