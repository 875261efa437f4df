"""Signals of a terminal application, handled on its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Generator
from typing import Any


@contextlib.contextmanager
def handled_signals(on_interrupt: Callable[[], object], end: Callable[[], object]) -> Generator[None]:
    """Call a function at Ctrl-C, and another at SIGTERM and SIGHUP, so that the terminal is restored before the end."""
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}
    for name, handler in (("SIGINT", on_interrupt), ("SIGTERM", end), ("SIGHUP", end)):
        if (number := getattr(signal, name, None)) is not None:  # Windows does not have all of them
            before[number] = signal.signal(number, _on_loop(loop, handler))
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _on_loop(loop: asyncio.AbstractEventLoop, handler: Callable[[], object]) -> Callable[[int, object], None]:
    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(handler)

    return handle
