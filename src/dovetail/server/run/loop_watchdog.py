"""Watchdog of the event loop: logs which handler blocks it, where, for how long, and what to do about it.

A daemon thread looks four times a second at what the thread of the loop is doing. If it waits for events, that is all.
Else the loop is asked to run a callback, and if it does not within the limit, its handler is blocking it. So calls cost
nothing, and an idle server is not woken.
"""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import logging
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from types import FrameType

import msgspec

from dovetail.runtime.tracebacks import is_framework_file

VARIABLE = "DOVETAIL_BLOCKED_SECONDS"
"""The environment variable that sets the limit; 0 switches the watchdog off."""

BLOCKED_SECONDS = 1.0
"""Seconds that a handler may keep the event loop from running anything else before it is reported."""

_INTERVAL = 0.25
_REPORT_SECONDS = 5.0
"""Seconds after which a handler is reported that still blocks the loop; one that ends before is reported at its end."""
_AGAIN_SECONDS = 60.0
"""Seconds before the same place is reported again."""
_MAX_PLACES = 100
_MAX_LINE = 60

logger = logging.getLogger("dovetail")


class BlockedPlace(msgspec.Struct, frozen=True):
    """The place at which a handler blocks the event loop."""

    file: str
    line: int
    function: str
    handler: str | None
    """The tool, resource or prompt that is being served."""

    def describe(self, duration: float, *, ended: bool) -> str:
        """The log message."""
        code = linecache.getline(self.file, self.line).strip()
        shown = f" ({code if len(code) <= _MAX_LINE else code[: _MAX_LINE - 1] + '…'})" if code else ""
        subject, blocked = self.handler or f"{self.function}()", f"blocked the event loop for at least {duration:.1f} s"
        return (
            f"{subject} {blocked if ended else f'has {blocked}'}, at {os.path.basename(self.file)}:{self.line}{shown}; "
            "no other request was served meanwhile. Make the handler a plain def, which runs in a thread, or await."
        )


def blocked_place(frame: FrameType | None) -> BlockedPlace | None:
    """The innermost frame of the user on a stack, and the handler that it belongs to; None without such a frame."""
    user: FrameType | None = None
    handler: str | None = None
    for each in _stack(frame):
        if user is None and not is_framework_file(each.f_code.co_filename):
            user = each
        if handler is None and each.f_code.co_name in ("invoke", "run_handler"):
            handler = _handler_of(each)
    if user is None:
        return None
    return BlockedPlace(user.f_code.co_filename, user.f_lineno, user.f_code.co_name, handler)


@contextlib.contextmanager
def watching_loop() -> Generator[None]:
    """Watch the running loop, unless that is switched off."""
    seconds = _limit()
    if seconds <= 0:
        yield
        return
    watchdog = LoopWatchdog(asyncio.get_running_loop(), threading.get_ident(), seconds)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class LoopWatchdog:
    """Watches one loop, which runs in one thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, seconds: float) -> None:
        self._loop = loop
        self._thread = thread
        self._seconds = seconds
        self._stopped = threading.Event()
        self._reported: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="dovetail-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL):
            if _is_idle(self._frame()):
                continue
            began, answered = time.monotonic(), threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._seconds):
                self._blocked(began, answered)

    def _blocked(self, began: float, answered: threading.Event) -> None:
        frame = self._frame()
        # Between the two looks the process may have been suspended.
        place = None if _is_idle(frame) else blocked_place(frame)
        del frame
        ended = answered.wait(max(_REPORT_SECONDS - self._seconds, 0))
        duration = time.monotonic() - began
        if place is not None and self._may_report(place):
            logger.warning("%s", place.describe(duration, ended=ended))
        while not ended and not self._stopped.is_set():
            ended = answered.wait(_INTERVAL)

    def _may_report(self, place: BlockedPlace) -> bool:
        key, now = (place.file, place.function), time.monotonic()
        if now - self._reported.get(key, float("-inf")) < _AGAIN_SECONDS:
            return False
        if len(self._reported) >= _MAX_PLACES:
            self._reported.clear()
        self._reported[key] = now
        return True

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)  # pyright: ignore[reportPrivateUsage]


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_idle(frame: FrameType | None) -> bool:
    """True if a thread waits for events: its innermost frame is one of the event loop."""
    if frame is None:
        return True
    file = frame.f_code.co_filename
    return file.endswith("selectors.py") or os.path.basename(os.path.dirname(file)) == "asyncio"


def _handler_of(frame: FrameType) -> str | None:
    """The handler in words, from a frame of ours that has called it."""
    variables = frame.f_locals
    if frame.f_code.co_name == "run_handler":
        return variables.get("subject")
    name = getattr(variables.get("self"), "name", None)
    return None if name is None else f"Tool {name!r}"


def _limit() -> float:
    text = os.environ.get(VARIABLE)
    if text is None:
        return BLOCKED_SECONDS
    try:
        return float(text)
    except ValueError:
        logger.warning("%s=%s is not a number of seconds", VARIABLE, text)
        return BLOCKED_SECONDS
