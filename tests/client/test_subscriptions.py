"""Hearing of changes: the same on every revision, whether they come unasked or have to be asked for."""

import asyncio
import time
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.auth.jwt import LEEWAY
from dovetail.auth.token_verification import Principal
from dovetail.client.subscriptions import MIN_SUBSCRIPTION_SECONDS, Change
from dovetail.protocol.errors import ConnectionLost, LocalError, RemoteError
from dovetail.protocol.revisions import NEWEST, REVISIONS
from tests.support.http import serving
from tests.support.peer import nothing_left, notification
from tests.support.scripted import SILENCE, legacy, modern
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)
CHANGED = "notifications/tools/list_changed"


def offering() -> Server:
    server = Server("s")
    server.tool(lambda: None, name="tool")
    server.prompt(lambda: "hello", name="prompt")
    server.resource("x://y")(lambda: "contents")
    return server


class Watcher:
    """Collects changes in a task of its own."""

    def __init__(self, changes: Any) -> None:
        self.seen: list[str] = []
        self._changes = changes
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async for change in self._changes:
            assert isinstance(change, Change)
            self.seen.append(change.kind)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class TestHearing:
    @EVERY
    async def test_what_is_added_and_removed_while_watching(self, name: str):
        server = offering()
        async with Client(server, revision=name) as client:
            watcher = Watcher(client.watch(tools=True, prompts=True, resources=True))
            await settled()
            server.tool(lambda: None, name="another")
            await until(lambda: watcher.seen == ["tools"])
            server.remove_prompt("prompt")
            await until(lambda: watcher.seen == ["tools", "prompts"])
            server.resource("x://{z}")(lambda z: z)
            await until(lambda: watcher.seen == ["tools", "prompts", "resources"])
            await watcher.stop()

    @EVERY
    async def test_only_what_was_asked_for(self, name: str):
        server = offering()
        async with Client(server, revision=name) as client:
            watcher = Watcher(client.watch(prompts=True))
            await settled()
            server.remove_tool("tool")
            server.remove_prompt("prompt")
            await until(lambda: watcher.seen)
            assert watcher.seen == ["prompts"]
            await watcher.stop()

    @EVERY
    async def test_several_may_watch(self, name: str):
        server = offering()
        async with Client(server, revision=name) as client:
            watchers = [Watcher(client.watch(tools=True)) for _ in range(3)]
            await settled()
            server.remove_tool("tool")
            await until(lambda: all(watcher.seen == ["tools"] for watcher in watchers))
            for watcher in watchers:
                await watcher.stop()

    @EVERY
    async def test_changes_that_pile_up_are_told_once(self, name: str):
        server = offering()
        async with Client(server, revision=name) as client:
            changes = client.watch(tools=True, prompts=True)
            first = asyncio.ensure_future(anext(changes))
            await settled()
            server.remove_tool("tool")
            assert (await first).kind == "tools"
            for n in range(5):
                server.tool(lambda: None, name=f"t{n}")
                await settled()
            server.remove_prompt("prompt")
            await settled()
            assert [(await anext(changes)).kind for _ in range(2)] == ["tools", "prompts"]
            following = asyncio.ensure_future(anext(changes))
            await settled()
            assert not following.done()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await changes.aclose()

    async def test_notifications_of_another_subscription_are_not_ours(self):
        """2026-07-28 subscriptions, "Receiving Notifications"."""
        server = modern(subscriptions_listen=SILENCE)
        async with Client(server) as client:
            watcher = Watcher(client.watch(tools=True))
            await until(lambda: "subscriptions/listen" in server.methods)
            id = server.asked[-1]["id"]
            for meta in ({}, {"io.modelcontextprotocol/subscriptionId": id + 1}):
                server.peer.send(notification(CHANGED, _meta=meta))
            await settled()
            assert watcher.seen == []
            server.peer.send(notification(CHANGED, _meta={"io.modelcontextprotocol/subscriptionId": id}))
            await until(lambda: watcher.seen == ["tools"])
            await watcher.stop()


async def test_whoever_watches_nothing_is_told_so_at_once():
    async with Client(offering()) as client:
        with pytest.raises(LocalError, match="There is nothing to watch"):
            client.watch()


class TestEnding:
    @EVERY
    async def test_who_stops_watching_leaves_nothing_behind(self, name: str):
        server = offering()
        async with Client(server, revision=name) as client:
            before = asyncio.all_tasks()
            watcher = Watcher(client.watch(tools=True))
            await settled()
            await watcher.stop()
            await nothing_left(before)
            server.remove_tool("tool")
            await settled()
            assert watcher.seen == []

    async def test_a_subscription_is_cancelled_at_the_server(self):
        server = modern(subscriptions_listen=SILENCE)
        async with Client(server) as client:
            watcher = Watcher(client.watch(tools=True))
            await until(lambda: "subscriptions/listen" in server.methods)
            assert server.asked[-1]["params"]["notifications"] == {"toolsListChanged": True}
            await watcher.stop()
            await settled()
            assert server.methods[-1] == "notifications/cancelled"

    @EVERY
    async def test_closing_the_client_ends_it(self, name: str):
        client = Client(offering(), revision=name)
        await client.open()
        watcher = Watcher(client.watch(tools=True))
        await settled()
        await client.close()
        with pytest.raises(ConnectionLost):
            await watcher.task

    async def test_a_server_that_goes_ends_it(self):
        for make in (legacy, modern):
            server = make(subscriptions_listen=SILENCE)
            async with Client(server) as client:
                watcher = Watcher(client.watch(tools=True))
                await settled()
                await server.peer.channel.close()
                with pytest.raises(ConnectionLost, match="the peer closed the connection"):
                    await watcher.task
                server.peer.disconnected(None)

    async def test_a_server_that_ends_the_subscription_gracefully_ends_it_without_an_error(self):
        go = asyncio.Event()

        async def listen(message: dict[str, Any]) -> Any:
            await go.wait()
            return {"resultType": "complete"}

        async with Client(modern(subscriptions_listen=listen)) as client:
            watcher = Watcher(client.watch(tools=True))
            await settled()
            go.set()
            await watcher.task

    async def test_a_server_that_has_no_subscriptions_says_so(self):
        async with Client(modern()) as client:
            with pytest.raises(RemoteError, match="Method not found"):
                await anext(client.watch(tools=True))

    async def test_a_watcher_that_is_cancelled_while_it_cleans_up_is_cancelled(self):
        async with Client(offering(), revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            await settled()
            watcher.task.cancel()
            await asyncio.sleep(0)
            watcher.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await watcher.task


class TestASubscriptionThatIsEnded:
    """Over HTTP a server ends one when its token has ended, and the client comes back with a newer one."""

    def tokens(self, seconds: float) -> Any:
        async def check(token: str) -> Principal:
            return Principal(subject="ada", expires_at=time.time() - LEEWAY + seconds)

        return check

    async def test_another_one_follows(self):
        server = Server("s", auth=self.tokens(MIN_SUBSCRIPTION_SECONDS + 0.2))
        server.tool(lambda: None, name="tool")
        async with serving(server.asgi()) as url, Client(f"{url}/mcp", auth="t", revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            await until(lambda: watcher.seen == ["tools"])  # what may have changed meanwhile is told
            server.tool(lambda: None, name="another")
            await until(lambda: len(watcher.seen) >= 2)
            await until(lambda: len(watcher.seen) >= 3)  # and once more
            assert not watcher.task.done()
            await watcher.stop()

    async def test_a_server_that_always_ends_them_at_once_is_left_alone(self):
        server = Server("s", auth=self.tokens(0))
        server.tool(lambda: None, name="tool")
        async with serving(server.asgi()) as url, Client(f"{url}/mcp", auth="t", revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            await watcher.task
            assert len(watcher.seen) <= 1

    async def test_with_its_server_it_ends(self):
        server = offering()
        app = server.asgi()
        async with serving(app) as url, Client(f"{url}/mcp", revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            for count in range(1000):
                server.tool(lambda: None, name=f"t{count}")
                await asyncio.sleep(0.01)
                if watcher.seen:
                    break
            app.stop()
            await watcher.task
