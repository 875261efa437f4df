"""Resources that a client watches: its own, and those below."""

import asyncio
import contextlib
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.protocol.errors import NotFound
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, REVISIONS
from dovetail.server.features import subscriptions as subscriptions_module
from tests.support.served import served
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)
EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)
EACH_ENVELOPE = pytest.mark.parametrize("name", ENVELOPE)
UPDATED = "notifications/resources/updated"
ID = "io.modelcontextprotocol/subscriptionId"


def files() -> Server:
    server = Server("s")
    server.tool(lambda: 1, name="t")
    server.resource("file:///project/readme")(lambda: "x")
    server.resource("repo://{owner}/{path*}")(lambda owner, path: "x")
    return server


class Watcher:
    def __init__(self, client: Client, *uris: str, **kinds: bool) -> None:
        self.seen: list[str] = []
        self._changes = client.watch(*uris, **kinds)
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async with contextlib.aclosing(self._changes) as changes:
            async for change in changes:
                self.seen.append(change.uri or change.kind)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class TestHearing:
    @EVERY
    async def test_a_resource_and_those_below_it_and_no_others(self, name: str):
        server = files()
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "file:///project", "repo://ada/engine")
            await settled(50)
            for uri in ("file:///projects", "file:///project/readme", "repo://ada/engine/x", "repo://ada/other"):
                server.notify_resource_updated(uri)
            await until(lambda: len(watcher.seen) == 2)
            await client.ping()
            assert watcher.seen == ["file:///project/readme", "repo://ada/engine/x"]
            await watcher.stop()
            server.notify_resource_updated("file:///project")
            await client.ping()
            assert len(watcher.seen) == 2

    @EVERY
    async def test_together_with_lists(self, name: str):
        server = files()
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "file:///project/readme", tools=True)
            await settled(50)
            server.notify_tools_changed()
            server.notify_prompts_changed()
            server.notify_resources_changed()
            server.notify_resource_updated("file:///project/readme")
            await until(lambda: watcher.seen == ["tools", "file:///project/readme"])
            await watcher.stop()

    @EVERY
    async def test_several_watchers_of_one_resource(self, name: str):
        server = files()
        async with Client(server, revision=name) as client:
            first, second = (Watcher(client, "file:///project/readme") for _ in range(2))
            await settled(50)
            server.notify_resource_updated("file:///project/readme")
            await until(lambda: first.seen and second.seen)
            await first.stop()
            server.notify_resource_updated("file:///project/readme")
            await until(lambda: len(second.seen) == 2)
            await second.stop()
            assert len(first.seen) == 1

    @EVERY
    async def test_from_any_thread(self, name: str):
        server = files()
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "file:///project/readme")
            await settled(50)
            await asyncio.to_thread(server.notify_resource_updated, "file:///project/readme")
            await until(lambda: watcher.seen)
            await watcher.stop()

    @EVERY
    async def test_what_is_not_there_cannot_be_watched(self, name: str):
        async with Client(files(), revision=name) as client:
            with pytest.raises(NotFound, match="nowhere://at-all") as error:
                await anext(client.watch("file:///project/readme", "nowhere://at-all"))
            assert error.value.code == REVISIONS[name].not_found_code


class TestHandshake:
    @EACH_HANDSHAKE
    async def test_subscribing_and_unsubscribing(self, name: str):
        server = files()
        async with served(server, name) as caller:
            for _ in range(2):
                assert await caller.result("resources/subscribe", uri="file:///project/readme") == {}
            server.notify_resource_updated("file:///project/readme")
            assert await caller.hear(UPDATED) == {"uri": "file:///project/readme"}
            assert await caller.result("resources/unsubscribe", uri="file:///project/readme") == {}
            assert await caller.result("resources/unsubscribe", uri="file:///project/readme") == {}
            server.notify_resource_updated("file:///project/readme")
            await caller.result("ping")
            assert caller.heard == []

    @EACH_HANDSHAKE
    async def test_a_resource_that_there_is_not(self, name: str):
        async with served(files(), name) as caller:
            refusal = await caller.refusal("resources/subscribe", uri="file:///nowhere")
            assert (refusal["code"], refusal["data"]) == (-32002, {"uri": "file:///nowhere"})

    @EACH_HANDSHAKE
    async def test_there_is_a_bound(self, name: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(subscriptions_module, "MAX_SUBSCRIBED", 2)
        async with served(files(), name) as caller:
            for path in "ab":
                await caller.result("resources/subscribe", uri=f"repo://ada/{path}")
            assert (await caller.refusal("resources/subscribe", uri="repo://ada/c"))["code"] == -32602
            await caller.result("resources/unsubscribe", uri="repo://ada/a")
            await caller.result("resources/subscribe", uri="repo://ada/c")


class TestEnvelope:
    @EACH_ENVELOPE
    async def test_every_subscription_hears_for_itself(self, name: str):
        server = files()
        async with served(server, name) as caller:
            ids: list[Any] = []
            for uris in (["file:///project"], ["file:///project/readme", "nowhere://x"], ["repo://ada/x"]):
                ids.append(caller.begin("subscriptions/listen", notifications={"resourceSubscriptions": uris}))
                told = await caller.hear("notifications/subscriptions/acknowledged")
                assert told["notifications"] == {"resourceSubscriptions": [uri for uri in uris if "nowhere" not in uri]}
            server.notify_resource_updated("file:///project/readme")
            for id in ids[:2]:
                assert await caller.hear(UPDATED) == {"uri": "file:///project/readme", "_meta": {ID: id}}
            await caller.result("server/discover")
            assert caller.heard == []

    @EACH_ENVELOPE
    async def test_there_is_no_subscribe_any_more(self, name: str):
        async with served(files(), name) as caller:
            assert (await caller.refusal("resources/subscribe", uri="file:///project"))["code"] == -32601


def vault(**options: Any) -> Server:
    """A server with a public file, a secret one and a template of secret ones, all below `files:///`."""
    server = Server("vault", **options)
    server.resource("files:///public/readme")(lambda: "x")
    server.resource("files:///secret-plan")(lambda: "x")
    server.resource("files:///secret/{name}")(lambda name: name)
    return server


def no_secrets(principal: str | None, kind: str, name: str) -> bool:
    return "secret" not in name


@pytest.mark.attack("M5")
class TestVisibility:
    HIDDEN = ("files:///secret-plan", "files:///secret/ann-salary.xlsx", "files:///not-registered-secret")

    @EVERY
    async def test_a_subscriber_of_a_folder_is_told_only_of_resources_visible_to_it(self, name: str):
        server = vault(visible=no_secrets)
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "files:///")
            await settled(50)
            for uri in (*self.HIDDEN, "files:///public/readme"):
                server.notify_resource_updated(uri)
            await until(lambda: watcher.seen)
            await client.ping()
            assert watcher.seen == ["files:///public/readme"]
            await watcher.stop()

    @EVERY
    async def test_a_mounted_server_tells_only_of_resources_that_the_outer_one_shows(self, name: str):
        inner, server = vault(), Server("outer", visible=no_secrets)
        server.mount(inner)
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "files:///")
            await settled(50)
            for uri in (*self.HIDDEN, "files:///public/readme"):
                inner.notify_resource_updated(uri)
            await until(lambda: watcher.seen)
            await client.ping()
            assert watcher.seen == ["files:///public/readme"]
            await watcher.stop()

    @EVERY
    async def test_a_resource_that_is_hidden_after_subscribing_is_not_told_of_any_more(self, name: str):
        hidden: set[str] = set()
        server = vault(visible=lambda principal, kind, key: key not in hidden)
        async with Client(server, revision=name) as client:
            watcher = Watcher(client, "files:///secret-plan", "files:///public/readme")
            await settled(50)
            hidden.add("files:///secret-plan")
            for uri in ("files:///secret-plan", "files:///public/readme"):
                server.notify_resource_updated(uri)
            await until(lambda: watcher.seen)
            await client.ping()
            assert watcher.seen == ["files:///public/readme"]
            await watcher.stop()


class TestFlow:
    async def test_a_client_that_does_not_read_hears_of_what_it_watches_in_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        """More updates than are remembered: then the resource that is watched stands for those below it."""
        monkeypatch.setattr(subscriptions_module, "MAX_UNSENT", 3)
        server = files()
        async with served(server, HANDSHAKE[-1]) as caller:
            await caller.result("resources/subscribe", uri="repo://ada")
            for number in range(10):
                server.notify_resource_updated(f"repo://ada/{number}")
            told = [(await caller.hear(UPDATED))["uri"] for _ in range(4)]
            assert told == ["repo://ada/0", "repo://ada/1", "repo://ada/2", "repo://ada"]
            await caller.result("ping")
            assert caller.heard == []
