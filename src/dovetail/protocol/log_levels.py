"""Log levels in order of severity (RFC 5424, section 6.2.1)."""

from __future__ import annotations

from typing import get_args

from dovetail.types.messages import LogLevel

LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)

_SEVERITIES = {level: severity for severity, level in enumerate(LEVELS)}


def is_at_least(level: str, threshold: str) -> bool:
    """True if a message of this level is at least as severe as the threshold."""
    return _SEVERITIES[level] >= _SEVERITIES[threshold]
