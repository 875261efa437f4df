"""Subscriptions: list changes and resource updates, for one client.

On the handshake era list changes go to every client that is ready, and `resources/subscribe` adds single resources; on
the envelope era each `subscriptions/listen` request says what it wants.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dovetail.protocol.envelope import SUBSCRIPTION_ID
from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind, ancestors, covering, includes_list
from dovetail.runtime.call import Call
from dovetail.transports.base import MessageSink
from dovetail.types.messages import ListenResult, SubscriptionFilter
from dovetail.types.serialization import dump
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

MAX_SUBSCRIBED = 10_000
"""Resources that one client may be subscribed to at once."""

MAX_UNSENT = 1000
"""Updated resources remembered for a client that does not read; beyond it, only the subscribed URIs are named."""

UPDATED = "notifications/resources/updated"


class ListenRequest(msgspec.Struct):
    """One `subscriptions/listen` request in flight."""

    wanted: SubscriptionFilter
    uris: frozenset[str]
    ended: asyncio.Future[None]
    call: Call


class Subscriptions:
    """The subscriptions of one client, on both eras."""

    def __init__(self, lifecycle: ServerLifecycle, shows: Callable[[str], bool]) -> None:
        """`shows` tells if the client may know of a resource, by its URI."""
        self._lifecycle = lifecycle
        self._shows = shows
        self._sink: MessageSink | None = None
        self._requests: dict[Id, ListenRequest] = {}
        self._subscribed: set[str] = set()
        self._counts: Counter[str] = Counter()
        """Number of subscriptions to each URI, of both eras."""
        self._changed: dict[ListKind, None] = {}
        self._updated: dict[str, None] = {}
        self._waiting: asyncio.Task[None] | None = None
        self._announcing = False

    def attach(self, sink: MessageSink) -> None:
        """Send notifications there."""
        self._sink = sink

    @property
    def subscribed(self) -> list[str]:
        """The resources that a client of the handshake era is subscribed to."""
        return list(self._subscribed)

    def add(self, uri: str) -> None:
        """Subscribe to updates of a resource (handshake era, `resources/subscribe`)."""
        if uri not in self._subscribed:
            self._count([uri])
            self._subscribed.add(uri)

    def remove(self, uri: str) -> None:
        """End a subscription, if there is one."""
        if uri in self._subscribed:
            self._subscribed.remove(uri)
            self._uncount([uri])

    def clear(self) -> None:
        """End the subscriptions to resources of the handshake era; those of `subscriptions/listen` go on."""
        for uri in self.subscribed:
            self.remove(uri)

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> ListenResult:
        """Acknowledge a subscription and serve it until the client cancels it or the server shuts down.

        The acknowledgement is a subscription's first message (2026-07-28 subscriptions, "Acknowledgment").
        """
        id = call.request.id
        meta = {SUBSCRIPTION_ID: id}
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        uris = frozenset(wanted.resource_subscriptions or ())
        self._count(uris)
        call.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": dump(wanted)})
        self._requests[id] = ListenRequest(wanted, uris, ended, call)
        try:
            await ended
        finally:
            del self._requests[id]
            self._uncount(uris)
        if call.sink is call.connection:
            # A stream of its own ends by itself; on a shared channel the client has to be notified.
            call.notify("notifications/cancelled", {"_meta": meta, "requestId": id})
        return ListenResult(meta=dict(meta))

    def list_changed(self, kind: ListKind) -> None:
        """Note a change; changes of one turn of the loop are sent together."""
        self._changed[kind] = None
        self._announce_soon()

    def resource_updated(self, uri: str) -> None:
        """Note an update; subscribers of the resource, or of one above it, are notified if they can see it.

        A folder that a client has subscribed to may hold resources that are hidden from it, even their names.
        """
        if not self._counts:
            return
        subscribed = covering(self._counts, uri)
        if not subscribed or not self._shows(uri):
            return
        if len(self._updated) < MAX_UNSENT:
            self._updated[uri] = None
        else:
            self._updated.update(dict.fromkeys(subscribed))
        self._announce_soon()

    def everything_changed(self) -> None:
        """Note that all lists, and all resources that are subscribed to, may have changed."""
        for kind in LIST_KINDS:
            self.list_changed(kind)
        for uri in list(self._counts):
            self.resource_updated(uri)

    def end(self) -> None:
        """Close every subscription gracefully (2026-07-28 subscriptions, "Graceful Closure")."""
        for request in self._requests.values():
            if not request.ended.done():
                request.ended.set_result(None)

    def _count(self, uris: Iterable[str]) -> None:
        uris = list(uris)
        if len(self._counts) + len(uris) > MAX_SUBSCRIBED:
            raise ProtocolError(
                INVALID_PARAMS, f"More than {MAX_SUBSCRIBED} resources are subscribed to on this connection"
            )
        self._counts.update(uris)

    def _uncount(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self._counts[uri] -= 1
            if not self._counts[uri]:
                del self._counts[uri]

    def _announce_soon(self) -> None:
        if not self._announcing:
            self._announcing = True
            asyncio.get_running_loop().call_soon(self._announce)

    def _announce(self) -> None:
        sink = self._sink
        if sink is not None and sink.congested:
            # For a client that does not read, changes come together until it does.
            self._waiting = asyncio.get_running_loop().create_task(self._announce_later(sink))
            return
        self._announcing = False
        kinds, self._changed = list(self._changed), {}
        updated, self._updated = list(self._updated), {}
        if sink is None:
            return
        for kind in kinds:
            self._send_list_changed(sink, kind)
        for uri in updated:
            self._send_updated(sink, uri)

    def _send_list_changed(self, sink: MessageSink, kind: ListKind) -> None:
        method = f"notifications/{kind}/list_changed"
        if self._lifecycle.ready:
            _notify(sink, method)
        for id, request in self._requests.items():
            if includes_list(request.wanted, kind) and not request.call.silent:
                _notify(sink, method, {"_meta": {SUBSCRIPTION_ID: id}})

    def _send_updated(self, sink: MessageSink, uri: str) -> None:
        if self._lifecycle.ready and not self._subscribed.isdisjoint(ancestors(uri)):
            _notify(sink, UPDATED, {"uri": uri})
        for id, request in self._requests.items():
            if not request.call.silent and not request.uris.isdisjoint(ancestors(uri)):
                _notify(sink, UPDATED, {"_meta": {SUBSCRIPTION_ID: id}, "uri": uri})

    async def _announce_later(self, sink: MessageSink) -> None:
        await sink.drained()
        self._announce()


def _notify(sink: MessageSink, method: str, params: dict[str, Any] | None = None) -> None:
    sink.send(codec.notification(method, None if params is None else codec.encode(params)))
