"""A warning when the process is out of file descriptors: the event loop then refuses connections without a word."""

from __future__ import annotations

import errno
import logging
import os
import time

logger = logging.getLogger("dovetail")

_SECONDS_BETWEEN_WARNINGS = 60.0


class DescriptorCheck:
    """Looks now and then whether one more file could be opened."""

    def __init__(self) -> None:
        self._warned: float | None = None

    def run(self) -> None:
        """Warn if nothing can be opened, at most once a minute."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE):
                self._warn()

    def _warn(self) -> None:
        now = time.monotonic()
        if self._warned is None or now - self._warned > _SECONDS_BETWEEN_WARNINGS:
            self._warned = now
            logger.error(
                "Out of file descriptors%s: connections are refused. Raise the limit (ulimit -n), or run more workers.",
                _limit(),
            )


def _limit() -> str:
    try:
        import resource
    except ImportError:  # Windows
        return ""
    return f" (this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
