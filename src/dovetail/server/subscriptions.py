"""Telling a client that a list has changed: unasked on the handshake era, on request on the envelope era."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias

from dovetail.protocol.envelope import SUBSCRIPTION_ID
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.types.messages import ListenResult, SubscriptionFilter
from dovetail.types.shape import dump
from dovetail.wire.jsonrpc import Id

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]


class Subscriptions:
    """What one client wants to hear of."""

    def __init__(self, lifecycle: ServerLifecycle) -> None:
        self._lifecycle = lifecycle
        self._connection: Connection | None = None
        self._listeners: dict[Id, tuple[SubscriptionFilter, asyncio.Future[None], Call]] = {}
        self._changed: dict[ListKind, None] = {}
        self._waiting: asyncio.Task[None] | None = None

    def attach(self, connection: Connection) -> None:
        """The connection to speak through."""
        self._connection = connection

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> ListenResult:
        """Acknowledge a subscription and keep it until the client cancels it or the server ends.

        The acknowledgement is a subscription's first message (2026-07-28 subscriptions, "Acknowledgment").
        """
        id = call.request.id
        meta = {SUBSCRIPTION_ID: id}
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call.connection.notify(
            "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": dump(wanted)}
        )
        self._listeners[id] = (wanted, ended, call)
        try:
            await ended
        finally:
            del self._listeners[id]
        call.connection.notify("notifications/cancelled", {"_meta": meta, "requestId": id})
        return ListenResult(meta=dict(meta))

    def list_changed(self, kind: ListKind) -> None:
        """Note a change; changes of one turn of the loop are told together."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._announce)
        self._changed[kind] = None

    def end(self) -> None:
        """Close every subscription gracefully (2026-07-28 subscriptions, "Graceful Closure")."""
        for _, ended, _ in self._listeners.values():
            if not ended.done():
                ended.set_result(None)

    def _announce(self) -> None:
        connection = self._connection
        if connection is not None and connection.congested:
            # For a client that does not read, changes come together until it does.
            self._waiting = asyncio.get_running_loop().create_task(self._announce_later(connection))
            return
        kinds, self._changed = list(self._changed), {}
        if connection is None:
            return
        for kind in kinds:
            method = f"notifications/{kind}/list_changed"
            if self._lifecycle.ready:
                connection.notify(method)
            for id, (wanted, _, call) in self._listeners.items():
                if getattr(wanted, f"{kind}_list_changed") and not call.silent:
                    connection.notify(method, {"_meta": {SUBSCRIPTION_ID: id}})

    async def _announce_later(self, connection: Connection) -> None:
        await connection.drained()
        self._announce()
