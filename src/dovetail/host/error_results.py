"""Errors of a call as results in words for a model.

A call that was not made, as a result.
"""

from __future__ import annotations

from dovetail.protocol.errors import ConnectionLost, DovetailError, OutcomeUnknown, Refused, Timeout
from dovetail.text.sanitize import clean_text
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult


class RefusedResult(CallToolResult):
    """Result of a call that policy or user refused; a type of its own, which no server sends."""


MAX_WORDS = 4_000
"""Characters of an error, which may be a server's own words."""

_ADVICE: tuple[tuple[type[DovetailError], str], ...] = (
    (Refused, "Do not try this again by other means; ask the user how to go on."),
    (Timeout, "It may still have had an effect; nobody knows."),
    (OutcomeUnknown, "It may have had an effect. It was not repeated."),
    (ConnectionLost, "If it was under way, it may have had an effect; nobody knows. It was not repeated."),
)


def error_result(problem: DovetailError) -> CallToolResult:
    """A result that says what happened, and what to make of it."""
    advice = next((words for kind, words in _ADVICE if isinstance(problem, kind)), "")
    text = clean_text(str(problem))[:MAX_WORDS]
    kind = RefusedResult if isinstance(problem, Refused) else CallToolResult
    return kind(content=[Text(f"{text}\n{advice}".strip())], is_error=True)
