"""Subscriptions to resources through a gateway: each subscriber hears of updates for as long as it wants to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Gateway, RemoteError, Server
from dovetail.gateway import ServerSettings
from dovetail.gateway.servers import resource_subscriptions
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.transports.reconnection import Reconnection
from tests.gateway.test_restarts import WebServer, touch, until, watching
from tests.support.waiting import settled

HANDSHAKE, ENVELOPE = "2025-11-25", "2026-07-28"
ERAS = [HANDSHAKE, ENVELOPE]
THING = "thing://one"
SUBSCRIBING = ("resources/subscribe", "subscriptions/listen")


class Thing:
    """A server with a resource; it notes what it is asked, and may be slow to accept a subscription."""

    def __init__(self, revision: str = HANDSHAKE) -> None:
        self.server = Server("thing", version="1", revisions=[revision])
        self.server.use(self._note)
        self.server.resource(THING)(self.read)
        self.server.tool(self.touch)
        self.asked: list[str] = []
        self.accepts = asyncio.Event()
        self.accepts.set()

    def read(self) -> str:
        """The resource."""
        return "one"

    def touch(self) -> int:
        """Update the resource."""
        self.server.notify_resource_updated(THING)
        return 0

    async def _note(self, exchange: Exchange, proceed: Proceed) -> Any:
        self.asked.append(exchange.method)
        is_list_watch = "resourceSubscriptions" not in str(exchange.params) and exchange.method == SUBSCRIBING[1]
        if exchange.method in SUBSCRIBING and not is_list_watch:
            await self.accepts.wait()
        return await proceed(exchange)

    @property
    def subscriptions(self) -> int:
        """How often it was subscribed to."""
        return self.asked.count("resources/subscribe")


class Updates:
    """The trace of a client: the updates that it has received."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.acknowledged: list[str] = []

    def __call__(self, direction: str, data: bytes) -> None:
        if b"notifications/resources/updated" in data:
            self.lines.append(data.decode())
        elif b"subscriptions/acknowledged" in data:
            self.acknowledged.append(data.decode())


async def subscribe(client: Client, uri: str = THING) -> None:
    """Subscribe as clients of the handshake era do."""
    await client.request("resources/subscribe", {"uri": uri})


async def hears(client: Client, told: list[str]) -> None:
    """Update the resource until the update is heard."""
    told.clear()
    async with asyncio.timeout(10):
        while not told:
            await touch(client)
            await settled()


async def test_two_sessions_that_subscribe_at_once_over_a_shared_connection_both_hear() -> None:
    thing = Thing()
    thing.accepts.clear()
    gateway = Gateway({"s": thing.server}, settings={"s": ServerSettings(shared=True)})
    ann, bob = Updates(), Updates()
    async with (
        Client(gateway, revision=HANDSHAKE, timeout=10, trace=ann) as one,
        Client(gateway, revision=HANDSHAKE, timeout=10, trace=bob) as other,
    ):
        await one.tools()
        await other.tools()
        subscribing = asyncio.gather(subscribe(one), subscribe(other))
        await until(lambda: thing.subscriptions > 0)
        await settled()
        thing.accepts.set()
        await subscribing
        await one.call("s__touch")
        await until(lambda: bool(ann.lines and bob.lines))
        assert thing.subscriptions == 1
    await gateway.close()


async def test_a_refused_subscription_is_refused_for_all_who_wait_for_it() -> None:
    server = Server("refusing", version="1", revisions=[HANDSHAKE])
    server.resource(THING)(lambda: "one")
    asked = asyncio.Event()

    async def refuse(exchange: Exchange, proceed: Proceed) -> Any:
        if exchange.method == "resources/subscribe":
            await asked.wait()
            raise RemoteError(-32603, "not today")
        return await proceed(exchange)

    server.use(refuse)
    gateway = Gateway({"s": server}, settings={"s": ServerSettings(shared=True)})
    async with (
        Client(gateway, revision=HANDSHAKE, timeout=10) as one,
        Client(gateway, revision=HANDSHAKE, timeout=10) as other,
    ):
        subscribing = asyncio.gather(subscribe(one), subscribe(other), return_exceptions=True)
        await settled()
        asked.set()
        assert [type(problem) for problem in await subscribing] == [RemoteError, RemoteError]
    await gateway.close()


@pytest.mark.parametrize("front", ERAS)
async def test_a_subscription_ends_although_its_uri_has_become_ambiguous(front: str) -> None:
    thing, other = Thing(), Thing()
    gateway = Gateway({"s": thing.server})
    async with Client(gateway, revision=front, timeout=10) as client:
        async with watching(client, THING) as told:
            await hears(client, told)
            await gateway.update({"s": thing.server, "other": other.server})
            await client.resources()
            with pytest.raises(RemoteError, match="Several servers have"):
                await client.read(THING)
        await until(lambda: "resources/unsubscribe" in thing.asked)
    await gateway.close()


@pytest.mark.parametrize("back", ERAS)
async def test_the_end_of_one_listen_does_not_end_another_of_the_same_client(back: str) -> None:
    gateway = Gateway({"s": Thing(back).server})
    async with Client(gateway, revision=ENVELOPE, timeout=10) as client, watching(client, THING) as told:
        async with watching(client, THING) as others:
            await hears(client, told)
            await hears(client, others)
        await client.tools()  # after the message that ends the other
        await hears(client, told)
    await gateway.close()


async def test_a_session_that_knows_a_resource_by_two_uris_hears_of_both() -> None:
    thing, updates = Thing(), Updates()
    gateway = Gateway({"s": thing.server})
    async with Client(gateway, revision=HANDSHAKE, timeout=10, trace=updates) as client:
        await subscribe(client)
        await subscribe(client, f"gateway:s:{THING}")
        await client.call("s__touch")
        await until(lambda: len(updates.lines) == 2)
        assert thing.subscriptions == 1
        await client.request("resources/unsubscribe", {"uri": f"gateway:s:{THING}"})
        updates.lines.clear()
        await client.call("s__touch")
        await until(lambda: len(updates.lines) == 1)
    await gateway.close()


@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("back", ["2025-06-18", ENVELOPE])
async def test_a_long_outage_of_a_server_over_http_ends_no_subscription(
    front: str, back: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[float] = []

    def give_up(self: Reconnection, now: float, *, retry: float | None = None) -> float | None:
        given_up.append(now)
        return None

    monkeypatch.setattr(Reconnection, "after_failure", give_up)
    monkeypatch.setattr(resource_subscriptions, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(resource_subscriptions, "MAX_PAUSE", 0.2)
    server = WebServer(back, tmp_path)
    await server.start()
    gateway = Gateway({"s": server.target})
    try:
        async with (
            Client(gateway, revision=front, timeout=20) as client,
            watching(client, THING) as told,
            watching(client, tools=True) as lists,
        ):
            await hears(client, told)
            server.kill()
            # The watch of the lists and that of the resource; or the stream of the session and that of the resource.
            await until(lambda: len(given_up) >= 2)
            told.clear()
            lists.clear()
            await server.start("second")
            await until(lambda: THING in told)  # nobody has updated it, but it may have changed
            await hears(client, told)
            if back == ENVELOPE:
                await until(lambda: "tools" in lists)
    finally:
        server.kill()
        await gateway.close()


@pytest.mark.parametrize("back", ERAS)
async def test_a_server_that_does_not_answer_a_subscription_is_named(back: str) -> None:
    hanging, thing = Thing(back), Thing(back)
    hanging.accepts.clear()
    gateway = Gateway({"h": hanging.server, "s": thing.server}, settings={"h": ServerSettings(timeout=0.3)})
    async with Client(gateway, revision=HANDSHAKE, timeout=10) as client:
        with pytest.raises(RemoteError, match="The server 'h' gave no answer"):
            await subscribe(client, f"gateway:h:{THING}")
    assert gateway.status["servers"]["h"]["failures"] == 1
    await gateway.close()


@pytest.mark.parametrize("back", ERAS)
async def test_a_server_that_does_not_answer_does_not_end_the_subscription_to_another(back: str) -> None:
    hanging, thing, updates = Thing(back), Thing(back), Updates()
    hanging.accepts.clear()
    gateway = Gateway({"h": hanging.server, "s": thing.server}, settings={"h": ServerSettings(timeout=0.3)})
    async with Client(gateway, revision=ENVELOPE, timeout=10, trace=updates) as client:
        with pytest.raises(RemoteError, match=f"does not tell of changes of gateway:h:{THING}"):
            await anext(client.watch(f"gateway:h:{THING}", f"gateway:s:{THING}"))
        assert f"gateway:s:{THING}" in updates.acknowledged[0]
    await gateway.close()


@pytest.mark.parametrize("front", ERAS)
async def test_subscriptions_go_on_when_a_server_was_removed_and_is_added_again(front: str) -> None:
    uri = f"gateway:s:{THING}"
    gateway = Gateway({"s": Thing().server})
    async with Client(gateway, revision=front, timeout=10) as client, watching(client, uri) as told:
        await hears(client, told)
        told.clear()
        await gateway.update({})
        await until(lambda: uri in told)
        with pytest.raises(RemoteError, match="not found"):
            await client.read(uri)
        told.clear()
        await gateway.update({"s": Thing().server})
        await until(lambda: uri in told)
        await hears(client, told)
    await gateway.close()


async def test_a_subscription_that_was_ended_meanwhile_is_not_made_again() -> None:
    uri, again = f"gateway:s:{THING}", Thing()
    gateway = Gateway({"s": Thing().server})
    async with Client(gateway, revision=HANDSHAKE, timeout=10) as client:
        await subscribe(client, uri)
        await gateway.update({})
        await client.request("resources/unsubscribe", {"uri": uri})
        await gateway.update({"s": again.server})
        assert (await client.call("s__touch")).data == 0
        await settled()
        assert again.subscriptions == 0
    await gateway.close()
