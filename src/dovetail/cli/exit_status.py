"""How a command ends: its exit code, and what it says when something went wrong.

The codes are those of the field's other command lines, so scripts can treat them alike.
"""

from __future__ import annotations

from typing import Any

OK = 0
USAGE = 1
UNAUTHORIZED = 3
UNREACHABLE = 4
FAILED = 5
INTERRUPTED = 130
"""Ctrl-C, as shells report it: 128 and the number of the signal."""


class Complaint:
    """What went wrong: an exit code, a word for scripts, and a text for people."""

    def __init__(self, exit_code: int, code: str, message: str, **facts: Any) -> None:
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.facts = facts

    def as_json(self) -> dict[str, Any]:
        """The one line that scripts read."""
        return {"error": {"code": self.code, "message": self.message, **self.facts}}


class Failed(Exception):
    """A verb found out by itself that it cannot do what was asked."""

    def __init__(self, code: str, message: str, exit_code: int = FAILED, **facts: Any) -> None:
        super().__init__(message)
        self.complaint = Complaint(exit_code, code, message, **facts)


def explain(problem: Exception) -> Complaint | None:
    """What an error means for the person at the command; None for an error that is a bug."""
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.encryption_keys import StoreUnreadable
    from dovetail.protocol import errors

    from .parser import UsageError

    if isinstance(problem, Failed):
        return problem.complaint
    if isinstance(problem, errors.ToolFailed):
        text = problem.result.text or "The tool failed and gave no reason."
        return Complaint(FAILED, "tool_error", text, tool=problem.name)
    if isinstance(problem, errors.NotFound):
        return Complaint(FAILED, "not_found", problem.message, rpcCode=problem.code)
    if isinstance(problem, errors.RemoteError):
        return Complaint(FAILED, "remote_error", problem.message, rpcCode=problem.code)
    if isinstance(problem, errors.HttpStatus) and problem.status in {401, 403}:
        return Complaint(UNAUTHORIZED, "unauthorized", str(problem))
    for kind, exit_code, code in (
        (AuthorizationFailed, UNAUTHORIZED, "unauthorized"),
        (StoreUnreadable, UNAUTHORIZED, "unauthorized"),
        (UsageError, USAGE, "usage"),
        (errors.LocalError, USAGE, "usage"),
        (errors.ConnectionLost, UNREACHABLE, "unreachable"),
        (errors.Timeout, UNREACHABLE, "timeout"),
        (errors.InvalidAnswer, FAILED, "invalid_answer"),
        (errors.Refused, FAILED, "refused"),
        (errors.DovetailError, FAILED, "failed"),
    ):
        if isinstance(problem, kind):
            return Complaint(exit_code, code, str(problem))
    return None
