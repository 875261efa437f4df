"""The client's end of stdio: a child process, its standard streams, and its termination."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from dovetail.protocol.errors import ConnectionLost
from dovetail.types.bounded_deque import ByteBoundedDeque
from dovetail.wire.jsonrpc import Id, Invalid
from dovetail.wire.lines import TooLong

from .base import MAX_RECEIVED, ProgramChannel, Receiver
from .fd_io import unread_bytes
from .line_channel import LineChannel
from .line_sink import line_sink
from .line_source import LineSource, line_source
from .orphan_guard import OrphanGuard, end_group
from .process_tree import MARK, ProcessTree
from .program_output import ProgramOutput, describe_exit

_EXIT_SECONDS = 2.0
_TERM_SECONDS = 2.0
_POLL_SECONDS = 0.005
_FORCED = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
_STDERR_LINE = 64 * 1024
_HELD_STDERR = 256 * 1024
"""Bytes of stderr that are held back until the handshake is done; older lines are dropped."""


class ProcessChannel(LineChannel, ProgramChannel):
    """Lines to a child's stdin, lines from its stdout; its stderr goes to `on_stderr`, by default to our stderr.

    `env` is the whole environment of the child, by default ours. With `hold_stderr` the lines that the child writes to
    stderr before its handshake is done are passed on only if the start is cancelled; the error of a failed start has
    an excerpt of them. Errors call the child `name`, by default after its program.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        max_line: int = MAX_RECEIVED,
        *,
        on_stderr: Callable[[str], None] | None = None,
        hold_stderr: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(max_line)
        self._command = list(command)
        self._name = name or self._command[0]
        self._tree = ProcessTree()
        self._env = {**(os.environ if env is None else env), MARK: self._tree.mark}
        self._on_stderr = on_stderr or _write_to_stderr
        self._cwd = cwd
        self._output = ProgramOutput()
        self._is_starting = True
        self._write_failed = False
        self._held_stderr: ByteBoundedDeque[str] | None = ByteBoundedDeque(_HELD_STDERR) if hold_stderr else None
        self._process: subprocess.Popen[bytes] | None = None
        self._orphan_guard: OrphanGuard | None = None
        self._errors: LineSource | None = None
        self._input_closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return None if self._process is None else self._process.pid

    @property
    def has_read_input(self) -> bool:
        """True if the child may have read what it was sent: it may have ended because of that."""
        process = self._process
        if self._write_failed or process is None or process.stdin is None or process.stdin.closed:
            return not self._write_failed
        return not unread_bytes(process.stdin.fileno())

    def explain(self, problem: str) -> str:
        """The text of an error about the child, with an excerpt of what it wrote, without control characters."""
        return self._output.explain(problem)

    def open(self, receiver: Receiver) -> None:
        """Start the child and begin to read."""
        self._receiver = receiver
        process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._orphan_guard = OrphanGuard.watch(process.pid, self._tree.mark)
        self._sink = line_sink(process.stdin.fileno(), self._lost)
        self._source = line_source(process.stdout.fileno(), self._max_line, self._received, self._ended)
        self._errors = line_source(process.stderr.fileno(), _STDERR_LINE, self._stderr_line, lambda _: None)
        self._source.start()
        self._errors.start()

    def started(self) -> None:
        """Drop the stderr that was held back, and pass on what comes from now on.

        Lines that the child wrote before its last answer are in the pipe by now: they are dropped too.
        """
        self._is_starting = False
        if self._held_stderr is not None:
            self._held_stderr = None
            self._output.clear_stderr()
            if self._errors is not None:
                self._errors.skip_available()

    def start_cancelled(self) -> None:
        """Pass on the stderr that was held back, since no error tells of it."""
        held, self._held_stderr = self._held_stderr, None
        for line in held.all() if held is not None else ():
            self._on_stderr(line)

    async def close(self) -> None:
        """End the child and what it has started: EOF, then SIGTERM, then SIGKILL (lifecycle, "Shutdown", stdio)."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._source is not None:
            self._source.discard()
        self._tree.remember(process.pid)
        try:
            if self._sink is not None:
                await self._sink.finish()
            self._close_input(process)
            if not await _exited_within(process, _EXIT_SECONDS):
                end_group(process, forced=False)
                await _exited_within(process, _TERM_SECONDS)
            if self._tree.signal(signal.SIGTERM):
                await _until(lambda: not self._tree.strays(), _TERM_SECONDS)
        finally:
            end_group(process, forced=True)
            process.wait()
            self._tree.signal(_FORCED)
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
            reason = _missing_program(self._command[0], problem) or str(problem)
            raise ConnectionLost(f"Could not start {self._command[0]!r}{where}: {reason}") from problem

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
        self._output.add_stderr(text)
        if self._held_stderr is None:
            self._on_stderr(text)
        else:
            self._held_stderr.add(text, len(text))

    def _received(self, line: bytes | TooLong) -> None:
        if not self._is_starting or not isinstance(line, bytes):
            super()._received(line)
        elif self._receiver is not None and isinstance(self._receiver.received(line), Invalid):
            self._output.add_stdout(line)

    def _lost(self, reason: str | None) -> None:
        self._write_failed = True
        # A child that has exited is noticed first by a broken pipe; its stdout may still hold responses,
        # so the end of stdout decides, unless it never comes.
        asyncio.get_running_loop().call_later(_EXIT_SECONDS, self._ended, reason)

    def _ended(self, reason: str | None) -> None:
        receiver, self._receiver = self._receiver, _NoReceiver()
        if receiver is None or isinstance(receiver, _NoReceiver):
            return
        asyncio.get_running_loop().create_task(self._explain(receiver, reason))

    async def _explain(self, receiver: Receiver, reason: str | None) -> None:
        """Report why the child's output ended, with its exit code and its last output."""
        process = self._process
        if process is not None and await _exited_within(process, 0.5):
            if self._errors is not None:
                self._errors.read_available()
            reason = self._output.own_error() if self._is_starting else None
            reason = reason or self._output.explain(describe_exit(self._name, process.returncode))
        else:
            reason = self._output.explain(reason or f"{self._name!r} closed its output")
        receiver.disconnected(reason)


def _missing_program(program: str, problem: Exception) -> str | None:
    """The reason in words, if there is no such program; None for any other error."""
    if not isinstance(problem, FileNotFoundError) or problem.filename != program:
        return None
    return "there is no such file" if os.path.dirname(program) else "there is no such program in PATH"


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
    return await _until(lambda: process.poll() is not None, seconds)


async def _until(is_done: Callable[[], bool], seconds: float) -> bool:
    """Wait, for so many seconds at most; False if it is not done then."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = _POLL_SECONDS
    while not is_done():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)
    return True
