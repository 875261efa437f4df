"""Exit codes, and error reports for users and scripts."""

from __future__ import annotations

from typing import Any

OK = 0
USAGE = 1
UNAUTHORIZED = 3
UNREACHABLE = 4
FAILED = 5
INTERRUPTED = 130
"""Ctrl-C, as shells report it: 128 and the number of the signal."""


class ErrorReport:
    """An error for display: exit code, error code for scripts, message for users."""

    def __init__(self, exit_code: int, code: str, message: str, **facts: Any) -> None:
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.facts = facts

    def as_json(self) -> dict[str, Any]:
        """The report as the JSON object of `--format json`."""
        return {"error": {"code": self.code, "message": self.message, **self.facts}}


class CommandFailed(Exception):
    """A subcommand failed for a reason of its own."""

    def __init__(self, code: str, message: str, exit_code: int = FAILED, **facts: Any) -> None:
        super().__init__(message)
        self.report = ErrorReport(exit_code, code, message, **facts)


def explain(problem: Exception) -> ErrorReport | None:
    """Convert an error to a report; None for an exception that is a bug."""
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.encryption_keys import StoreUnreadable
    from dovetail.protocol import errors

    from .parser import UsageError

    if isinstance(problem, CommandFailed):
        return problem.report
    if isinstance(problem, errors.ToolFailed):
        text = problem.result.text or "The tool failed and gave no reason."
        return ErrorReport(FAILED, "tool_error", text, tool=problem.name)
    if isinstance(problem, errors.NotFound):
        return ErrorReport(FAILED, "not_found", problem.message, rpcCode=problem.code)
    if isinstance(problem, errors.RemoteError):
        return ErrorReport(FAILED, "remote_error", problem.message, rpcCode=problem.code)
    if isinstance(problem, errors.HttpStatus) and problem.status in {401, 403}:
        return ErrorReport(UNAUTHORIZED, "unauthorized", str(problem))
    for kind, exit_code, code in (
        (AuthorizationFailed, UNAUTHORIZED, "unauthorized"),
        (StoreUnreadable, UNAUTHORIZED, "unauthorized"),
        (UsageError, USAGE, "usage"),
        (errors.LocalError, USAGE, "usage"),
        (errors.ConnectionLost, UNREACHABLE, "unreachable"),
        (errors.Timeout, UNREACHABLE, "timeout"),
        (errors.InvalidAnswer, FAILED, "invalid_answer"),
        (errors.Refused, FAILED, "refused"),
        (errors.TaskCancelled, FAILED, "cancelled"),
        (errors.DovetailError, FAILED, "failed"),
    ):
        if isinstance(problem, kind):
            return ErrorReport(exit_code, code, str(problem))
    return None
