"""Redis Cluster: each key belongs to the node that has its slot.

redis-py's own cluster client is not used: it sends a command again whose reply was lost, although it may have been
executed. Here a command is sent again only if a node refused it and named another (MOVED, ASK).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from redis import exceptions
from redis.crc import key_slot

from dovetail.storage.contract import StoreClosed, StoreUnavailable, StoreUnusable

from .address import RedisAddress
from .connection import DirectConnection, Link, LinkState, ignore_outcome, make_connection
from .errors import from_reply
from .scripts import Script
from .topology import first_success

Node = tuple[str, int]

SLOTS = 16_384
_MAX_REDIRECTIONS = 5
_MAX_ASKED = 4
"""Nodes that are asked at once for the owners of the slots."""
_REFRESH_SECONDS = 0.2
"""Between questions for the owners of the slots, while commands fail."""


class Cluster:
    """Connections to the nodes of a cluster, and which node owns which slot."""

    polls = True
    """Nodes pass messages on to each other without a guarantee."""

    def __init__(self, address: RedisAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._links: dict[Node, Link] = {}
        self._owners: list[Node | None] = [None] * SLOTS
        self._nodes: list[Node] = []
        """The masters that were known last; none before the first answer."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def execute(self, key: bytes, parts: tuple[bytes, ...], script: Script | None = None) -> Any:
        """The reply to a command, from the node that owns the key."""
        deadline = self._loop.time() + self._timeout
        slot = key_slot(key)
        owner = self._owners[slot] or await self._find_owner(slot)
        asking = False
        for _ in range(_MAX_REDIRECTIONS):
            link = self._link(owner)
            if asking:
                # It is valid for the next command, and nothing is written between the two.
                link.call((b"ASKING",), deadline=deadline).add_done_callback(ignore_outcome)
            try:
                return await link.call(parts, script, deadline=deadline)
            except exceptions.AskError as moving:
                # MovedError is a subclass: the slot has moved for good.
                asking = not isinstance(moving, exceptions.MovedError)
                host, _, port = str(moving.args[0]).rpartition(" ")[2].rpartition(":")
                owner = (host or owner[0], int(port))
                if not asking:
                    self._owners[slot] = owner
                    self._refresh_soon()
            except exceptions.ResponseError as problem:
                self._refresh_soon()
                raise from_reply(problem, link.server) from None
            except StoreUnavailable:
                # Its slots may have another owner by now.
                self._refresh_soon()
                raise
        raise StoreUnavailable(f"The nodes of {self._address} do not agree who has a key")

    async def dial_listener(self) -> DirectConnection:
        """A connection to any node, because all get the messages of all channels; another one after a failure."""
        if not self._nodes:
            await self._refresh()
        away = {node for node, link in self._links.items() if link.state is LinkState.AWAY}
        host, port = random.choice([node for node in self._nodes if node not in away] or self._nodes)
        return make_connection(self._address, host, port, self._timeout)

    async def close(self) -> None:
        """Close the connections to all nodes."""
        self._closed = True
        # Without connections the tasks end by themselves, and those that wait for them get `StoreClosed`.
        await asyncio.gather(*(link.close() for link in self._links.values()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _link(self, node: Node) -> Link:
        if self._closed:
            raise StoreClosed("The store is closed")
        link = self._links.get(node)
        if link is None:

            async def dial() -> DirectConnection:
                return make_connection(self._address, *node, self._timeout)

            link = self._links[node] = Link(dial, self._timeout)
        return link

    async def _find_owner(self, slot: int) -> Node:
        await self._refresh()
        owner = self._owners[slot]
        if owner is None:
            raise StoreUnavailable(f"No node of {self._address} has the slot {slot}; the cluster is incomplete")
        return owner

    def _refresh_soon(self) -> None:
        """Ask for the owners in the background, unless that was done a moment ago."""
        if self._closed or self._loop.time() - self._refreshed < _REFRESH_SECONDS:
            return
        self._start_refresh().add_done_callback(ignore_outcome)

    async def _refresh(self) -> None:
        """Ask for the owners of all slots; callers at the same time share the answer."""
        await asyncio.shield(self._start_refresh())

    def _start_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshed = self._loop.time()
            self._refreshing = self._start(self._load_owners())
        return self._refreshing

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work, name="dovetail-redis-cluster")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _load_owners(self) -> None:
        known = random.sample(self._nodes, min(len(self._nodes), _MAX_ASKED))
        seeds = [node for node in self._address.servers if node not in known]
        host, ranges = await first_success(self._ask(node) for node in [*known, *seeds[:_MAX_ASKED]])
        owners: list[Node | None] = [None] * SLOTS
        for start, end, master, *_ in ranges:
            # A node that does not know its own name leaves it out.
            name = master[0].decode() if master[0] not in {None, b"", b"?"} else host
            owners[start : end + 1] = [(name, int(master[1]))] * (end + 1 - start)
        self._owners = owners
        self._nodes = list({node for node in owners if node is not None})
        if not self._nodes:
            raise StoreUnavailable(f"The nodes of {self._address} have no slots; the cluster has not been created yet")
        for node in set(self._links).difference(self._nodes):
            self._start(self._links.pop(node).close(StoreUnavailable(f"{node[0]}:{node[1]} has left the cluster")))

    async def _ask(self, node: Node) -> tuple[str, Any]:
        link = self._link(node)
        try:
            return node[0], await link.call((b"CLUSTER", b"SLOTS"))
        except exceptions.ResponseError as problem:
            if "cluster support disabled" in str(problem):
                raise StoreUnusable(
                    f"Redis at {link.server} is not a node of a cluster; use a URL that starts with redis://"
                ) from None
            raise from_reply(problem, link.server) from None
