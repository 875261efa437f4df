"""Messages between replicas, as MessagePack arrays with a tag.

An announcement goes to all replicas, in one order that is the same for all of them; a replica message goes to one.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dovetail.protocol.subscriptions import ListKind
from dovetail.wire.jsonrpc import Id


class ListChanged(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A list has changed at a replica; `digest` is that of its content there."""

    kind: ListKind
    digest: str


class ResourceUpdated(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """A resource was updated."""

    uri: str
    session: str | None = None
    """The session that is told; None for all that are subscribed."""


class SessionChanged(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """The record of a session has changed: copies of it are out of date, except that of the replica `by`."""

    session: str
    by: str
    known: int = 0
    """The position of the last announcement that was received before the change: later ones may concern it, although
    they are announced before this one."""


class SessionDeleted(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """A session has ended: its calls are cancelled wherever they run."""

    session: str


class RequestCancelled(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """A client has cancelled a request that some other replica may serve."""

    session: str
    id: Id
    reason: str | None


class SessionNotification(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """A notification for the client of one session that belongs to no request."""

    session: str
    line: bytes
    kept: bool = True
    """False if a client that opens its stream later need not hear of it."""


class ElicitationCompleted(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """A user is done at a page, and the client is connected to some replica without a session that all know."""

    id: str


class TaskChanged(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """A task has changed; `queued` if it waits for a process that runs it."""

    handle: str
    queued: bool = False


class SessionMessage(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """A message of a client to a call that the receiving replica serves: an answer, or progress of one."""

    session: str
    line: bytes


class StreamRead(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """Another replica has written events of a stream to its client, up to a position."""

    session: str
    stream: str
    position: int
    size: int


class StreamResumed(msgspec.Struct, array_like=True, frozen=True, tag=36):
    """A client has resumed a stream at another replica than the one that writes it."""

    session: str
    stream: str


class LegacyMessage(msgspec.Struct, array_like=True, frozen=True, tag=34):
    """A POST to a connection of HTTP+SSE, whose event stream another replica may have.

    `scopes` are those of its token, None without authorization; `valid_until` is None if the token does not expire.
    """

    session: str
    line: bytes
    scopes: frozenset[str] | None
    valid_until: float | None


class StoredMessage(msgspec.Struct, array_like=True, frozen=True, tag=35):
    """A message that is too large for a log; it is in the store under a key."""

    key: str


class RemoteCallOffered(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """A call that the receiving replica may claim and serve for another one (`remote_calls`)."""

    call: str
    by: str
    kind: str
    claim: str
    claim_seconds: float
    body: bytes
    headers: list[tuple[bytes, bytes]]
    no_requests: str | None = None
    """The reason why the client cannot be sent requests meanwhile; None where it can."""


class RemoteCallCancelled(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """The caller does not wait for a remote call any more."""

    call: str


class RemoteCallRead(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """The caller has passed on so many bytes of a remote call to its client."""

    call: str
    size: int


Announcement: TypeAlias = (
    ListChanged
    | ResourceUpdated
    | SessionChanged
    | SessionDeleted
    | RequestCancelled
    | SessionNotification
    | ElicitationCompleted
    | TaskChanged
)
RemoteCallMessage: TypeAlias = RemoteCallOffered | RemoteCallCancelled | RemoteCallRead
ReplicaMessage: TypeAlias = (
    SessionMessage | StreamRead | StreamResumed | LegacyMessage | StoredMessage | RemoteCallMessage
)

encode = msgspec.msgpack.Encoder().encode
decode_announcement = msgspec.msgpack.Decoder(Announcement).decode
decode_message = msgspec.msgpack.Decoder(ReplicaMessage).decode
