"""Subscribed sessions: those that are notified here, and whose subscriptions are made again when they are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from dovetail.protocol.errors import DovetailError
from dovetail.server.session import ServerCall, Session
from dovetail.server.tasks.task_call import NoSink
from dovetail.storage.contract import StoreError
from dovetail.wire.jsonrpc import Request

from .access_control.inbound import Caller, caller_named, caller_of, use_caller

logger = logging.getLogger("dovetail")


class SubscribedSessions:
    """The sessions that one view notifies here, and the callers in whose names they subscribe again."""

    def __init__(
        self, subscribe: Callable[[ServerCall, str], Awaitable[object]], on_failure: Callable[[Session], None]
    ) -> None:
        """`on_failure` is called for a session that could not subscribe because the store is away."""
        self._subscribe = subscribe
        self._on_failure = on_failure
        self._callers: dict[Session, Caller] = {}
        """By session: who has opened its stream, without the token."""
        self._subscribing: set[asyncio.Task[None]] = set()

    def add(self, session: Session) -> None:
        """Notify a session from now on, in the name of the caller of the request in progress."""
        caller = caller_named(session.principal)
        if caller is not None:
            self._callers[session] = msgspec.structs.replace(caller, token="")
        self.subscribe_again(session)

    def remove(self, session: Session) -> None:
        """Notify a session no more."""
        self._callers.pop(session, None)

    def subscribe_again(self, session: Session, *, lost: bool = False) -> None:
        """Subscribe to all resources that a session is subscribed to, where its connections are.

        If its subscriptions were `lost`, it is told that the resources may have been updated meanwhile.
        """
        terms = session.lifecycle.terms
        if terms is None or not session.subscribes:
            return
        terms = msgspec.structs.replace(terms, principal=session.principal)
        for uri in session.subscriptions.subscribed:
            request = Request("subscribe", "resources/subscribe", {"uri": uri})
            call = ServerCall(request, terms, NoSink(), None, session)
            work = self._make_again(call, uri, self._callers.get(session), lost=lost)
            task = asyncio.get_running_loop().create_task(work)
            self._subscribing.add(task)
            task.add_done_callback(self._subscribing.discard)

    async def _make_again(self, call: ServerCall, uri: str, caller: Caller | None, *, lost: bool) -> None:
        if caller is not None and caller_of(call) is None:
            # There is no request of the client in progress.
            use_caller(caller)
        try:
            await self._subscribe(call, uri)
        except DovetailError as problem:
            logger.warning("A session is not notified of changes of %s: %s", uri, problem)
        except StoreError as problem:
            logger.warning("A session is not notified of changes of %s for now: %s", uri, problem)
            self._on_failure(call.session)
        else:
            if lost:
                call.session.subscriptions.resource_updated(uri)
