"""The client's end of stdio: a child process, its standard streams, and its termination."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from dovetail.protocol.errors import ConnectionLost
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong

from .base import MAX_LINE, Receiver
from .line_channel import LineChannel
from .line_sink import line_sink
from .line_source import LineSource, line_source
from .orphan_guard import OrphanGuard, end_group

_EXIT_SECONDS = 2.0
_TERM_SECONDS = 2.0
_POLL_SECONDS = 0.005
_LAST_STDERR_LINES = 12
_STDERR_LINE = 64 * 1024


class ProcessChannel(LineChannel):
    """Lines to a child's stdin, lines from its stdout; its stderr goes to `on_stderr`, by default to our stderr.

    The child's environment is `env` on top of `inherited`, by default our environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        max_line: int = MAX_LINE,
        *,
        inherited: Mapping[str, str] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(max_line)
        self._command = list(command)
        self._env = {**(os.environ if inherited is None else inherited), **(env or {})}
        self._on_stderr = on_stderr or _write_to_stderr
        self._cwd = cwd
        self._last_stderr: deque[str] = deque(maxlen=_LAST_STDERR_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        self._orphan_guard: OrphanGuard | None = None
        self._errors: LineSource | None = None
        self._input_closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return None if self._process is None else self._process.pid

    def open(self, receiver: Receiver) -> None:
        """Start the child and begin to read."""
        self._receiver = receiver
        process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._orphan_guard = OrphanGuard.watch(process.pid)
        self._sink = line_sink(process.stdin.fileno(), self._lost)
        self._source = line_source(process.stdout.fileno(), self._max_line, self._received, self._ended)
        self._errors = line_source(process.stderr.fileno(), _STDERR_LINE, self._stderr_line, lambda _: None)
        self._source.start()
        self._errors.start()

    async def close(self) -> None:
        """End the child: EOF, then SIGTERM, then SIGKILL (lifecycle, "Shutdown", stdio)."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._source is not None:
            self._source.discard()
        try:
            if self._sink is not None:
                await self._sink.finish()
            self._close_input(process)
            if not await _exited_within(process, _EXIT_SECONDS):
                end_group(process, forced=False)
                await _exited_within(process, _TERM_SECONDS)
        finally:
            end_group(process, forced=True)
            process.wait()
            if self._orphan_guard is not None:
                self._orphan_guard.dismiss()
            self._release(process)

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=self._env,
                cwd=self._cwd,
                bufsize=0,
                start_new_session=sys.platform != "win32",
            )
        except (OSError, ValueError) as problem:
            where = f" in {self._cwd}" if self._cwd else ""
            raise ConnectionLost(f"Could not start {self._command[0]!r}{where}: {problem}") from problem

    def _close_input(self, process: subprocess.Popen[bytes]) -> None:
        if not self._input_closed and process.stdin:
            self._input_closed = True
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _release(self, process: subprocess.Popen[bytes]) -> None:
        if self._source is not None and self._errors is not None:
            # Every process that could write is gone: what is in the pipe now is all there will be.
            self._errors.read_available()
            self._source.stop()
            self._errors.stop()
        self._close_input(process)
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def _stderr_line(self, line: bytes | TooLong) -> None:
        text = line.decode(errors="replace") if isinstance(line, bytes) else f"[{line.size} bytes]"
        self._last_stderr.append(text)
        self._on_stderr(text)

    def _lost(self, reason: str | None) -> None:
        # A child that has exited is noticed first by a broken pipe; its stdout may still hold responses,
        # so the end of stdout decides, unless it never comes.
        asyncio.get_running_loop().call_later(_EXIT_SECONDS, self._ended, reason)

    def _ended(self, reason: str | None) -> None:
        receiver, self._receiver = self._receiver, _NoReceiver()
        if receiver is None or isinstance(receiver, _NoReceiver):
            return
        asyncio.get_running_loop().create_task(self._explain(receiver, reason))

    async def _explain(self, receiver: Receiver, reason: str | None) -> None:
        """Report why the child's output ended, with its exit code and its last lines on stderr."""
        process = self._process
        if process is not None and await _exited_within(process, 0.5):
            reason = f"{self._command[0]!r} exited with code {process.returncode}"
        if self._last_stderr:
            reason = f"{reason or 'the output ended'}; the last lines of its stderr:\n" + "\n".join(self._last_stderr)
        receiver.disconnected(reason or f"{self._command[0]!r} closed its output")


def _write_to_stderr(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + "\n")


class _NoReceiver:
    """The receiver after the end, which ignores everything."""

    def received(self, line: bytes) -> None: ...
    def overlong(self, line: TooLong) -> None: ...
    def failed(self, id: Id, problem: Exception) -> None: ...
    def disconnected(self, reason: str | None) -> None: ...


async def _exited_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = _POLL_SECONDS
    while process.poll() is None:
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)
    return True
