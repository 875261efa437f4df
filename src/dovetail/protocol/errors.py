"""Everything that can go wrong, as one tree.

    DovetailError
    ├── LocalError        we were misused: a bad option, a call after close, a schema we cannot read
    ├── RemoteError       the peer answered with a JSON-RPC error: code, message, data
    │   └── NotFound      the peer knows no such tool, prompt, resource or method
    ├── InvalidAnswer     the peer answered, but not as the protocol or its own schema says
    ├── ToolFailed        the tool ran and said that it failed (an `isError` result)
    ├── ConnectionLost    the peer cannot be reached any more; calls in flight have no answer
    │   ├── HttpStatus    an HTTP server answered with an error that is no message: status, url
    │   └── SessionEnded  the server has ended the session; a new one can be begun
    ├── Timeout           no answer within the time given
    ├── Overtaken         a later request for the same took the place of this one
    ├── Refused           a person or a policy said no
    ├── MissingCapability the client cannot do what a handler needs of it
    ├── StepFailed        a `ctx.step` failed, now or in an earlier round
    ├── URLElicitationRequired  raised by a handler: the user must go to a page before it can do its work
    ├── ToolError         raised by a handler: its text reaches the model word for word
    └── ProtocolError     raised while serving: becomes the JSON-RPC error that the peer gets

`ProtocolError` is local until it is sent; at the other end it arrives as `RemoteError`.
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
"""A person said no to a question that has no answer for that (2025-11-25 client/sampling, "Error Handling")."""

MODERN_CODES = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the envelope era sends (versioning, "Backward Compatibility")."""


class RemoteError(DovetailError):
    """The peer answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data
        self.status: int | None = None
        """The HTTP status of an error that came instead of an answer; None for one that names its request."""


class NotFound(RemoteError):
    """The peer knows no such tool, prompt, resource or method."""


class InvalidAnswer(DovetailError):
    """The peer answered, but not as the protocol, or the schema it gave itself, says."""


class ToolFailed(DovetailError):
    """A tool ran and reported failure; `result` holds all that it said."""

    def __init__(self, name: str, result: CallToolResult) -> None:
        super().__init__(f"Tool {name!r} failed: {result.text or 'it gave no reason'}")
        self.name = name
        self.result = result


class ConnectionLost(DovetailError):
    """The connection to the peer is gone, or could not be made."""


class HttpStatus(ConnectionLost):
    """An HTTP server answered a request with an error status and no message of the protocol."""

    def __init__(self, message: str, status: int, url: str) -> None:
        super().__init__(message)
        self.status = status
        self.url = url


class SessionEnded(ConnectionLost):
    """The server has ended the session (Streamable HTTP, "Session Management"); `session` was its id."""

    def __init__(self, session: str, *, ran: bool) -> None:
        super().__init__("the server has ended the session")
        self.session = session
        self.ran = ran
        """Whether the request may have been served before: its stream broke off, it was not refused."""


class Timeout(DovetailError, TimeoutError):
    """No answer came within the time given; the request was cancelled."""


class Overtaken(DovetailError):
    """A later request for the same took the place of this one, which nobody needs any more."""


class Refused(DovetailError):
    """A person or a policy said no."""


class MissingCapability(DovetailError):
    """The client has not declared what a handler needs of it; nothing was asked.

    Where it ends the call, the client gets −32021 on the envelope era (basic, "_meta").
    """

    def __init__(self, what: str, required: dict[str, Any]) -> None:
        super().__init__(f"The client does not support {what}")
        self.required = required

    def as_protocol_error(self) -> ProtocolError:
        """The error for the peer."""
        return ProtocolError(MISSING_CAPABILITY, str(self), {"requiredCapabilities": self.required})


class URLElicitationRequired(DovetailError):
    """Raised by a handler that can do nothing before the user has been to a page, such as one to sign in at.

    The client gets −32042 where the revision has it, and calls again when the user is done there; elsewhere
    the user is asked to open the page, and the handler runs again.
    """

    def __init__(self, message: str, url: str, *, id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.id = id
        """What to call the visit to the page, for `notify_elicitation_complete`; one is made up if none is given."""


class StepFailed(DovetailError):
    """A step of a handler failed, now or in an earlier round; the text names the error."""


class ToolError(DovetailError):
    """Raised by a handler to fail its call with a text that reaches the model word for word."""


class ProtocolError(DovetailError):
    """Raised while serving a request; the peer gets it as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
