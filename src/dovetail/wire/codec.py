"""JSON-RPC codec: bytes to messages, and messages to bytes. Each message is parsed once and dumped once."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

from .jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Failure,
    Id,
    Invalid,
    Message,
    Notification,
    Params,
    Request,
    Response,
)

MAX_BATCH = 1000
"""The most messages of one batch. Each may need a response, so that a bound on its bytes is not enough."""

_NOT_AN_OBJECT = "Invalid request: a message is a JSON object"

Decoded: TypeAlias = "Message | list[Message]"

_ABSENT: Any = msgspec.UNSET
_NO_PARAMS: Params = {}
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Envelope(msgspec.Struct):
    jsonrpc: Any = _ABSENT
    id: Any = _ABSENT
    method: Any = _ABSENT
    params: Any = _ABSENT
    result: Any = _ABSENT
    error: Any = _ABSENT


class _RawResultEnvelope(_Envelope):
    result: msgspec.Raw = _ABSENT


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_raw_result = msgspec.json.Decoder(_RawResultEnvelope).decode
_decode_batch = msgspec.json.Decoder(list[Any]).decode
encode = msgspec.json.Encoder().encode
"""Encode plain values and msgspec structs as JSON bytes."""


def decode(text: bytes, *, raw_result: bool = False) -> Decoded:
    """Read one message or a batch of messages; a message that cannot be read becomes an `Invalid`.

    The last of duplicate keys counts. NaN and infinities are not JSON. With `raw_result` the result of a response that
    stands alone is not decoded: it is a `msgspec.Raw`.
    """
    try:
        envelope = _decode_raw_result(text) if raw_result else _decode_envelope(text)
    except _UNREADABLE as problem:
        if text.lstrip()[:1] == b"[":
            return _decode_array(text)
        return _unreadable(text, problem)
    id, method, params = envelope.id, envelope.method, envelope.params
    has_id = type(id) is int or type(id) is str
    if has_id and type(method) is str and type(params) is dict and envelope.jsonrpc == "2.0":
        # Nearly every message that a server gets; the others are classified by one rule after the other.
        return Request(id, method, cast(Params, params))
    return _classify(envelope)


def _decode_array(text: bytes) -> Decoded:
    try:
        items = _decode_batch(text)
    except _UNREADABLE as problem:
        return _unreadable(text, problem)
    if not items:
        return Invalid(None, INVALID_REQUEST, "Invalid request: an empty batch")
    if len(items) > MAX_BATCH:
        return Invalid(None, INVALID_REQUEST, f"Invalid request: a batch of more than {MAX_BATCH} messages")
    return [_from_builtins(item) for item in items]


def _from_builtins(item: Any) -> Message:
    if not isinstance(item, dict):
        return Invalid(None, INVALID_REQUEST, _NOT_AN_OBJECT)
    return _classify(msgspec.convert(item, _Envelope))


def _unreadable(text: bytes, problem: Exception) -> Invalid:
    from .recover_id import recover

    partial = recover(text)
    if isinstance(problem, msgspec.ValidationError) and text.lstrip()[:1] not in (b"{", b"["):
        return Invalid(None, INVALID_REQUEST, _NOT_AN_OBJECT)
    if isinstance(problem, RecursionError):
        reason = "nested too deeply"
    elif isinstance(problem, UnicodeDecodeError):
        reason = "not UTF-8"
    else:
        reason = str(problem)
    return Invalid(partial.id, PARSE_ERROR, f"Parse error: {reason}", partial.reply, notification=partial.notification)


def _classify(envelope: _Envelope) -> Message:
    raw = envelope.id
    readable: Id | None = raw if type(raw) is int or type(raw) is str else None
    if envelope.method is not _ABSENT:
        return _call(envelope, readable)
    if envelope.error is not _ABSENT and envelope.error is not None:
        return _failure(envelope, readable)
    if envelope.result is not _ABSENT:
        if envelope.jsonrpc != "2.0" or readable is None:
            return Invalid(readable, INVALID_REQUEST, "Invalid response: it needs jsonrpc 2.0 and an id", True)
        return Response(readable, envelope.result)
    return Invalid(readable, INVALID_REQUEST, "Invalid request: it has no method", bare=True)


def _call(envelope: _Envelope, readable: Id | None) -> Message:
    is_notification = envelope.id is _ABSENT
    if envelope.jsonrpc != "2.0":
        text = 'Invalid request: "jsonrpc" must be "2.0"'
        return Invalid(readable, INVALID_REQUEST, text, notification=is_notification)
    method = envelope.method
    if type(method) is not str:
        text = "Invalid request: the method is not a string"
        return Invalid(readable, INVALID_REQUEST, text, notification=is_notification)
    params = envelope.params
    if params is _ABSENT or params is None:
        # Some peers write params that they leave out as null.
        params = _NO_PARAMS
    elif type(params) is not dict:
        text = "Invalid request: params must be an object"
        return Invalid(readable, INVALID_REQUEST, text, notification=is_notification)
    if readable is not None:
        return Request(readable, method, cast(Params, params))
    if is_notification:
        return Notification(method, cast(Params, params))
    return Invalid(None, INVALID_REQUEST, "Invalid request: an id is a string or an integer")


def _failure(envelope: _Envelope, readable: Id | None) -> Message:
    error = envelope.error
    if not isinstance(error, dict):
        return Invalid(readable, INVALID_REQUEST, "Invalid response: the error is not an object", True)
    fields = cast("dict[str, Any]", error)
    code, message = fields.get("code"), fields.get("message")
    if type(code) is not int or type(message) is not str:
        return Invalid(readable, INVALID_REQUEST, "Invalid response: an error needs a code and a message", True)
    return Failure(readable, code, message, fields.get("data"))


def request(id: Id, method: str, params: bytes | None) -> bytes:
    """Encode a request; its params are JSON bytes already."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (encode(id), encode(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode(id), encode(method), params)


def notification(method: str, params: bytes | None) -> bytes:
    """Encode a notification; its params are JSON bytes already."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), params)


def response(id: Id, result: bytes) -> bytes:
    """Encode the response to a request; its result is JSON bytes already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id), result)


def failure(id: Id | None, code: int, message: str, data: Any = None, *, null_id: bool) -> bytes:
    """Encode an error response; without an id it has the id null if `null_id`, else none (JSON-RPC 2.0, section 5)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    if id is not None:
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id), encode(error))
    if null_id:
        return b'{"jsonrpc":"2.0","id":null,"error":%b}' % encode(error)
    return b'{"jsonrpc":"2.0","error":%b}' % encode(error)


def batch(messages: list[bytes]) -> bytes:
    """Join encoded messages to one batch."""
    return b"[" + b",".join(messages) + b"]"
