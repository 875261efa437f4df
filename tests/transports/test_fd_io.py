"""Choice between polling and threads: pipes and sockets are polled, everything else gets a thread."""

import os
import socket
from pathlib import Path

import pytest

from dovetail.transports.fd_io import pollable
from dovetail.transports.line_sink import PolledSink, ThreadedSink, line_sink
from dovetail.transports.line_source import PolledSource, ThreadedSource, line_source
from tests.transports.collector import Collector
from tests.transports.pipes import Pipe


class TestPollable:
    def test_a_pipe_is_polled(self, pipe: Pipe) -> None:
        assert pollable(pipe.reading) and pollable(pipe.writing)

    def test_a_socket_is_polled(self) -> None:
        left, right = socket.socketpair()
        with left, right:
            assert pollable(left.fileno())

    def test_a_file_is_not_polled(self, tmp_path: Path) -> None:
        with (tmp_path / "file").open("wb") as file:
            assert not pollable(file.fileno())

    def test_a_terminal_is_not_polled(self) -> None:
        ours, theirs = os.openpty()
        assert not pollable(theirs)
        os.close(ours)
        os.close(theirs)

    def test_a_pipe_shared_with_stderr_is_not_polled(self, pipe: Pipe, capfd: pytest.CaptureFixture[str]) -> None:
        kept = os.dup(2)
        try:
            os.dup2(pipe.writing, 2)
            assert not pollable(pipe.writing)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        assert pollable(pipe.writing)

    async def test_sources_and_sinks_are_made_to_fit_their_descriptor(self, pipe: Pipe, tmp_path: Path) -> None:
        assert isinstance(line_sink(pipe.writing, lambda reason: None), PolledSink)
        seen = Collector()
        assert isinstance(line_source(pipe.reading, 10, seen.take, seen.disconnected), PolledSource)
        with (tmp_path / "file").open("wb") as file:
            sink = line_sink(file.fileno(), lambda reason: None)
            assert isinstance(sink, ThreadedSink)
            sink.send(b"line")
            await sink.finish()
        with (tmp_path / "file").open("rb") as file:
            source = line_source(file.fileno(), 10, seen.take, seen.disconnected)
            assert isinstance(source, ThreadedSource)
            source.start()
            await seen.end()
        assert seen.lines == [b"line"]
