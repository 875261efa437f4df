"""Hearing of changes: the same on every revision, whether they come unasked or have to be asked for."""

import asyncio
import time
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.auth.jwt import LEEWAY
from dovetail.auth.token_verification import Principal
from dovetail.client.subscriptions import Change
from dovetail.protocol.errors import ConnectionLost, HttpStatus, LocalError, RemoteError
from dovetail.protocol.revisions import NEWEST, REVISIONS
from dovetail.transports import reconnection
from tests.client.site import legacy as legacy_site
from tests.client.targets.test_http import HANDSHAKE, nothing_remembered
from tests.support.http import serving
from tests.support.peer import nothing_left, notification
from tests.support.scripted import SILENCE, discovery, legacy, modern, welcome
from tests.support.waiting import settled, until
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer

__all__ = ["nothing_remembered"]

EVERY = pytest.mark.parametrize("name", REVISIONS)
CHANGED = "notifications/tools/list_changed"


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


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

    async def test_a_server_that_ends_each_subscription_unacknowledged_is_given_up(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(reconnection, "GIVE_UP_SECONDS", 0.5)
        server = modern(subscriptions_listen={"resultType": "complete"})
        async with Client(server) as client:
            watcher = Watcher(client.watch(tools=True))
            with pytest.raises(ConnectionLost, match="without an acknowledgment"):
                await watcher.task
        assert server.methods.count("subscriptions/listen") <= 3

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
        server = Server("s", auth=self.tokens(0.5))
        server.tool(lambda: None, name="tool")
        async with serving(server.asgi()) as url, Client(f"{url}/mcp", auth="t", revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            await until(lambda: watcher.seen == ["tools"])  # what may have changed meanwhile is told
            server.tool(lambda: None, name="another")
            await until(lambda: len(watcher.seen) >= 2)
            await until(lambda: len(watcher.seen) >= 3)  # and once more
            assert not watcher.task.done()
            await watcher.stop()

    async def test_a_server_that_always_ends_them_at_once_is_asked_ever_less_often(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(reconnection, "RECONNECT_BURST", 3)
        server = Server("s", auth=self.tokens(0))
        server.tool(lambda: None, name="tool")
        async with serving(server.asgi()) as url, Client(f"{url}/mcp", auth="t", revision=NEWEST.name) as client:
            watcher = Watcher(client.watch(tools=True))
            await until(lambda: watcher.seen)
            await asyncio.sleep(1)
            assert not watcher.task.done()
            assert len(watcher.seen) <= 5
            await watcher.stop()

    async def test_with_its_server_it_ends(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(reconnection, "GIVE_UP_SECONDS", 0.5)
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
            with pytest.raises((ConnectionLost, RemoteError)):
                await watcher.task


class TestABrokenStream:
    """Over HTTP `watch` goes on by itself, and tells what it may have missed."""

    @pytest.mark.parametrize("cut", [True, False], ids=["broken", "ended"])
    async def test_on_the_envelope_era_the_client_listens_again(self, cut: bool):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.message["method"] != "subscriptions/listen":
                await line.result(asked, discovery())
                return
            meta = {"io.modelcontextprotocol/subscriptionId": asked.id}
            await line.stream()
            accepted = {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
            await line.event(note("notifications/subscriptions/acknowledged", _meta=meta, notifications=accepted))
            if len(site.named("subscriptions/listen")) > 1:
                await line.event(note(CHANGED, _meta=meta))
                await line.until_gone()
            elif cut:
                line.cut()
            else:
                await line.event({"jsonrpc": "2.0", "id": asked.id, "result": {"resultType": "complete"}})
                line.end()

        async with ScriptedHttpServer(script) as site, Client(site.url, revision=NEWEST.name) as client:
            changes = client.watch("a://b", tools=True)
            seen = [await anext(changes) for _ in range(3)]
            await changes.aclose()
        assert seen == [Change("tools", missed=True), Change("resource", "a://b", missed=True), Change("tools")]

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_server_that_refuses_to_be_listened_to_again_is_an_error(self, status: int):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.message["method"] != "subscriptions/listen":
                await line.result(asked, discovery())
            elif len(site.named("subscriptions/listen")) > 1:
                await line.answer(status)
            else:
                meta = {"io.modelcontextprotocol/subscriptionId": asked.id}
                await line.stream()
                await line.event(note("notifications/subscriptions/acknowledged", _meta=meta, notifications={}))
                line.cut()

        async with ScriptedHttpServer(script) as site, Client(site.url, revision=NEWEST.name, auth="t") as client:
            with pytest.raises(HttpStatus) as raised:
                await anext(client.watch(tools=True))
        assert raised.value.status == status

    @pytest.mark.parametrize("ids", [True, False], ids=["resumable", "not resumable"])
    async def test_on_the_handshake_era_only_a_stream_without_event_ids_misses_changes(self, ids: bool):
        gets = 0

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            nonlocal gets
            if asked.method == "POST":
                if "id" not in asked.message:
                    await line.answer(202)
                else:
                    await line.result(asked, welcome() if asked.message["method"] == "initialize" else {})
                return
            gets += 1
            await line.stream()
            await line.event(note(CHANGED), id=f"e{gets}" if ids else None)
            if gets == 1:
                await until(lambda: len(seen) == 1)
                line.cut()
            else:
                await line.until_gone()

        seen: list[Change] = []
        async with ScriptedHttpServer(script) as site, Client(site.url, revision=HANDSHAKE) as client:
            changes = client.watch(tools=True)
            watching = asyncio.ensure_future(_collect(changes, seen, 2 if ids else 3))
            await watching
            await changes.aclose()
        if ids:
            assert seen == [Change("tools")] * 2
        else:
            assert sorted(change.missed for change in seen) == [False, False, True]

    async def test_after_another_session_was_begun_it_subscribes_again(self):
        answers: dict[str, Any] = {"resources_subscribe": {}, "resources_unsubscribe": {}, "ping": {}}
        async with legacy_site(listen=True, **answers) as site, Client(site.url, revision=HANDSHAKE) as client:
            changes = client.watch("a://b")
            following = asyncio.ensure_future(anext(changes))
            await site.until(lambda: site.named("resources/subscribe"))
            site.session += 1  # the server has forgotten the session
            await client.ping()
            assert await following == Change("resource", "a://b", missed=True)
            assert site.methods.count("initialize") == 2
            assert site.methods.count("resources/subscribe") == 2
            await changes.aclose()

    async def test_a_session_that_ends_while_nothing_is_called_is_begun_anew_by_the_watcher(self):
        gets = 0

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            nonlocal gets
            if asked.method == "GET":
                gets += 1
                if gets == 2:
                    await line.answer(404)
                    return
                await line.stream()
                if gets == 1:
                    await site.until(lambda: site.named("resources/subscribe"))
                    line.end()
                else:
                    await line.until_gone()
            elif asked.method == "DELETE" or "id" not in asked.message:
                await line.answer(202)
            elif asked.message["method"] == "initialize":
                await line.result(asked, welcome(), mcp_session_id=f"s{gets}")
            else:
                await line.result(asked)

        async with ScriptedHttpServer(script) as site, Client(site.url, revision=HANDSHAKE) as client:
            changes = client.watch("a://b")
            assert await anext(changes) == Change("resource", "a://b", missed=True)
            assert len(site.named("initialize")) == 2
            assert len(site.named("resources/subscribe")) == 2
            await changes.aclose()


async def _collect(changes: Any, seen: list[Change], count: int) -> None:
    while len(seen) < count:
        seen.append(await anext(changes))
