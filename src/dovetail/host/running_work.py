"""Running work that can be stopped: calls, and questions to the user."""

from __future__ import annotations

import asyncio
import itertools
import time
from types import TracebackType

import msgspec

from dovetail.protocol.errors import Refused

_STOP_SECONDS = 5.0
"""Seconds that a stop waits for the clean-up of what it has stopped."""


class Stopped(Refused):
    """The user stopped it."""


class WorkInProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A call, or something else that a host is doing."""

    number: int
    """Of the host; it is used once."""
    what: str
    server: str = ""
    """The key of the server that it works for, if it works for one."""
    since: float
    """Since when, in seconds since the epoch."""


class RunningWork:
    """All running work; each piece runs in the task of its caller."""

    def __init__(self) -> None:
        self._pieces: set[_Piece] = set()
        self._numbers = itertools.count(1)
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pieces)

    def piece(self, what: str, server: str = "") -> _Piece:
        """A piece of work, for as long as the `with` lasts; what it is stopped with comes out of that."""
        return _Piece(self._pieces, self._ended, what, server, next(self._numbers))

    def in_progress(self) -> list[WorkInProgress]:
        """The work that is running now, oldest first."""
        pieces = sorted(self._pieces, key=lambda piece: piece.number)
        return [
            WorkInProgress(number=each.number, what=each.what, server=each.server, since=each.since) for each in pieces
        ]

    def cancel(self, number: int) -> bool:
        """Stop one piece of work; whether there was such a piece."""
        here = asyncio.current_task()
        return any(
            piece.stop(Stopped(f"The user stopped {piece.what}"), here)
            for piece in list(self._pieces)
            if piece.number == number
        )

    async def stop(self) -> None:
        """Stop everything but the task that asks for it, and wait, within bounds, until it has stopped."""
        here = asyncio.current_task()
        stopped = {piece for piece in list(self._pieces) if piece.stop(Stopped(f"The user stopped {piece.what}"), here)}
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while stopped & self._pieces:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            pass

    def drop(self, server: str, problem: Exception) -> None:
        """Stop what is under way for one server, which fails with this problem."""
        here = asyncio.current_task()
        for piece in list(self._pieces):
            if piece.server == server:
                piece.stop(problem, here)


class _Piece:
    """Cancels the task that it runs in when it is stopped, and takes that back at its end, as a timeout does."""

    __slots__ = ("_before", "_ended", "_pieces", "_problem", "_task", "number", "server", "since", "what")

    def __init__(self, pieces: set[_Piece], ended: asyncio.Event, what: str, server: str, number: int) -> None:
        self._pieces = pieces
        self._ended = ended
        self.what = what
        self.server = server
        self.number = number
        self.since = time.time()
        self._problem: Exception | None = None
        self._before = 0
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task()
        assert task is not None
        self._before = task.cancelling()
        self._pieces.add(self)

    def stop(self, problem: Exception, here: asyncio.Task[object] | None) -> bool:
        """Stop it, unless it runs here; whether it was stopped."""
        if self._task is None or self._task is here:
            return False
        if self._problem is None:
            self._problem = problem
            self._task.cancel()
        return True

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pieces.discard(self)
        self._ended.set()
        if self._problem is None or self._task is None:
            return
        only_ours = self._task.uncancel() <= self._before
        if only_ours and isinstance(problem, asyncio.CancelledError):
            raise self._problem from None
