"""Subscribers in this process, and delivery of messages on their event loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("dovetail")


class TopicSubscriber:
    """A callback subscribed to a topic, called on the event loop that ran when it was made."""

    __slots__ = ("_bus", "_callback", "_loop", "topic")

    def __init__(self, bus: LocalBus, topic: str, callback: Callable[[bytes], None]) -> None:
        self.topic = topic
        self._bus = bus
        self._callback: Callable[[bytes], None] | None = callback
        self._loop = asyncio.get_running_loop()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._callback is None

    def close(self) -> None:
        """Unsubscribe; messages already scheduled are not delivered."""
        self._callback = None
        self._bus.remove(self)

    def send(self, message: bytes, running: asyncio.AbstractEventLoop | None) -> None:
        """Schedule the callback on its event loop; `running` is the event loop of this thread, if any."""
        try:
            if self._loop is running:
                self._loop.call_soon(self._call, message)
            else:
                self._loop.call_soon_threadsafe(self._call, message)
        except RuntimeError:
            # The event loop was closed, and the subscription was not: there is nothing left to call.
            self.close()

    def _call(self, message: bytes) -> None:
        if self._callback is None:
            return
        try:
            self._callback(message)
        except Exception:
            logger.exception("A subscriber to %r failed", self.topic)


class LocalBus:
    """The subscribers of each topic; safe to use from any thread."""

    __slots__ = ("_lock", "_topics")

    def __init__(self) -> None:
        # Tuples that are replaced and never modified, so that delivery needs no lock.
        self._topics: dict[str, tuple[TopicSubscriber, ...]] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, subscriber: TopicSubscriber) -> None:
        """Deliver to this subscriber from now on, unless it is closed already."""
        with self._lock:
            if not subscriber.closed:
                self._topics[subscriber.topic] = (*self._topics.get(subscriber.topic, ()), subscriber)

    def remove(self, subscriber: TopicSubscriber) -> None:
        """Stop delivering to a subscriber."""
        with self._lock:
            rest = tuple(other for other in self._topics.get(subscriber.topic, ()) if other is not subscriber)
            if rest:
                self._topics[subscriber.topic] = rest
            else:
                self._topics.pop(subscriber.topic, None)

    def deliver(self, topic: str, message: bytes) -> None:
        """Send a message to all subscribers of a topic."""
        subscribers = self._topics.get(topic)
        if subscribers:
            try:
                running = asyncio.get_running_loop()
            except RuntimeError:
                running = None
            for subscriber in subscribers:
                subscriber.send(message, running)

    def clear(self) -> None:
        """Close all subscriptions."""
        for subscribers in list(self._topics.values()):
            for subscriber in subscribers:
                subscriber.close()
