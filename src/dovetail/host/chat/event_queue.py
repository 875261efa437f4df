"""Queue of chat events between a turn and its reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

from .events import ChatEvent, ToolProgress


class EventQueue:
    """Queue of events; a slow reader gets the newest progress of each call, not all of it."""

    def __init__(self) -> None:
        self._events: deque[ChatEvent] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, event: ChatEvent) -> None:
        """Add an event."""
        newest = self._events[-1] if self._events else None
        if isinstance(event, ToolProgress) and isinstance(newest, ToolProgress) and newest.id == event.id:
            self._events[-1] = event
        elif not isinstance(event, ToolProgress) or not self._overtake(event):
            self._events.append(event)
        self._changed.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()

    def _overtake(self, event: ToolProgress) -> bool:
        for place, waiting in enumerate(self._events):
            if isinstance(waiting, ToolProgress) and waiting.id == event.id:
                self._events[place] = event
                return True
        return False
