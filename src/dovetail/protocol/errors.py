"""The tree of errors.

    DovetailError
    ├── LocalError        incorrect use: an invalid option, a call after close, an invalid schema
    ├── RemoteError       the peer responded with a JSON-RPC error: code, message, data
    │   └── NotFound      the peer has no such tool, prompt, resource or method
    ├── InvalidAnswer     the response violates the protocol, or the schema that the peer declared
    ├── ToolFailed        the tool ran and reported a failure (an `isError` result)
    ├── ConnectionLost    the connection to the peer is lost; requests in flight get no response
    │   ├── HttpStatus    an HTTP response with an error status and no JSON-RPC message: status, url
    │   └── SessionEnded  the server has ended the session; the client can start a new one
    ├── Timeout           no response in time
    ├── Overtaken         replaced by a later request of the same kind, such as a newer completion
    ├── Refused           the user or a policy refused
    ├── MissingCapability the client does not support a feature that a handler needs
    ├── StepFailed        a `ctx.step` failed, now or in an earlier round
    ├── URLElicitationRequired  raised by a handler: the user must visit a page first
    ├── ToolError         raised by a handler: its text reaches the model unchanged
    └── ProtocolError     raised while serving: the peer receives it as a JSON-RPC error

`ProtocolError` is raised on the side that serves a request; the other side raises `RemoteError` for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


class NotFound(RemoteError):
    """The peer has no such tool, prompt, resource or method."""


class InvalidAnswer(DovetailError):
    """The response violates the protocol, or the schema that the peer declared."""


class ToolFailed(DovetailError):
    """A tool ran and reported a failure; `result` is its whole result."""

    def __init__(self, name: str, result: CallToolResult) -> None:
        super().__init__(f"Tool {name!r} failed: {result.text or 'it gave no reason'}")
        self.name = name
        self.result = result


class ConnectionLost(DovetailError):
    """The connection to the peer is lost, or could not be established."""


class HttpStatus(ConnectionLost):
    """An HTTP response with an error status and no JSON-RPC message."""

    def __init__(self, message: str, status: int, url: str) -> None:
        super().__init__(message)
        self.status = status
        self.url = url


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

    def __init__(self, what: str, required: dict[str, Any]) -> None:
        super().__init__(f"The client does not support {what}")
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
