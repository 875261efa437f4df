"""Stable names for the tasks of a handler that is replayed.

Branches are tasks, as `asyncio.gather` and task groups make them. Their order may differ from run to run, so a branch
is identified by its parent and by the first question or step that it comes to.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from dovetail.protocol.mrtr import digest

_inherited: ContextVar[tuple[Branches, str] | None] = ContextVar("dovetail-branch", default=None)


class Branches:
    """The branches of one handler; the handler itself is the one without a name."""

    def __init__(self, handler: asyncio.Task[Any] | None = None) -> None:
        self._names: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()
        if handler is not None:
            self._names[handler] = ""
        self._counts: dict[str, int] = {}

    def current(self, action: str) -> str:
        """The name of the branch that runs now, given the digest of its question or step."""
        task = asyncio.current_task()
        assert task is not None
        name = self._names.get(task)
        if name is None:
            name = self._names[task] = self._name(action)
            _inherited.set((self, name))
        return name

    def _name(self, action: str) -> str:
        above = _inherited.get()
        base = digest(above[1] if above is not None and above[0] is self else "", action)
        count = self._counts[base] = self._counts.get(base, -1) + 1
        return f"{base}.{count}"
