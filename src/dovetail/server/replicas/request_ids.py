"""Ids of requests to clients: each begins with the id of the replica that waits for the answer."""

from __future__ import annotations

from typing import Any

from dovetail.protocol.peer import PROGRESS
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Message, Notification, Response

from .replica import ID_LENGTH


def owner_of(message: Message) -> str | None:
    """The replica whose request a message is about: an answer, an error, or progress; None for any other message."""
    if isinstance(message, Response | Failure):
        return _replica_in(message.id)
    if isinstance(message, Notification) and message.method == PROGRESS:
        return _replica_in(message.params.get("progressToken"))
    return None


def encode_message(message: Message) -> bytes:
    """A message about a request of ours as JSON."""
    if isinstance(message, Response):
        return codec.response(message.id, codec.encode(message.result))
    if isinstance(message, Failure):
        return codec.failure(message.id, message.code, message.message, message.data, null_id=True)
    assert isinstance(message, Notification)
    return codec.notification(message.method, codec.encode(message.params))


def _replica_in(id: Any) -> str | None:
    return id[:ID_LENGTH] if isinstance(id, str) and id[ID_LENGTH : ID_LENGTH + 1] == "." else None
