"""The few members of a message that a transport needs, read without the rest."""

from __future__ import annotations

from typing import Any

import msgspec

from dovetail.wire.jsonrpc import Id

_NOTHING = msgspec.Raw(b"null")


class Meta(msgspec.Struct):
    """The `_meta` of a request of the envelope era."""

    version: Any = msgspec.field(default=None, name="io.modelcontextprotocol/protocolVersion")


class Params(msgspec.Struct):
    """What headers repeat, and the request that a cancellation is about."""

    name: Any = None
    uri: Any = None
    task_id: Any = msgspec.field(default=None, name="taskId")
    request_id: Any = msgspec.field(default=None, name="requestId")
    arguments: msgspec.Raw = _NOTHING
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Sent(msgspec.Struct):
    """A message of ours: a request has a method and an id, a notification a method, an answer neither."""

    method: str | None = None
    id: Id | None = None
    params: Params | None = None


class Heard(msgspec.Struct):
    """A message of the peer's."""

    method: Any = None
    id: Any = None


_sent = msgspec.json.Decoder(Sent).decode
_heard = msgspec.json.Decoder(Heard).decode
_heard_batch = msgspec.json.Decoder(list[Heard]).decode
_ANSWER = Sent()


def outline(line: bytes) -> Sent:
    """What a line that we send is about; a batch of ours holds answers only."""
    if line.startswith(b"["):
        return _ANSWER
    sent = _sent(line)
    return sent if sent.method is not None else _ANSWER


def answers(line: bytes, id: Id) -> bool:
    """Whether a line, or a line of a batch, answers the request with this id."""
    try:
        return _is_answer(_heard(line), id)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return any(_is_answer(each, id) for each in _heard_batch(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # What cannot be read may still be known as the answer by its beginning.
        from dovetail.wire.recover_id import recover as salvage

        seen = salvage(line)
        return seen.reply and seen.id == id and type(seen.id) is type(id)


def _is_answer(heard: Heard, id: Id) -> bool:
    return heard.method is None and heard.id == id and type(heard.id) is type(id)
