"""What the tests of sources and sinks share: a pipe, and a source that is being read."""

from __future__ import annotations

import os

from dovetail.transports.line_source import PolledSource, ThreadedSource
from tests.transports.collector import Collector

Source = PolledSource | ThreadedSource


class Pipe:
    """Both ends of a pipe, each closed at most once."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}

    def close(self, *ends: int) -> None:
        for end in self._open & set(ends):
            self._open.discard(end)
            os.close(end)


def start(kind: type[Source], fd: int, limit: int = 1000) -> tuple[Source, Collector]:
    """A source that reads, and the collector that it delivers to."""
    collector = Collector()
    source = kind(fd, limit, collector.take, collector.disconnected)
    source.start()
    return source, collector
