"""Requests to a server behind the gateway: outcomes are counted, and failures become errors that name the server."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dovetail.auth.errors import AuthorizationFailed
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, OutcomeUnknown, Timeout, outcome_unknown

from .errors import ServerUnavailable, failed_request, shown_reason

if TYPE_CHECKING:
    from .metrics import Metrics
    from .servers.connection import UpstreamConnection
    from .servers.upstream import Upstream


class ServerRequest:
    """The context in which a request is sent; leaving it with a failure of the server raises a `ProtocolError`."""

    def __init__(self, upstream: Upstream, metrics: Metrics, method: str, label: str) -> None:
        """`label` is the name of a tool or prompt for the metrics."""
        self._upstream = upstream
        self._metrics = metrics
        self._method, self._label = method, label
        self._began = time.perf_counter()
        self.connection: UpstreamConnection | None = None
        """The connection that it is sent over, as soon as there is one."""
        self.is_answered = False
        """True once there is a result that is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._began
        failure = isinstance(problem, ConnectionLost | Timeout)
        self._metrics.record(
            self._upstream.key, self._method, self._label, seconds, error=not self.is_answered, failure=failure
        )
        error = None if problem is None else self._error(problem)
        if error is not None:
            raise error from problem

    def _error(self, problem: BaseException) -> Exception | None:
        """The error for the client, which names the server; None for what is no failure of the server."""
        server = self._upstream.key
        match problem:
            case AuthorizationFailed():
                return ServerUnavailable(server, str(problem))
            case OutcomeUnknown():
                self._upstream.lost(problem, self.connection)
                return outcome_unknown(
                    f"the connection to the server {server!r} was lost: {shown_reason(problem.reason)}"
                )
            case ConnectionLost():
                self._upstream.lost(problem, self.connection)
                return ServerUnavailable(server, str(problem))
            case Timeout():
                self._upstream.timed_out(problem)
                return failed_request(server, "gave no answer", problem)
            case InvalidAnswer():
                return failed_request(server, "gave an invalid answer", problem)
            case _:
                return None
