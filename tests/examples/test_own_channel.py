"""examples/own_channel.py: a client and a server meet over a channel that Dovetail knows nothing of."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from dovetail import Client, ConnectionLost, Context, Server
from examples import own_channel
from examples.own_channel import MANY, Messages, QueueChannel
from tests.support.peer import nothing_left
from tests.support.waiting import settled, until
from tests.transports.collector import Collector


@contextlib.asynccontextmanager
async def connected(server: Server, revision: str | None = None) -> AsyncIterator[tuple[Client, asyncio.Task[None]]]:
    """A client, and the task that serves it; at the end no task is left."""
    before = asyncio.all_tasks()
    there, back = Messages(), Messages()
    serving = asyncio.create_task(server.serve(QueueChannel(there, back)))
    async with Client(QueueChannel(back, there), revision=revision) as client:
        yield client, serving
    await asyncio.wait({serving})
    await nothing_left(before)


async def test_it_works_on_every_revision(revision: str) -> None:
    async with connected(own_channel.server, revision) as (client, _):
        assert (await client.call("shout", text="hello")).data == "HELLO"
        shouts = [client.call("shout", text=str(n)) for n in range(3 * MANY)]
        assert [result.data for result in await asyncio.gather(*shouts)] == [str(n) for n in range(3 * MANY)]


async def test_progress_passes_through_the_channel(revision: str) -> None:
    server, seen = Server("s"), list[float]()

    @server.tool
    async def count(ctx: Context) -> str:
        for n in range(5):
            await ctx.progress(n, 5)
        return "done"

    async with connected(server, revision) as (client, _):
        result = await client.call("count", progress=lambda done, total, message: seen.append(done))
        assert result.data == "done"
    assert seen == [0, 1, 2, 3, 4]


async def test_a_server_that_stops_is_gone() -> None:
    server = Server("s")

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    async with connected(server) as (client, serving):
        call = asyncio.create_task(client.call("wait"))
        await settled()
        serving.cancel()
        with pytest.raises(ConnectionLost, match="the other end closed the channel"):
            await call


async def test_an_end_that_does_not_read_congests_the_other() -> None:
    there, back = Messages(), Messages()
    ours, theirs, seen = QueueChannel(back, there), QueueChannel(there, back), Collector()
    theirs.open(seen)
    theirs.pause()
    await settled()
    for n in range(MANY + 2):
        ours.send(b"%d" % n)
    await settled()
    assert ours.congested
    draining = asyncio.create_task(ours.drained())
    await settled()
    assert not draining.done()
    theirs.resume()
    await draining
    assert seen.lines == [b"%d" % n for n in range(MANY + 2)]
    await ours.close()
    await seen.end()


async def test_a_closed_end_releases_all_waiters() -> None:
    there, back = Messages(), Messages()
    ours, theirs = QueueChannel(back, there), QueueChannel(there, back)
    for _ in range(MANY + 1):
        ours.send(b"x")
    draining = asyncio.create_task(ours.drained())
    await settled()
    await theirs.close()
    await until(draining.done)


async def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    await own_channel.main()
    assert capsys.readouterr().out == "HELLO\n"
