"""The severities of log messages, in order (RFC 5424, section 6.2.1)."""

from __future__ import annotations

from typing import get_args

from dovetail.types.messages import LogLevel

LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)

_PLACES = {level: place for place, level in enumerate(LEVELS)}


def reaches(level: str, threshold: str) -> bool:
    """Whether a message of this level is to be sent to whoever asked for the threshold."""
    return _PLACES[level] >= _PLACES[threshold]
