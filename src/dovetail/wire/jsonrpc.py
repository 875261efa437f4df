"""JSON-RPC messages: request, notification, response, error response (`Failure`), and `Invalid` for anything else."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Id: TypeAlias = str | int
"""A request id. Ids are type-exact: `"5"` and `5` are two ids."""

Params: TypeAlias = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
"""Error codes of JSON-RPC 2.0 (section 5.1) that reading a message can end in; the others are in `protocol.errors`."""


class Request(msgspec.Struct, frozen=True):
    """A request, which the receiver must answer."""

    id: Id
    method: str
    params: Params


class Notification(msgspec.Struct, frozen=True):
    """A message that is not answered."""

    method: str
    params: Params


class Response(msgspec.Struct, frozen=True):
    """The successful response to a request."""

    id: Id
    result: Any


class Failure(msgspec.Struct, frozen=True):
    """The error response to a request; without an id if the peer could not read one."""

    id: Id | None
    code: int
    message: str
    data: Any = None


class Invalid(msgspec.Struct, frozen=True):
    """A message that is not valid: the error to answer it with, and its id if one could be read."""

    id: Id | None
    code: int
    message: str
    reply: bool = False
    """It was meant as a response: it is not answered, and the request waiting for `id` fails."""
    bare: bool = False
    """It has no method, result or error, so it may have been meant as a request or as a response."""
    notification: bool = False
    """It has a method and no id: a notification, which is never answered (JSON-RPC 2.0, section 4.1)."""


Message: TypeAlias = Request | Notification | Response | Failure | Invalid
