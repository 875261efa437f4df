"""The last output of a program, for the error about its end: stderr, and stdout that was no message."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence

from dovetail.text.redact import redact_text
from dovetail.text.sanitize import clean_text
from dovetail.text.stderr_excerpt import stderr_excerpt
from dovetail.types.bounded_deque import ByteBoundedDeque

_COMMAND_ERROR = "dovetail: "
"""Begins the errors of our own command, which need no further explanation."""
_STDERR_BYTES = 64 * 1024
_LINE_CHARS = 500
_STDOUT_LINES = 4
_STDOUT_CHARS = 200
_SIGNAL_EXITS = 128
"""Shells and containers exit with this number more than that of the signal that ended their program."""


class ProgramOutput:
    """The last lines of one program."""

    def __init__(self) -> None:
        self._stderr: ByteBoundedDeque[str] = ByteBoundedDeque(_STDERR_BYTES)
        self._stdout: deque[str] = deque(maxlen=_STDOUT_LINES)

    def add_stderr(self, text: str) -> None:
        """Add a line of stderr."""
        self._stderr.add(text[:_LINE_CHARS], min(len(text), _LINE_CHARS))

    def add_stdout(self, line: bytes) -> None:
        """Add a line of stdout that is no message."""
        text = clean_text(line[:_STDOUT_CHARS].decode(errors="replace"))
        if text.strip():
            self._stdout.append(redact_text(text))

    def clear_stderr(self) -> None:
        """Forget the lines of stderr."""
        self._stderr = ByteBoundedDeque(_STDERR_BYTES)

    def explain(self, problem: str) -> str:
        """The text of an error about the program, with the lines that may say why."""
        return with_last_output(problem, self._stderr.all(), list(self._stdout))

    def own_error(self) -> str | None:
        """The error of our own command, if the program is one and has written it."""
        lines = [clean_text(line) for line in self._stderr.all()]
        for index in reversed(range(len(lines))):
            if lines[index].startswith(_COMMAND_ERROR):
                return "\n".join([lines[index].removeprefix(_COMMAND_ERROR), *lines[index + 1 :]])
        return None


def with_last_output(problem: str, stderr: Sequence[str], stdout: Sequence[str] = ()) -> str:
    """The text of an error about a program, with an excerpt of what it wrote."""
    lines = [clean_text(line) for line in stderr_excerpt(stderr)]
    if stdout:
        problem += _quoted("; it printed to stdout, which is for MCP messages only", stdout)
    if lines:
        if len(lines) == 1 and not stdout:
            problem += f"; its stderr: {lines[0]}"
        else:
            problem += _quoted("\nIts stderr" if stdout else "; the last lines of its stderr", lines)
    return problem


def describe_exit(name: str, code: int) -> str:
    """The end of a program in words, with the name of the signal that ended it."""
    if code < 0:
        return f"{name!r} was ended by the signal {_signal_name(-code) or -code}"
    likely = _signal_name(code - _SIGNAL_EXITS)
    return f"{name!r} exited with code {code}{f' ({likely})' if likely else ''}"


def _quoted(introduction: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{introduction}:", *lines])


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
