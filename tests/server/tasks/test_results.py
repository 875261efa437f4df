"""`tasks/result` of 2025-11-25, which waits for the end of a task."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dovetail import Client, RemoteError, Server
from dovetail.storage import SqliteStore
from tests.support.http import serving


class HeldStore(SqliteStore):
    """A store that can be told to hand out one value late: what was read is old when it arrives."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.hold_after: int | None = None
        self.holding = asyncio.Event()
        self.release = asyncio.Event()

    async def get(self, key: str) -> bytes | None:
        value = await super().get(key)
        if self.hold_after is not None and value is not None and key.startswith("task:"):
            self.hold_after -= 1
            if self.hold_after == 0:
                self.hold_after = None
                self.holding.set()
                await self.release.wait()
        return value


@pytest.mark.parametrize("reads", [1, 2])
async def test_a_cancellation_during_a_read_ends_the_wait(reads: int, tmp_path: Path) -> None:
    server = Server("slow")

    @server.tool(task="required")
    async def hold() -> None:
        await asyncio.sleep(3600)

    store = HeldStore(tmp_path / "tasks.db")
    async with (
        serving(server.asgi(store=store)) as url,
        Client(f"{url}/mcp", revision="2025-11-25") as client,
        Client(f"{url}/mcp", revision="2025-11-25") as other,
    ):
        task = await client.start("hold")
        store.hold_after = reads
        waiting = asyncio.ensure_future(client.request("tasks/result", {"taskId": task.id}))
        async with asyncio.timeout(10):
            await store.holding.wait()
            await other.request("tasks/cancel", {"taskId": task.id})
            store.release.set()
            with pytest.raises(RemoteError):
                await waiting
    await store.close()
