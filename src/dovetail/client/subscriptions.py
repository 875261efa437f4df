"""Subscriptions to changes: `resources/subscribe` in the handshake era, `subscriptions/listen` in the envelope era."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NoReturn, Protocol

import msgspec

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus, NotFound, OutcomeUnknown
from dovetail.protocol.subscriptions import covers, unacknowledged
from dovetail.transports.reconnection import LASTING_SECONDS, Reconnection
from dovetail.wire.jsonrpc import Id

from .retry_policy import is_temporary
from .supervisor import Supervisor

MAX_UNREAD = 1000
"""Unread changes of one watcher; beyond it, a change of a resource is reported as one of the watched resource."""

UNSUBSCRIBE_SECONDS = 1.0

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"

SendRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Change(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A change at the server: `kind` is tools, resources or prompts, or resource for one at its `uri`."""

    kind: str
    uri: str | None = None
    missed: bool = False
    """The subscription was interrupted, and is there again: there may have been changes meanwhile, or none."""


async def watch(
    supervisor: Supervisor,
    meta: dict[str, Any] | None,
    kinds: Sequence[str],
    uris: Sequence[str],
    request: SendRequest,
    on_subscribed: Callable[[], None] | None = None,
) -> AsyncGenerator[Change]:
    """Yield each change of the lists and resources; equal changes that are unread are reported once.

    `on_subscribed` is called when the server has accepted everything.
    """
    changes = _ChangeCollector(supervisor, meta, kinds, uris)
    changes.on_subscribed = on_subscribed
    session = supervisor.session
    session.notification_callbacks.add(changes.notified)
    session.interruption_callbacks.add(changes.interrupted.set)
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
        session.notification_callbacks.discard(changes.notified)
        session.interruption_callbacks.discard(changes.interrupted.set)
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
        self.interrupted = asyncio.Event()
        """Set when notifications may have been lost, in the handshake era."""
        self.refused: NotFound | None = None
        self.on_subscribed: Callable[[], None] | None = None
        self._has_subscription_ids = meta is not None
        self._not_found = supervisor.agreement.revision.not_found_code
        self._lists = {f"notifications/{kind}/list_changed": Change(kind) for kind in kinds}
        self._uris = uris
        self.acknowledged = self.was_acknowledged = False
        """In the envelope era: if the server has confirmed the present subscription, and if it has confirmed one."""

    def renew(self, id: Id) -> None:
        """Collect for the subscription with another id, which follows one that has ended."""
        self.id, self.acknowledged = id, False

    def subscribed(self) -> None:
        """The server has accepted the subscription for the first time."""
        if self.on_subscribed is not None:
            self.on_subscribed()

    def missed(self) -> None:
        """Report that everything that is watched may have changed, where no change of it is unread."""
        for change in (*self._lists.values(), *(Change("resource", uri) for uri in self._uris)):
            if change not in self.unread:
                self._add(Change(change.kind, change.uri, missed=True))

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
        if self.was_acknowledged:
            self.missed()
        elif not missing:
            self.subscribed()
        self.acknowledged = self.was_acknowledged = True

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
) -> NoReturn:
    """Subscribe as the era requires, and again after each interruption, until that fails or the connection is lost."""
    if meta is None:
        await _subscribe_to_resources(supervisor, changes, uris, request)
    await keep_listening(supervisor, meta, changes, wanted_changes(kinds, uris))


async def _subscribe_to_resources(
    supervisor: Supervisor, changes: _ChangeCollector, uris: Sequence[str], request: SendRequest
) -> NoReturn:
    """Handshake era: list changes come by themselves, resources are subscribed to one by one, and once for all."""
    shared, agreement = supervisor.session.subscriptions, supervisor.agreement
    subscribed: list[str] = []
    if supervisor.http is not None:
        await supervisor.http.wait_for_get_stream()
    try:
        for uri in uris:
            await request("resources/subscribe", {"uri": uri})
            shared[uri] += 1
            subscribed.append(uri)
        changes.subscribed()
        reconnection, restored = Reconnection(), 0.0
        while True:
            await supervisor.unless_lost(changes.interrupted.wait())
            changes.interrupted.clear()
            now = asyncio.get_running_loop().time()
            useful = now - restored >= LASTING_SECONDS
            pause = reconnection.after_end(now, useful=useful, broken=False)
            await supervisor.unless_lost(_reach(request, reconnection, pause))
            before, agreement = agreement, supervisor.agreement
            if agreement is not before:
                # In another session, which the server began without subscriptions.
                for uri in uris:
                    await request("resources/subscribe", {"uri": uri})
            if supervisor.http is not None:
                await supervisor.http.wait_for_get_stream()
            restored = asyncio.get_running_loop().time()
            changes.missed()
    finally:
        for uri in subscribed:
            shared[uri] -= 1
            if not shared[uri] and supervisor.connection.gone is None:
                del shared[uri]
                with contextlib.suppress(DovetailError, TimeoutError):
                    async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
                        await request("resources/unsubscribe", {"uri": uri})


async def _reach(request: SendRequest, reconnection: Reconnection, pause: float) -> None:
    """Send a request until the server answers, which also begins a new session and opens its stream, if need be."""
    while True:
        await asyncio.sleep(pause)
        try:
            await request("ping", {})
        except DovetailError as problem:
            pause = pause_after(problem, reconnection)
        else:
            reconnection.connected()
            return


class Listener(Protocol):
    """Receives the notifications of one subscription after the other."""

    id: Id
    """The id of the present subscription."""
    acknowledged: bool
    was_acknowledged: bool
    """If the server has confirmed the present subscription, and if it has confirmed one."""

    def renew(self, id: Id) -> None:
        """Go on with the subscription with another id, which follows one that has ended."""
        ...


async def keep_listening(
    supervisor: Supervisor, meta: dict[str, Any], changes: Listener, wanted: dict[str, Any]
) -> NoReturn:
    """Envelope era: hold one subscription after the other, since servers and proxies end them, as does each token.

    The first one has to succeed. Of the later ones, a temporary error is not raised before it has lasted for a while.
    """
    now, reconnection = asyncio.get_running_loop().time, Reconnection()
    while True:
        began, problem = now(), None
        try:
            await hold_subscription(supervisor, meta, wanted, changes.id)
        except DovetailError as raised:
            problem = raised
        if supervisor.connection.gone is not None:
            raise ConnectionLost(supervisor.connection.gone) from problem
        if changes.acknowledged:
            reconnection.connected()
            useful = now() - began >= LASTING_SECONDS
            if problem is not None and not is_temporary(problem):
                raise problem
            pause = reconnection.after_end(now(), useful=useful, broken=problem is not None)
        elif problem is not None and not changes.was_acknowledged:
            raise problem
        else:
            ended = ConnectionLost("the server ends each subscription without an acknowledgment")
            pause = pause_after(problem or ended, reconnection)
        changes.renew(supervisor.connection.pending.next_id())
        await supervisor.unless_lost(asyncio.sleep(pause))


def pause_after(problem: DovetailError, reconnection: Reconnection) -> float:
    """Seconds until the next attempt after one that failed; raises its error if there is none."""
    retry = problem.retry_after if isinstance(problem, HttpStatus) else None
    pause = None
    if is_temporary(problem):
        pause = reconnection.after_failure(asyncio.get_running_loop().time(), retry=retry)
    if pause is None:
        raise ConnectionLost(problem.reason) if isinstance(problem, OutcomeUnknown) else problem
    return pause


def wanted_changes(kinds: Sequence[str], uris: Sequence[str] = ()) -> dict[str, Any]:
    """The filter of a subscription to lists and resources."""
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    return wanted


async def hold_subscription(
    supervisor: Supervisor, meta: dict[str, Any], wanted: dict[str, Any], id: Id | None = None
) -> None:
    """Envelope era: send `subscriptions/listen`, which lasts until the server ends the subscription."""
    params = {"_meta": meta, "notifications": wanted}
    await supervisor.connection.pending.request("subscriptions/listen", params, Timeouts(None), id=id)
