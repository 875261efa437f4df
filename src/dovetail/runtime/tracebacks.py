"""Tracebacks of handlers for the log: they begin at the user's own frame."""

from __future__ import annotations

import logging
import os
import re
from types import TracebackType

from dovetail.text.stderr_excerpt import OWN_FOLDER

VARIABLE = "DOVETAIL_FULL_TRACEBACK"
"""The environment variable that keeps every frame of every traceback."""

_STANDARD_LIBRARY = re.compile(r"[/\\]lib[/\\]python3[^/\\]*[/\\](?!site-packages|dist-packages)|\A<frozen ")

logger = logging.getLogger("dovetail")


def wants_full_traceback() -> bool:
    """True if all frames are wanted: with the environment variable, or where the log shows debug messages."""
    return bool(os.environ.get(VARIABLE)) or logger.isEnabledFor(logging.DEBUG)


def is_framework_file(file: str) -> bool:
    """True for files of this package and of the standard library, which lead to the user's code."""
    return file.startswith(OWN_FOLDER) or _STANDARD_LIBRARY.search(file) is not None


ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def handler_traceback(problem: BaseException) -> ExceptionInfo:
    """The exception as `exc_info` of a log record, without the frames of this package that lead to the handler.

    An exception that this package raised itself, without a frame of the user, keeps its frames.
    """
    trace = problem.__traceback__
    if wants_full_traceback():
        return type(problem), problem, trace
    first = trace
    while first is not None and is_framework_file(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return type(problem), problem, first or trace
