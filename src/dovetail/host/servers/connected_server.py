"""A connected server: health checks, lists, and subscriptions to resources."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

import msgspec

from dovetail.host.events import HostEvent, OnEvent, ResourceChange
from dovetail.host.limits import Limits
from dovetail.protocol.errors import ConnectionLost, DovetailError, LocalError, Timeout

from .bounded_client import KINDS, BoundedClient, ListKind, ServerFeatures, fetch_list, offered_kinds
from .server_log import ServerLog

_MISSES = 2
"""Checks in a row that a server may leave unanswered."""

_CHANGED: dict[str, tuple[ListKind, ...]] = {
    "tools": ("tools",),
    "prompts": ("prompts",),
    "resources": ("resources", "templates"),
}

OnListed = Callable[[ServerFeatures, frozenset[ListKind]], Awaitable[None]]


class ConnectedServer:
    """Health checks, list refresh and subscriptions of one connected server; its tasks end with the connection."""

    def __init__(
        self,
        client: BoundedClient,
        log: ServerLog,
        limits: Limits,
        listed: OnListed,
        emit: Callable[[HostEvent], None],
        server: str,
    ) -> None:
        self.client = client
        self._log = log
        self._limits = limits
        self._listed = listed
        self._emit: OnEvent = emit
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        self._stale: set[ListKind] = set()
        self._news = asyncio.Event()
        self._suspected = asyncio.Event()
        self.busy = 0
        """Requests of ours under way: a server that works need not answer checks as well."""
        self.features = ServerFeatures()
        self._taken = False

    async def begin(self) -> None:
        """Listen for changes, then fetch every list for the first time, side by side."""
        self._spawn(self._watch_lists())
        said = self.client.instructions
        self.features = ServerFeatures(instructions=said[: self._limits.max_instructions] if said else None)
        await self._fetch(offered_kinds(self.client))
        self._spawn(self._refresh())

    async def until_lost(self) -> str:
        """Wait until the server is gone, or does not answer any more; why."""
        lost = asyncio.ensure_future(self.client.lost())
        sick = asyncio.ensure_future(self._check_health())
        try:
            done, _ = await asyncio.wait({lost, sick}, return_when=asyncio.FIRST_COMPLETED)
            return (lost if lost in done else sick).result()
        finally:
            lost.cancel()
            sick.cancel()
            await asyncio.gather(lost, sick, return_exceptions=True)

    async def end(self) -> None:
        """End every task; the client is closed by whoever opened it."""
        tasks = [*self._tasks, *self._subscriptions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._subscriptions.clear()

    def announces(self, kind: Literal["tools", "prompts"]) -> bool:
        """True if the server says that it tells of changes of a list; who trusts it need not look."""
        said = getattr(self.client.capabilities, kind)
        return said is not None and bool(said.list_changed)

    def suspect(self) -> None:
        """Something went wrong with a request: see soon whether the server is well."""
        self._suspected.set()

    async def fetch_now(self, kind: ListKind) -> tuple[Any, ...]:
        """One list as it is at this moment; raises `DovetailError`."""
        items = await fetch_list(self.client, kind, self._limits.list_seconds)
        await self._apply({kind: items}, {})
        return items

    async def subscribe(self, uri: str) -> None:
        """Tell of a resource's changes from now on; raises what the server says against it."""
        if uri in self._subscriptions:
            return
        if len(self._subscriptions) >= self._limits.max_subscriptions:
            raise LocalError(f"{self._server}: more than {self._limits.max_subscriptions} subscriptions")
        task = self._subscriptions[uri] = asyncio.create_task(self._watch_resource(uri), name="dovetail-subscription")
        # The ear is opened before the server is asked, so that nothing it tells at once is missed.
        await asyncio.sleep(0)
        if self.client.knows("resources/subscribe"):
            try:
                await self.client.request("resources/subscribe", {"uri": uri})
            except BaseException:
                self._subscriptions.pop(uri, None)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Tell of them no more."""
        task = self._subscriptions.pop(uri, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="dovetail-attending")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, kinds: list[ListKind]) -> None:
        lists: dict[ListKind, tuple[Any, ...]] = {}
        problems: dict[ListKind, str] = {}

        async def one(kind: ListKind) -> None:
            try:
                lists[kind] = await fetch_list(self.client, kind, self._limits.list_seconds)
            except DovetailError as problem:
                problems[kind] = str(problem)
                self._log.note("error", f"The list of {kind} was not taken: {problem}")

        await asyncio.gather(*(one(kind) for kind in kinds))
        if self.client.gone:
            # What it offers is not known, which is another thing than that it offers nothing.
            raise ConnectionLost(await self.client.lost())
        await self._apply(lists, problems)

    async def _apply(self, lists: dict[ListKind, tuple[Any, ...]], problems: dict[ListKind, str]) -> None:
        kept = {kind: text for kind, text in self.features.problems.items() if kind not in lists}
        changed: frozenset[ListKind] = frozenset(
            kind for kind, items in lists.items() if getattr(self.features, kind) != items
        )
        now = {**kept, **problems}
        if changed or now != self.features.problems or not self._taken:
            self._taken = True
            self.features = msgspec.structs.replace(self.features, **lists, problems=now)
            await self._listed(self.features, changed)

    async def _watch_lists(self) -> None:
        """Note which lists have changed; where the server ends the subscription, there is another, ever less often."""
        has = self.client.capabilities
        given = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources}
        wanted = {kind: True for kind, said in given.items() if said is not None and said.list_changed}
        pause = self._limits.refresh_seconds
        while wanted:
            with contextlib.suppress(DovetailError):
                async for change in self.client.watch(**wanted):
                    self._stale.update(_CHANGED.get(change.kind, ()))
                    self._news.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._limits.longest_pause)
            # Nobody told of what changed meanwhile.
            self._stale.update(kind for kind in KINDS if kind in offered_kinds(self.client))
            self._news.set()

    async def _refresh(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            stale, self._stale = self._stale, set[ListKind]()
            try:
                await self._fetch(list(stale))
            except DovetailError as problem:
                self._log.note("error", f"What the server offers was not taken up: {problem}")
            await asyncio.sleep(self._limits.refresh_seconds)

    async def _watch_resource(self, uri: str) -> None:
        try:
            async for change in self.client.watch(uri):
                self._changed(ResourceChange(uri=change.uri or uri))
        except DovetailError as problem:
            # With a lost connection it is subscribed to again when the server is back.
            if not self.client.gone:
                self._changed(ResourceChange(uri=uri, problem=str(problem)))
        finally:
            if self._subscriptions.get(uri) is asyncio.current_task():
                del self._subscriptions[uri]

    def _changed(self, change: ResourceChange) -> None:
        self._emit(HostEvent(kind="resource", server=self._server, detail=change))

    async def _check_health(self) -> str:
        misses = 0
        while True:
            if not misses:
                await self._until_quiet()
            try:
                await self.client.ping(timeout=self._limits.ping_seconds)
            except (Timeout, ConnectionLost) as problem:
                misses += 1
                if misses >= _MISSES:
                    return f"it does not answer any more: {problem}"
            except DovetailError:
                misses = 0  # an error is a sign of life
            else:
                misses = 0

    async def _until_quiet(self) -> None:
        """Wait until nothing was heard for a while and nothing is under way, or somebody has a suspicion."""
        idle = self._limits.idle_seconds
        while not self._suspected.is_set():
            left = idle if self.busy else self._log.heard + idle - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._suspected.wait()
        self._suspected.clear()
