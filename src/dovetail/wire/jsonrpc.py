"""The four kinds of JSON-RPC message, and the fifth: one that is none of them."""

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
    """A request that wants an answer."""

    id: Id
    method: str
    params: Params


class Notification(msgspec.Struct, frozen=True):
    """A message that wants none."""

    method: str
    params: Params


class Response(msgspec.Struct, frozen=True):
    """The result of a request."""

    id: Id
    result: Any


class Failure(msgspec.Struct, frozen=True):
    """The error a request ended in; without an id when the peer could not read one."""

    id: Id | None
    code: int
    message: str
    data: Any = None


class Invalid(msgspec.Struct, frozen=True):
    """A message that cannot be taken, why, and the id to answer to where one could be read."""

    id: Id | None
    code: int
    message: str
    reply: bool = False
    """It was meant as an answer: nobody is answered, but the call that waits for `id` fails."""
    bare: bool = False
    """It has neither method nor result nor error, so it may have been meant as a request or as an answer."""


Message: TypeAlias = Request | Notification | Response | Failure | Invalid
