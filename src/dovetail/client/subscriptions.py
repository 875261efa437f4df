"""Hearing of changes: notifications that come by themselves, or a subscription where one has to ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import ConnectionLost, DovetailError, NotFound

from .supervisor import Supervisor

MAX_UNREAD = 1000
"""Changes kept for a reader that takes its time; of resources beyond it, only the watched ones are named."""

UNSUBSCRIBE_SECONDS = 1.0

BRIEF_SECONDS = 1.0
"""A subscription over HTTP that a server ends after less is not asked for again."""

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"

SendRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Change(msgspec.Struct, frozen=True):
    """Something changed at the server: `kind` is tools, resources or prompts, or resource for one at its `uri`."""

    kind: str
    uri: str | None = None


async def watch(
    supervisor: Supervisor, meta: dict[str, Any] | None, kinds: Sequence[str], uris: Sequence[str], request: SendRequest
) -> AsyncGenerator[Change]:
    """Yield each change of what was named; changes that pile up unread are told once."""
    ear = _ChangeCollector(supervisor, meta, kinds, uris)
    supervisor.session.listeners.add(ear.notified)
    subscription = asyncio.ensure_future(_subscribe(supervisor, meta, ear, kinds, uris, request))
    subscription.add_done_callback(lambda _: ear.news.set())
    try:
        while True:
            await ear.news.wait()
            ear.news.clear()
            while ear.unread:
                change = next(iter(ear.unread))
                del ear.unread[change]
                yield change
            if ear.refused is not None:
                raise ear.refused
            if subscription.done():
                subscription.result()
                return
    finally:
        supervisor.session.listeners.discard(ear.notified)
        subscription.cancel()
        await asyncio.gather(subscription, return_exceptions=True)


class _ChangeCollector:
    """Takes the notifications that are meant for one watcher."""

    def __init__(
        self, supervisor: Supervisor, meta: dict[str, Any] | None, kinds: Sequence[str], uris: Sequence[str]
    ) -> None:
        self.id = supervisor.connection.pending.next_id()
        self.unread: dict[Change, None] = {}
        self.news = asyncio.Event()
        self.refused: NotFound | None = None
        self._subscribed = meta is not None
        self._not_found = supervisor.agreement.revision.not_found_code
        self._lists = {f"notifications/{kind}/list_changed": Change(kind) for kind in kinds}
        self._uris = uris
        self.acknowledged = self._again = False

    def begin_again(self, id: int) -> None:
        """Listen under another id: the subscription has ended, and another one follows."""
        self.id, self.acknowledged, self._again = id, False, True

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if self._subscribed and (meta_of(params) or {}).get(SUBSCRIPTION_ID) != self.id:
            return
        if (change := self._lists.get(method)) is not None:
            self._hear(change)
        elif method == _UPDATED and self._uris:
            self._updated(params.get("uri"))
        elif method == _ACKNOWLEDGED:
            self._acknowledged(params.get("notifications"))

    def _updated(self, uri: object) -> None:
        from dovetail.protocol.subscriptions import covers

        if isinstance(uri, str) and (above := [each for each in self._uris if covers(each, uri)]):
            self._hear(Change("resource", uri if len(self.unread) < MAX_UNREAD else above[0]))

    def _acknowledged(self, kept: object) -> None:
        """See whether the server will tell of every resource (2026-07-28 subscriptions, "Acknowledgment")."""
        fields = cast("dict[str, Any]", kept) if isinstance(kept, dict) else {}
        promised = fields.get("resourceSubscriptions")
        missing = [uri for uri in self._uris if not isinstance(promised, list) or uri not in promised]
        if missing:
            self.refused = NotFound(self._not_found, f"The server does not tell of changes of {missing[0]}")
            self.news.set()
        self.acknowledged = True
        if self._again:
            # Nobody knows what has changed between the two subscriptions.
            for change in (*self._lists.values(), *(Change("resource", uri) for uri in self._uris)):
                self._hear(change)

    def _hear(self, change: Change) -> None:
        self.unread[change] = None
        self.news.set()


async def _subscribe(
    supervisor: Supervisor,
    meta: dict[str, Any] | None,
    ear: _ChangeCollector,
    kinds: Sequence[str],
    uris: Sequence[str],
    request: SendRequest,
) -> None:
    """Keep a subscription open where the revision wants one; otherwise wait for the end of the connection."""
    if meta is not None:
        await hold_subscription(supervisor, meta, kinds, uris, ear.id)
        while supervisor.web is not None and await _listen_again(supervisor, meta, ear, kinds, uris):
            pass
        return
    watched = supervisor.session.watched
    mine: list[str] = []
    if supervisor.web is not None:
        await supervisor.web.wait_for_get_stream()
    try:
        for uri in uris:
            await request("resources/subscribe", {"uri": uri})
            watched[uri] += 1
            mine.append(uri)
        await supervisor.lost()
        raise ConnectionLost(supervisor.connection.gone or "the connection was closed")
    finally:
        for uri in mine:
            watched[uri] -= 1
            if not watched[uri] and supervisor.connection.gone is None:
                del watched[uri]
                with contextlib.suppress(DovetailError, TimeoutError):
                    async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
                        await request("resources/unsubscribe", {"uri": uri})


async def _listen_again(
    supervisor: Supervisor, meta: dict[str, Any], ear: _ChangeCollector, kinds: Sequence[str], uris: Sequence[str]
) -> bool:
    """Follow a subscription that its server has ended, as it does when the token of it has; whether to do so again."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    ear.begin_again(supervisor.connection.pending.next_id())
    try:
        await hold_subscription(supervisor, meta, kinds, uris, ear.id)
    except DovetailError:
        if ear.acknowledged:
            raise
        return False  # the server has ended, not only the subscription
    return loop.time() - began >= BRIEF_SECONDS


async def hold_subscription(
    supervisor: Supervisor, meta: dict[str, Any], kinds: Sequence[str], uris: Sequence[str] = (), id: int | None = None
) -> None:
    """Keep a subscription open until the server ends it."""
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    params = {"_meta": meta, "notifications": wanted}
    await supervisor.connection.pending.request("subscriptions/listen", params, Timeouts(None), id=id)
