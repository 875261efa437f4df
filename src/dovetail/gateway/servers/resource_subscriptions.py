"""Subscriptions of one connection to resources of its server: one for each resource, for all sessions that want it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dovetail.client.retry_policy import is_temporary
from dovetail.protocol.errors import ConnectionLost, DovetailError, Timeout
from dovetail.wire.jsonrpc import Id

if TYPE_CHECKING:
    from dovetail.client.subscriptions import Change
    from dovetail.server.session import Session

logger = logging.getLogger("dovetail")

FIRST_PAUSE = 1.0
MAX_PAUSE = 15.0
"""Bounds of the pause before a server is asked again for a subscription that has failed; it doubles each time."""


class Subscriber(NamedTuple):
    """A session that is subscribed to a resource; several of its requests may be, each for itself."""

    session: Session
    known_as: str
    """The URI that its client knows the resource by."""
    request: Id | None = None
    """The request that it lasts as long as; None for one that lasts until it is ended."""


Subscribers = dict[str, set[Subscriber]]
"""Those of each resource, by its URI at the server."""

OnSubscribed = Callable[[], None]
OpenWatch = Callable[[str, OnSubscribed], "AsyncGenerator[Change]"]


def has_subscriber(subscribers: Subscribers, session: Session) -> bool:
    """True if a session is subscribed to any of these resources."""
    return any(one.session is session for subscribed in subscribers.values() for one in subscribed)


class _Subscription(msgspec.Struct, eq=False):
    subscribers: set[Subscriber]
    accepted: asyncio.Future[None]
    """Done when the server has accepted the subscription, or refused it."""
    watcher: asyncio.Task[None] | None = None


class ResourceSubscriptions:
    """The subscriptions of one connection."""

    def __init__(
        self,
        open_watch: OpenWatch,
        is_usable: Callable[[], bool],
        on_update: Callable[[str, str], None],
        timeout: float,
    ) -> None:
        """`on_update` is called with the URI that is subscribed to, and with the one that was updated."""
        self._open_watch = open_watch
        self._is_usable = is_usable
        self._on_update = on_update
        self._timeout = timeout
        self._by_uri: dict[str, _Subscription] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uri)

    async def add(self, uri: str, subscribers: Iterable[Subscriber]) -> None:
        """Subscribe to a resource; raises `DovetailError` unless the server accepts it."""
        added = set(subscribers)
        found = self._by_uri.get(uri)
        if found is None:
            found = self._by_uri[uri] = _Subscription(set(), asyncio.get_running_loop().create_future())
            found.watcher = asyncio.create_task(self._watch(uri, found), name="dovetail-gateway-subscription")
        found.subscribers |= added
        try:
            await asyncio.wait([found.accepted], timeout=self._timeout)
            if not found.accepted.done():
                raise Timeout(f"No answer to the subscription to {uri} within {self._timeout:g} s")
            found.accepted.result()
        except BaseException:
            found.subscribers -= added
            self._end_unused(uri, found)
            raise

    def remove(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """End one subscription of a session, or all."""
        for uri, subscription in list(self._by_uri.items()):
            discard(subscription.subscribers, session, known_as, request)
            self._end_unused(uri, subscription)

    def accepted(self) -> Subscribers:
        """The subscribers that the server has accepted."""
        return {uri: set(one.subscribers) for uri, one in self._by_uri.items() if one.accepted.done()}

    def audience(self, uri: str) -> list[tuple[Session, str]]:
        """The sessions that hear of updates of a resource, and the URIs that their clients know."""
        found = self._by_uri.get(uri)
        return [] if found is None else list({(one.session, one.known_as) for one in found.subscribers})

    async def close(self) -> None:
        """End all subscriptions."""
        watchers = [one.watcher for one in self._by_uri.values() if one.watcher is not None]
        self._by_uri.clear()
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def _end_unused(self, uri: str, subscription: _Subscription) -> None:
        if not subscription.subscribers and self._by_uri.get(uri) is subscription:
            del self._by_uri[uri]
            if subscription.watcher is not None:
                subscription.watcher.cancel()

    async def _watch(self, uri: str, subscription: _Subscription) -> None:
        accepted = subscription.accepted

        def on_subscribed() -> None:
            if accepted.done():
                self._on_update(uri, uri)  # nobody knows what has happened to it meanwhile
            else:
                accepted.set_result(None)

        try:
            await keep_watching(
                functools.partial(self._open_watch, uri, on_subscribed),
                lambda change: self._on_update(uri, change.uri or uri),
                lambda problem: accepted.done() and self._is_usable() and is_temporary(problem),
            )
        except DovetailError as problem:
            if not accepted.done():
                self._by_uri.pop(uri, None)
                accepted.set_exception(problem)
            elif self._is_usable():
                logger.warning("Clients are not notified of changes of %s any more: %s", uri, problem)
                self._on_update(uri, uri)
                self._by_uri.pop(uri, None)
            # Those of a connection that is lost are made again over another one.
        finally:
            if not accepted.done():
                accepted.set_exception(ConnectionLost("the connection was closed"))
            if not accepted.cancelled():
                accepted.exception()  # those who wait for it raise it, and there may be none any more


async def keep_watching(
    open_watch: Callable[[], AsyncGenerator[Change]],
    on_change: Callable[[Change], None],
    goes_on: Callable[[DovetailError], bool],
) -> None:
    """Watch for changes, and again after each error that is not the end; raises the one that is."""
    pause = FIRST_PAUSE
    while True:
        began = asyncio.get_running_loop().time()
        try:
            async with contextlib.aclosing(open_watch()) as changes:
                async for change in changes:
                    on_change(change)
        except DovetailError as problem:
            if not goes_on(problem):
                raise
        if asyncio.get_running_loop().time() - began > MAX_PAUSE:
            pause = FIRST_PAUSE
        await asyncio.sleep(random.uniform(pause / 2, pause))
        pause = min(2 * pause, MAX_PAUSE)


def discard(subscribers: set[Subscriber], session: Session, known_as: str | None, request: Id | None) -> None:
    """Remove one subscription of a session from others, or all of that session."""
    if known_as is None:
        subscribers.difference_update([one for one in subscribers if one.session is session])
    else:
        subscribers.discard(Subscriber(session, known_as, request))
