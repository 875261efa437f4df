"""The flooding server in a process of its own; with DOVETAIL_REPLICAS, so many of them over Redis and behind nginx."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.http import Program, serving_program
from tests.support.raw import memory
from tests.support.raw_http import Answer, Event, Site
from tests.support.redis_server import redis_server
from tests.support.replica_group import REPLICAS, behind_nginx

FLOOD = Path(__file__).parent / "servers" / "http_flood.py"


class Flood:
    """The processes, and an address at which any of them may answer."""

    def __init__(self, stack: ExitStack, store: str | None) -> None:
        self._stack = stack
        self._store = store
        self.programs: list[Program] = []
        self.url = ""

    @property
    def pids(self) -> list[int]:
        return [program.process.pid for program in self.programs]

    def start(self) -> None:
        """Start as many as there are to be, with one store; a single one gets another address each time."""
        arguments = [] if self._store is None else [self._store]
        while len(self.programs) < (REPLICAS or 1):
            self.programs.append(self._stack.enter_context(serving_program(FLOOD, *arguments)))
        if not REPLICAS:
            self.url = self.programs[0].url
        elif not self.url:
            self.url = self._stack.enter_context(behind_nginx([program.url for program in self.programs])).url

    def kill(self, pid: int) -> None:
        """Kill a process; a single one is replaced, and with replicas the others go on."""
        (program,) = [program for program in self.programs if program.process.pid == pid]
        program.kill()
        self.programs.remove(program)
        if not self.programs:
            self.start()

    def memory(self, kind: str = "VmRSS") -> float:
        """The memory of all processes in MB."""
        return sum(memory(pid, kind) for pid in self.pids)

    async def how_far(self) -> dict[str, Any]:
        """The number of messages of the newest call, and the tools that have ended."""
        told, ended = 0, []
        for program in self.programs:
            async with Site(program.url) as site:
                far = (await (await site.call("how_far")).json())["result"]["structuredContent"]
            told, ended = max(told, far["told"]), ended + far["ended"]
        return {"told": told, "ended": ended}


@asynccontextmanager
async def flooding(*, stored: bool = False) -> AsyncIterator[tuple[Flood, Site]]:
    """Run it, with a store that outlives a process if `stored`; replicas always have one."""
    with ExitStack() as stack:
        store = None
        if stored or REPLICAS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dovetail-flood-")))
            store = stack.enter_context(redis_server(folder)).url if REPLICAS else str(folder / "sessions.db")
        flood = Flood(stack, store)
        flood.start()
        async with AsyncExitStack() as sites:
            yield flood, await sites.enter_async_context(Site(flood.url))


async def first_of(answer: Answer) -> Event:
    """The first event that holds a message."""
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


def process_of(event: Event) -> int:
    """The process that has reported this progress."""
    return int(event.message["params"]["message"])
