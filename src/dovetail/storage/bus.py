"""Listeners of this process, and how a message reaches them on their loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("dovetail")


class Listener:
    """One callback on one topic, on the loop that was running when it was made."""

    __slots__ = ("_bus", "_callback", "_loop", "topic")

    def __init__(self, bus: LocalBus, topic: str, callback: Callable[[bytes], None]) -> None:
        self.topic = topic
        self._bus = bus
        self._callback: Callable[[bytes], None] | None = callback
        self._loop = asyncio.get_running_loop()

    @property
    def closed(self) -> bool:
        """Whether it listens no more."""
        return self._callback is None

    def close(self) -> None:
        """Listen no more; what is on its way is not delivered."""
        self._callback = None
        self._bus.remove(self)

    def send(self, message: bytes, running: asyncio.AbstractEventLoop | None) -> None:
        """Have the callback called in a turn of its loop; `running` is the loop of this thread."""
        try:
            if self._loop is running:
                self._loop.call_soon(self._call, message)
            else:
                self._loop.call_soon_threadsafe(self._call, message)
        except RuntimeError:
            # The loop was closed without closing the subscription: nobody is there to be called.
            self.close()

    def _call(self, message: bytes) -> None:
        if self._callback is None:
            return
        try:
            self._callback(message)
        except Exception:
            logger.exception("A listener to %r failed", self.topic)


class LocalBus:
    """Who listens to what; used from any thread."""

    __slots__ = ("_lock", "_topics")

    def __init__(self) -> None:
        # Tuples that are replaced, never changed, so that a message on its way needs no lock.
        self._topics: dict[str, tuple[Listener, ...]] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, listener: Listener) -> None:
        """Deliver to this listener from now on, unless it was closed already."""
        with self._lock:
            if not listener.closed:
                self._topics[listener.topic] = (*self._topics.get(listener.topic, ()), listener)

    def remove(self, listener: Listener) -> None:
        """Deliver to it no more."""
        with self._lock:
            rest = tuple(other for other in self._topics.get(listener.topic, ()) if other is not listener)
            if rest:
                self._topics[listener.topic] = rest
            else:
                self._topics.pop(listener.topic, None)

    def deliver(self, topic: str, message: bytes) -> None:
        """Send a message to everyone who listens to the topic."""
        listeners = self._topics.get(topic)
        if listeners:
            try:
                running = asyncio.get_running_loop()
            except RuntimeError:
                running = None
            for listener in listeners:
                listener.send(message, running)

    def clear(self) -> None:
        """Close every listener."""
        for listeners in list(self._topics.values()):
            for listener in listeners:
                listener.close()
