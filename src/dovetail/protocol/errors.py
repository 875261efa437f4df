"""Everything that can go wrong, as one tree.

    DovetailError
    ├── LocalError        we were misused: a bad option, a call after close, a schema we cannot read
    ├── RemoteError       the peer answered with a JSON-RPC error: code, message, data
    │   └── NotFound      the peer knows no such tool, prompt, resource or method
    ├── InvalidAnswer     the peer answered, but not as the protocol or its own schema says
    ├── ToolFailed        the tool ran and said that it failed (an `isError` result)
    ├── ConnectionLost    the peer cannot be reached any more; calls in flight have no answer
    ├── Timeout           no answer within the time given
    ├── Refused           a person or a policy said no
    ├── ToolError         raised by a handler: its text reaches the model word for word
    └── ProtocolError     raised while serving: becomes the JSON-RPC error that the peer gets

`ProtocolError` is local until it is sent; at the other end it arrives as `RemoteError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.types.tools import CallToolResult

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

MODERN_CODES = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the envelope era sends (versioning, "Backward Compatibility")."""


class DovetailError(Exception):
    """The root of every error that Dovetail raises."""


class LocalError(DovetailError):
    """Dovetail was used in a way it cannot serve; the message says what to change."""


class RemoteError(DovetailError):
    """The peer answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data


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


class Timeout(DovetailError, TimeoutError):
    """No answer came within the time given; the request was cancelled."""


class Refused(DovetailError):
    """A person or a policy said no."""


class ToolError(DovetailError):
    """Raised by a handler to fail its call with a text that reaches the model word for word."""


class ProtocolError(DovetailError):
    """Raised while serving a request; the peer gets it as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
