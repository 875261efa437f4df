"""Log of one server: its stderr, log messages and traffic, within a bound of bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from dovetail.host.events import HostEvent, LogLine, OnEvent, OnTraffic, TrafficLine
from dovetail.host.limits import Limits
from dovetail.policy.known_secrets import KnownSecrets
from dovetail.runtime.rate_limit import TokenBucket
from dovetail.text.sanitize import clean_text
from dovetail.types.bounded_deque import ByteBoundedDeque

_LAST_LINES = 12
_TAIL = 200
"""Bytes kept of the end of a message that is cut off."""

FLOOD = 1000
"""Lines that nobody was told of, after which it is a flood."""


class ServerLog:
    """The latest lines and messages of a server; a flood pushes out older ones and is reported only in part."""

    def __init__(
        self,
        server: str,
        limits: Limits,
        emit: OnEvent,
        flooded: Callable[[str], None],
        on_traffic: OnTraffic | None = None,
    ) -> None:
        self._flooded = flooded
        self._on_traffic = on_traffic
        self._untold = 0
        self.server = server
        self._limits = limits
        self._emit = emit
        self._lines: ByteBoundedDeque[LogLine] = ByteBoundedDeque(limits.log_bytes)
        self._messages: ByteBoundedDeque[TrafficLine] = ByteBoundedDeque(limits.traffic_bytes)
        self._secrets = KnownSecrets()
        self._events = TokenBucket(limits.events_per_second, limits.events_per_second + 1)
        self.heard = time.monotonic()
        """Time of the last message from the server."""

    def hide(self, values: Iterable[str | None]) -> None:
        """Keep what a server was given as a secret out of what is kept and told of it; messages stay as they are."""
        self._secrets.add(values)

    def cover(self, text: str) -> str:
        """A text about the server, without its secrets."""
        return self._secrets.cover(text)

    def stderr(self, text: str) -> None:
        """A line that the server wrote to its stderr."""
        self._write("stderr", "info", text)

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """A message that the server logged."""
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        self._write("log", level, f"{logger}: {text}" if logger else text)

    def note(self, level: Literal["info", "warning", "error"], text: str) -> None:
        """Add a line by the host about the server."""
        self._write("host", level, text)

    def trace(self, direction: Literal["sent", "received"], message: bytes) -> None:
        """A message that went by."""
        if direction == "received":
            self.heard = time.monotonic()
        kept = message[: self._limits.traffic_line]
        tail = message[-_TAIL:] if len(kept) < len(message) else b""
        line = TrafficLine(
            at=time.time(), server=self.server, direction=direction, message=kept, size=len(message), tail=tail
        )
        self._messages.add(line, len(kept))
        if self._on_traffic is not None:
            self._on_traffic(line)

    def lines(self) -> list[LogLine]:
        """Lines of stderr and log messages, oldest first."""
        return self._lines.all()

    def last_stderr(self) -> list[str]:
        """The last lines of stderr, oldest first."""
        return [line.text for line in self._lines.all() if line.source == "stderr"][-_LAST_LINES:]

    def messages(self) -> list[TrafficLine]:
        """Messages in both directions, oldest first."""
        return self._messages.all()

    def _write(self, source: Literal["stderr", "log", "host"], level: str, text: str) -> None:
        text = clean_text(self.cover(text)[: self._limits.log_line])
        line = LogLine(at=time.time(), server=self.server, source=source, level=level, text=text)
        self._lines.add(line, len(text) * 2)
        if self._events.take(time.monotonic()) == 0:
            self._emit(HostEvent(kind="log", server=self.server, detail=line))
            return
        self._untold += 1
        if self._untold == FLOOD:
            self._flooded(f"It writes more than anybody can read; more than {FLOOD} lines were not told of")
