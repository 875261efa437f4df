"""The tree of errors.

    DovetailError
    ├── LocalError        incorrect use: an invalid option, a call after close, an invalid schema
    ├── RemoteError       the peer responded with a JSON-RPC error: code, message, data
    │   ├── NotFound      there is no such tool, prompt, resource, item or method; handlers raise it too
    │   │   └── TaskNotFound  there is no task with this id, or none any more
    │   └── InvalidParams the params of the request are invalid; handlers raise it too
    ├── InvalidAnswer     the response violates the protocol, or the schema that the peer declared
    ├── ToolFailed        the tool ran and reported a failure (an `isError` result)
    ├── TaskCancelled     the task that a result was awaited of was cancelled
    ├── ConnectionLost    the connection to the peer is lost; requests in flight get no response
    │   ├── HttpStatus    an HTTP response with an error status and no JSON-RPC message: status, url
    │   ├── OutcomeUnknown  the request was sent and gets no response: it may or may not have been carried out
    │   └── SessionEnded  the server has ended the session; the client can start a new one
    ├── Timeout           no response in time
    ├── Overtaken         replaced by a later request of the same kind, such as a newer completion
    ├── Refused           the user or a policy refused
    ├── MissingCapability the client does not support a feature that a handler needs
    ├── StepFailed        a `ctx.step` failed, now or in an earlier round
    ├── URLElicitationRequired  raised by a handler: the user must visit a page first
    ├── ToolError         raised by a handler: its text reaches the model unchanged
    └── ProtocolError     raised while serving: the peer receives it as a JSON-RPC error

`ProtocolError` is raised on the side that serves a request; the other side raises `RemoteError` for it. `NotFound` and
`InvalidParams` are the same class on both sides, on every revision.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast, overload

from dovetail.types.errors import DovetailError as DovetailError
from dovetail.types.errors import LocalError as LocalError
from dovetail.wire.jsonrpc import INVALID_REQUEST as INVALID_REQUEST
from dovetail.wire.jsonrpc import PARSE_ERROR as PARSE_ERROR

if TYPE_CHECKING:
    from dovetail.types.tools import CallToolResult

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
REJECTED = -1
"""The user rejected a request whose result cannot say so (2025-11-25 client/sampling, "Error Handling")."""

MODERN_CODES = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the envelope era sends (versioning, "Backward Compatibility")."""


class RemoteError(DovetailError):
    """The peer responded with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data
        self.status: int | None = None
        """The HTTP status of an error response without a request id; None for one that names its request."""


class _HandlerError(RemoteError):
    """An error that the peer sent, with its code, or that a handler raises with a message alone."""

    @overload
    def __init__(self, message: str, /, *, data: Any = None) -> None: ...

    @overload
    def __init__(self, code: int, message: str, data: Any = None) -> None: ...

    def __init__(self, code: int | str, message: str | None = None, data: Any = None) -> None:
        self.is_remote = not isinstance(code, str)
        """True if a peer sent it, False if it was raised here, with a message alone."""
        if isinstance(code, str):
            if message is not None:
                raise TypeError(f"{type(self).__name__} takes a message alone, or a code, a message and data")
            super().__init__(INVALID_PARAMS, code, data)
            self.args = (code,)
        else:
            super().__init__(code, message or "", data)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.code, self.message, self.data, self.args, self.is_remote)


def _restore(
    kind: type[_HandlerError], code: int, message: str, data: Any, args: tuple[Any, ...], is_remote: bool
) -> _HandlerError:
    """An error from its pickled parts."""
    problem = kind(code, message, data)
    problem.args, problem.is_remote = args, is_remote
    return problem


class NotFound(_HandlerError):
    """There is no such tool, prompt, resource, item or method.

    A handler raises it with a message, `raise NotFound("No such book")`, and the caller catches it, on every revision.
    The code depends on the revision and on the request.
    """


class TaskNotFound(NotFound):
    """The server has no task with this id: it never had one, has discarded it, or it belongs to somebody else."""


class InvalidParams(_HandlerError):
    """The params of a request are invalid, such as the arguments of a tool or of a prompt.

    A handler raises it with a message, `raise InvalidParams("The end is before the start")`, and the caller catches it.
    """


class InvalidAnswer(DovetailError):
    """The response violates the protocol, or the schema that the peer declared."""


class ToolFailed(DovetailError):
    """A tool ran and reported a failure; `result` is its whole result."""

    def __init__(self, name: str, result: CallToolResult, advice: str | None = None) -> None:
        text = f"Tool {name!r} failed: {result.text or 'it gave no reason'}"
        super().__init__(f"{text} ({advice})" if advice else text)
        self.name = name
        self.result = result


class TaskCancelled(DovetailError):
    """The task was cancelled, here or elsewhere, so that it has no result."""


class ConnectionLost(DovetailError):
    """The connection to the peer is lost, or could not be established."""


class HttpStatus(ConnectionLost):
    """An HTTP response with an error status and no JSON-RPC message."""

    def __init__(
        self, reason: str, status: int, url: str, retry_after: float | None = None, *, advice: str = ""
    ) -> None:
        super().__init__(f"{reason} ({advice})" if advice else reason)
        self.reason = reason
        """The problem without the advice, which is for clients in code and on the command line."""
        self.status = status
        self.url = url
        self.retry_after = retry_after
        """The seconds after which the request may be sent again, if the response says so."""


class OutcomeUnknown(ConnectionLost):
    """A request was sent, and its response will not come: it is not known if the request was carried out.

    The server process that worked on it has ended, or the connection broke and could not be resumed. Where a
    connection is lost before a request was sent, `ConnectionLost` is raised itself.
    """

    def __init__(self, reason: str, *, is_remote: bool = False) -> None:
        self.is_remote = is_remote
        """True if the server has said so in its response, which is then all that will come."""
        # The text comes first, since the last lines of a program may follow the reason.
        self.reason = reason.removeprefix(_OUTCOME_UNKNOWN_TEXT)
        super().__init__(f"{_OUTCOME_UNKNOWN_TEXT}{self.reason}")


class SessionEnded(ConnectionLost):
    """The server has ended the session (Streamable HTTP, "Session Management"); `session` is its id."""

    def __init__(self, session: str, *, ran: bool) -> None:
        super().__init__("the server has ended the session")
        self.session = session
        self.ran = ran
        """The request may have been served: its stream was interrupted, it was not refused."""


class Timeout(DovetailError, TimeoutError):
    """No response came in time; the request was cancelled."""


class Overtaken(DovetailError):
    """A later request of the same kind replaced this one, whose result is no longer needed."""


class Refused(DovetailError):
    """The user or a policy refused."""


class MissingCapability(DovetailError):
    """The client has not declared a capability that a handler needs; no request was sent to it.

    If it ends the call, the client gets −32021 on the envelope era (basic, "_meta").
    """

    def __init__(self, what: str, required: dict[str, Any], *, revision: str | None = None) -> None:
        """`revision` is the one of the request, if it is that which has no such feature, whatever the client can do."""
        super().__init__(
            f"The client does not support {what}"
            if revision is None
            else f"Revision {revision} has no {what}, so that the client cannot be asked"
        )
        self.required = required

    def as_protocol_error(self) -> ProtocolError:
        """The JSON-RPC error for the client."""
        return ProtocolError(MISSING_CAPABILITY, str(self), {"requiredCapabilities": self.required})


class URLElicitationRequired(DovetailError):
    """Raised by a handler that cannot work before the user has visited a page, for example to sign in.

    The client gets −32042 if the revision has it, and calls again when the user has finished. On other revisions the
    server asks the user to open the page, and runs the handler again.
    """

    def __init__(self, message: str, url: str, *, id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.id = id
        """The id of the elicitation, for `notify_elicitation_complete`; generated if it is None."""


class StepFailed(DovetailError):
    """A step of a handler failed, now or in an earlier round; the message names the error."""


class ToolError(DovetailError):
    """Raised by a handler to make its call fail with a text that reaches the model unchanged."""


class ProtocolError(DovetailError):
    """Raised while serving a request; the peer receives it as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


NOT_FOUND_MARK = "dovetail/notFound"
"""Key in the `data` of an error with −32602 that says that something does not exist."""

_NOT_FOUND_TEXT = re.compile(
    r"(?:MCP error -?\d+: )?(?:Unknown (?:tool|prompt|resource)\b|(?:Tool|Prompt|Resource)\b.{0,500}\bnot found)",
    re.IGNORECASE | re.DOTALL,
)
"""The texts by which servers of other libraries say so where the code does not: −32602, or 0 for any exception."""


OUTCOME_UNKNOWN = "dovetail/outcomeUnknown"
"""Key in the `data` of an error with −32603 that says that the request may or may not have been carried out."""

_OUTCOME_UNKNOWN_TEXT = "It is not known if the request was carried out: "


def remote_error(code: int, message: str, data: Any = None) -> RemoteError | OutcomeUnknown:
    """The exception for an error that the peer sent."""
    if code in (METHOD_NOT_FOUND, RESOURCE_NOT_FOUND):
        return NotFound(code, message, data)
    if code in (INVALID_PARAMS, 0):
        fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        if fields.get(NOT_FOUND_MARK) is True:
            rest = {name: value for name, value in fields.items() if name != NOT_FOUND_MARK}
            return NotFound(code, message, rest or None)
        if _NOT_FOUND_TEXT.match(message):
            return NotFound(code, message, data)
    if code == INTERNAL_ERROR and isinstance(data, dict) and cast("dict[str, Any]", data).get(OUTCOME_UNKNOWN) is True:
        return OutcomeUnknown(message, is_remote=True)
    return InvalidParams(code, message, data) if code == INVALID_PARAMS else RemoteError(code, message, data)


def not_found_error(message: str, data: Any = None, code: int = INVALID_PARAMS) -> ProtocolError:
    """The error for the peer about something that does not exist; marked where neither code nor text say so."""
    if code == INVALID_PARAMS and not _NOT_FOUND_TEXT.match(message) and (data is None or isinstance(data, dict)):
        data = {**cast("dict[str, Any]", data or {}), NOT_FOUND_MARK: True}
    return ProtocolError(code, message, data)


def outcome_unknown(reason: str) -> ProtocolError:
    """The error for the peer about a request whose process has ended; our client raises `OutcomeUnknown` for it."""
    return ProtocolError(INTERNAL_ERROR, f"{_OUTCOME_UNKNOWN_TEXT}{reason}", {OUTCOME_UNKNOWN: True})
