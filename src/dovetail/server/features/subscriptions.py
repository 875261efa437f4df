"""Telling a client of changes: of lists, unasked on the handshake era, and of what it asked to hear of.

Which resources a client may watch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from dovetail.protocol.envelope import SUBSCRIPTION_ID
from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.subscriptions import covers
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.types.messages import ListenResult, SubscriptionFilter
from dovetail.types.serialization import dump
from dovetail.wire.jsonrpc import Id

if TYPE_CHECKING:
    from dovetail.server.app import Server


ListKind: TypeAlias = Literal["tools", "resources", "prompts"]

MAX_WATCHED = 10_000
"""Resources that one client may watch at once."""

MAX_UNTOLD = 1000
"""Updated resources remembered for a client that does not read; beyond it, only those it watches are named."""

UPDATED = "notifications/resources/updated"


class Listener(msgspec.Struct):
    """One subscription of the envelope era."""

    wanted: SubscriptionFilter
    uris: frozenset[str]
    ended: asyncio.Future[None]
    call: Call


class Subscriptions:
    """What one client wants to hear of."""

    def __init__(self, lifecycle: ServerLifecycle) -> None:
        self._lifecycle = lifecycle
        self._connection: Connection | None = None
        self._listeners: dict[Id, Listener] = {}
        self._watched: set[str] = set()
        self._everyone: Counter[str] = Counter()
        """How many watch a URI, by whatever means."""
        self._changed: dict[ListKind, None] = {}
        self._updated: dict[str, None] = {}
        self._waiting: asyncio.Task[None] | None = None
        self._announcing = False

    def attach(self, connection: Connection) -> None:
        """The connection to speak through."""
        self._connection = connection

    @property
    def watched(self) -> list[str]:
        """The resources that are watched on the handshake era."""
        return list(self._watched)

    def watch(self, uri: str) -> None:
        """Tell of updates of a resource from now on (handshake era, `resources/subscribe`)."""
        if uri not in self._watched:
            self._count([uri])
            self._watched.add(uri)

    def unwatch(self, uri: str) -> None:
        """Tell no more; of what was not watched, that is nothing new."""
        if uri in self._watched:
            self._watched.remove(uri)
            self._discount([uri])

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> ListenResult:
        """Acknowledge a subscription and keep it until the client cancels it or the server ends.

        The acknowledgement is a subscription's first message (2026-07-28 subscriptions, "Acknowledgment").
        """
        id = call.request.id
        meta = {SUBSCRIPTION_ID: id}
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        uris = frozenset(wanted.resource_subscriptions or ())
        self._count(uris)
        call.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": dump(wanted)})
        self._listeners[id] = Listener(wanted, uris, ended, call)
        try:
            await ended
        finally:
            del self._listeners[id]
            self._discount(uris)
        if call.outlet is call.connection:
            # A stream of its own ends by itself; on a shared channel the client has to be told.
            call.notify("notifications/cancelled", {"_meta": meta, "requestId": id})
        return ListenResult(meta=dict(meta))

    def list_changed(self, kind: ListKind) -> None:
        """Note a change; changes of one turn of the loop are told together."""
        self._changed[kind] = None
        self._announce_soon()

    def resource_updated(self, uri: str) -> None:
        """Note that a resource is not what it was; who watches it, or one above it, is told."""
        if not self._everyone:
            return
        from dovetail.protocol.subscriptions import above

        heard = [watched for watched in above(uri) if watched in self._everyone]
        if not heard:
            return
        if len(self._updated) < MAX_UNTOLD:
            self._updated[uri] = None
        else:
            self._updated.update(dict.fromkeys(heard))
        self._announce_soon()

    def end(self) -> None:
        """Close every subscription gracefully (2026-07-28 subscriptions, "Graceful Closure")."""
        for listener in self._listeners.values():
            if not listener.ended.done():
                listener.ended.set_result(None)

    def _count(self, uris: Iterable[str]) -> None:
        uris = list(uris)
        if len(self._everyone) + len(uris) > MAX_WATCHED:
            raise ProtocolError(INVALID_PARAMS, f"More than {MAX_WATCHED} resources are watched on this connection")
        self._everyone.update(uris)

    def _discount(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self._everyone[uri] -= 1
            if not self._everyone[uri]:
                del self._everyone[uri]

    def _announce_soon(self) -> None:
        if not self._announcing:
            self._announcing = True
            asyncio.get_running_loop().call_soon(self._announce)

    def _announce(self) -> None:
        connection = self._connection
        if connection is not None and connection.congested:
            # For a client that does not read, changes come together until it does.
            self._waiting = asyncio.get_running_loop().create_task(self._announce_later(connection))
            return
        self._announcing = False
        kinds, self._changed = list(self._changed), {}
        updated, self._updated = list(self._updated), {}
        if connection is None:
            return
        for kind in kinds:
            self._tell_of_list(connection, kind)
        for uri in updated:
            self._tell_of_resource(connection, uri)

    def _tell_of_list(self, connection: Connection, kind: ListKind) -> None:
        method = f"notifications/{kind}/list_changed"
        if self._lifecycle.ready:
            connection.notify(method)
        for id, listener in self._listeners.items():
            if getattr(listener.wanted, f"{kind}_list_changed") and not listener.call.silent:
                connection.notify(method, {"_meta": {SUBSCRIPTION_ID: id}})

    def _tell_of_resource(self, connection: Connection, uri: str) -> None:
        from dovetail.protocol.subscriptions import above

        if self._lifecycle.ready and not self._watched.isdisjoint(above(uri)):
            connection.notify(UPDATED, {"uri": uri})
        for id, listener in self._listeners.items():
            if not listener.call.silent and not listener.uris.isdisjoint(above(uri)):
                connection.notify(UPDATED, {"_meta": {SUBSCRIPTION_ID: id}, "uri": uri})

    async def _announce_later(self, connection: Connection) -> None:
        await connection.drained()
        self._announce()


def is_watchable(server: Server, uri: str, principal: str | None) -> bool:
    """Whether the principal can read the resource, or one below it: a folder, say, of resources."""
    if (found := server.find_resource(uri)) is not None:
        return server.shows(principal, "resource", found[0].key)
    return any(
        _may_be_above(uri, key) and server.shows(principal, "resource", key)
        for registry in (server.resources, server.templates)
        for key, _ in registry.items()
    )


def _may_be_above(uri: str, key: str) -> bool:
    """Whether some resource that the key stands for may lie below the URI."""
    fixed, variable, _ = key.partition("{")
    return covers(uri, fixed) or (bool(variable) and uri.startswith(fixed))
