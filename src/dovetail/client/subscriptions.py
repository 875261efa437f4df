"""Subscriptions to changes: `resources/subscribe` in the handshake era, `subscriptions/listen` in the envelope era."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import ConnectionLost, DovetailError, NotFound
from dovetail.protocol.subscriptions import covers, unacknowledged

from .supervisor import Supervisor

MAX_UNREAD = 1000
"""Unread changes of one watcher; beyond it, a change of a resource is reported as one of the watched resource."""

UNSUBSCRIBE_SECONDS = 1.0

MIN_SUBSCRIPTION_SECONDS = 1.0
"""A subscription over HTTP that a server ends sooner is not renewed."""

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"

SendRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Change(msgspec.Struct, frozen=True):
    """A change at the server: `kind` is tools, resources or prompts, or resource for one at its `uri`."""

    kind: str
    uri: str | None = None


async def watch(
    supervisor: Supervisor, meta: dict[str, Any] | None, kinds: Sequence[str], uris: Sequence[str], request: SendRequest
) -> AsyncGenerator[Change]:
    """Yield each change of the lists and resources; equal changes that are unread are reported once."""
    changes = _ChangeCollector(supervisor, meta, kinds, uris)
    supervisor.session.notification_callbacks.add(changes.notified)
    subscription = asyncio.ensure_future(_subscribe(supervisor, meta, changes, kinds, uris, request))
    subscription.add_done_callback(lambda _: changes.changed.set())
    try:
        while True:
            await changes.changed.wait()
            changes.changed.clear()
            while changes.unread:
                change = next(iter(changes.unread))
                del changes.unread[change]
                yield change
            if changes.refused is not None:
                raise changes.refused
            if subscription.done():
                subscription.result()
                return
    finally:
        supervisor.session.notification_callbacks.discard(changes.notified)
        subscription.cancel()
        await asyncio.gather(subscription, return_exceptions=True)


class _ChangeCollector:
    """Collects the notifications that belong to one watcher."""

    def __init__(
        self, supervisor: Supervisor, meta: dict[str, Any] | None, kinds: Sequence[str], uris: Sequence[str]
    ) -> None:
        self.id = supervisor.connection.pending.next_id()
        self.unread: dict[Change, None] = {}
        self.changed = asyncio.Event()
        self.refused: NotFound | None = None
        self._has_subscription_ids = meta is not None
        self._not_found = supervisor.agreement.revision.not_found_code
        self._lists = {f"notifications/{kind}/list_changed": Change(kind) for kind in kinds}
        self._uris = uris
        self.acknowledged = self._renewed = False

    def renew(self, id: int) -> None:
        """Collect for the subscription with another id, which follows one that has ended."""
        self.id, self.acknowledged, self._renewed = id, False, True

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Note what a notification says, if it is for this watcher."""
        if self._has_subscription_ids and (meta_of(params) or {}).get(SUBSCRIPTION_ID) != self.id:
            return
        if (change := self._lists.get(method)) is not None:
            self._add(change)
        elif method == _UPDATED and self._uris:
            self._resource_updated(params.get("uri"))
        elif method == _ACKNOWLEDGED:
            self._acknowledge(params.get("notifications"))

    def _resource_updated(self, uri: object) -> None:
        if isinstance(uri, str) and (watched := [each for each in self._uris if covers(each, uri)]):
            self._add(Change("resource", uri if len(self.unread) < MAX_UNREAD else watched[0]))

    def _acknowledge(self, accepted: object) -> None:
        """Check that the server has accepted every resource (2026-07-28 subscriptions, "Acknowledgment")."""
        missing = unacknowledged(self._uris, accepted)
        if missing:
            self.refused = NotFound(self._not_found, f"The server does not tell of changes of {missing[0]}")
            self.changed.set()
        self.acknowledged = True
        if self._renewed:
            # Whatever has changed between the two subscriptions went unnoticed, so everything counts as changed.
            for change in (*self._lists.values(), *(Change("resource", uri) for uri in self._uris)):
                self._add(change)

    def _add(self, change: Change) -> None:
        self.unread[change] = None
        self.changed.set()


async def _subscribe(
    supervisor: Supervisor,
    meta: dict[str, Any] | None,
    changes: _ChangeCollector,
    kinds: Sequence[str],
    uris: Sequence[str],
    request: SendRequest,
) -> None:
    """Subscribe as the era requires, until the server ends the subscription or the connection is lost."""
    if meta is None:
        await _subscribe_to_resources(supervisor, uris, request)
        return
    await hold_subscription(supervisor, meta, kinds, uris, changes.id)
    while supervisor.http is not None and await _renew(supervisor, meta, changes, kinds, uris):
        pass


async def _subscribe_to_resources(supervisor: Supervisor, uris: Sequence[str], request: SendRequest) -> None:
    """Handshake era: list changes come by themselves, resources are subscribed to one by one, and once for all."""
    shared = supervisor.session.subscriptions
    subscribed: list[str] = []
    if supervisor.http is not None:
        await supervisor.http.wait_for_get_stream()
    try:
        for uri in uris:
            await request("resources/subscribe", {"uri": uri})
            shared[uri] += 1
            subscribed.append(uri)
        await supervisor.wait_lost()
        raise ConnectionLost(supervisor.connection.gone or "the connection was closed")
    finally:
        for uri in subscribed:
            shared[uri] -= 1
            if not shared[uri] and supervisor.connection.gone is None:
                del shared[uri]
                with contextlib.suppress(DovetailError, TimeoutError):
                    async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
                        await request("resources/unsubscribe", {"uri": uri})


async def _renew(
    supervisor: Supervisor,
    meta: dict[str, Any],
    changes: _ChangeCollector,
    kinds: Sequence[str],
    uris: Sequence[str],
) -> bool:
    """Renew a subscription that its server has ended, as servers do when a token expires; True to do so again."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    changes.renew(supervisor.connection.pending.next_id())
    try:
        await hold_subscription(supervisor, meta, kinds, uris, changes.id)
    except DovetailError:
        if changes.acknowledged:
            raise
        return False  # the server has ended, not only the subscription
    return loop.time() - began >= MIN_SUBSCRIPTION_SECONDS


async def hold_subscription(
    supervisor: Supervisor, meta: dict[str, Any], kinds: Sequence[str], uris: Sequence[str] = (), id: int | None = None
) -> None:
    """Envelope era: send `subscriptions/listen`, which lasts until the server ends the subscription."""
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    params = {"_meta": meta, "notifications": wanted}
    await supervisor.connection.pending.request("subscriptions/listen", params, Timeouts(None), id=id)
