"""What there is over HTTP only: finding the transport, sessions, and everybody on one application at once."""

import asyncio
import contextlib
import json

import pytest

from dovetail import Client, ConnectionLost
from dovetail.client import negotiation
from dovetail.protocol.errors import HttpStatus
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from tests.matrix import everything
from tests.matrix.connections import (
    WAYS,
    Address,
    Ground,
    Transport,
    connected,
    era,
    new_oracle,
    on_handshake,
    reached,
    setting,
    target,
    wired,
)
from tests.matrix.odd_servers import SERVERS
from tests.support.oracle import Oracle
from tests.support.raw_servers import RawHttpServer

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
WEB: tuple[Transport, ...] = ("http", "sse", "websocket")


def said(oracle: Oracle) -> list[str | None]:
    return [message.method for message in oracle.sent_by("client")]


async def test_a_server_of_http_and_sse_is_found_when_all_else_was_refused_and_remembered() -> None:
    handshake = ["initialize", "notifications/initialized"]
    async with reached(target("sse")) as address:
        negotiation.SHARED_ERAS.forget(("url", address.where))
        for expected in (["server/discover", "initialize", *handshake], handshake):
            made = setting(Address(address.where), None)
            async with made.client as client:
                assert client.revision == HANDSHAKE[-1]
                assert said(made.oracle) == expected
            made.oracle.forgive("was used before")  # each way of trying counts anew
            made.verdict()


@on_handshake
async def test_a_pinned_revision_is_found_over_http_and_sse_too(revision: str) -> None:
    async with reached(target("sse")) as address:
        negotiation.SHARED_ERAS.forget(("url", address.where))
        made = setting(Address(address.where), revision)
        async with made.client as client:
            assert (await client.call("who")).data["revision"] == revision
            assert said(made.oracle)[:2] == ["initialize", "initialize"]
        made.oracle.forgive("was used before")
        made.verdict()


async def test_a_server_that_has_left_http_and_sse_is_found_again(revision: str) -> None:
    async with reached(target("http")) as address:
        negotiation.SHARED_ERAS.remember(("url", address.where), "sse")
        made = setting(address, revision)
        async with made.client as client:
            assert (await client.call("add", a=1, b=2)).data == 3
        made.verdict()


async def test_the_newest_revision_is_not_spoken_over_http_and_sse() -> None:
    """Remembered or not: the handshake cannot agree on it."""
    async with reached(target("sse")) as (where, *_):
        for _ in range(2):
            with pytest.raises((ConnectionLost, HttpStatus), match="2026-07-28"):
                await setting(Address(where), "2026-07-28").client.open()
            negotiation.SHARED_ERAS.forget(("url", where))


@on_handshake
async def test_without_a_session_only_a_handshake_is_served(revision: str) -> None:
    async with wired(target("http"), revision, greet=False) as (wire, _):
        for method in ("ping", "tools/list"):
            assert (await wire.ask(method))["error"]["code"] == -32600
        assert (await wire.shake_hands(revision))["protocolVersion"] == revision
        assert "result" in await wire.ask("tools/list")


@on_handshake
async def test_every_handshake_begins_a_session_of_its_own(revision: str) -> None:
    """Where there is one connection, a second handshake on it is refused."""
    async with (
        reached(target("http")) as address,
        wired(address.where, revision) as (first, _),
        wired(address.where, HANDSHAKE[0]) as (second, _),
    ):
        for wire, expected in ((first, revision), (second, HANDSHAKE[0]), (first, revision)):
            known = (await wire.call("who"))["result"]["content"][0]["text"]
            assert json.loads(known)["revision"] == expected


@on_handshake
async def test_a_client_that_leaves_ends_its_session(revision: str) -> None:
    server, oracle = RawHttpServer(SERVERS["circular"]), new_oracle(judge={"client"})
    async with server.listening() as where:
        async with Client(f"http://{where}/mcp", revision=revision, trace=oracle) as client:
            assert client.revision == revision
        assert server.ended_sessions == ["odd-session"]
    oracle.verdict()


@pytest.mark.parametrize("transport", WEB)
async def test_the_oracle_at_the_door_sees_what_the_client_sees(transport: Transport, revision: str) -> None:
    """So nothing goes by unseen, in either direction; an answer of the client's may arrive after its call has ended."""
    async with connected(target(transport), revision) as made:
        client, notes = made.client, made.notes
        await client.call("count", steps=3, progress=lambda *_: None)
        await client.tools()
        client.notify("notifications/notes/touched", {"text": "seen"})
        await client.call("happened", event="touched seen")
        if era(revision) == "handshake":
            notes.events["all there"].set()
            await client.call("ask", method="notes/approve", times=2)
        await client.request("notes/add", {"text": "milk"})
        assert made.edge is not None
        inside, outside = (
            sorted(f"{message.sender} {json.dumps(message.body, sort_keys=True)}" for message in oracle.messages)
            for oracle in (made.oracle, made.edge)
        )
        assert inside == outside
        assert len(inside) > 15


async def test_a_change_is_told_to_everybody_whatever_they_speak_and_however_they_came() -> None:
    """One application on one port, a client of each revision over each transport."""
    app = everything.build().asgi()
    async with contextlib.AsyncExitStack() as stack:
        where = stack.enter_context(Ground.applications.mounted(app))
        stack.push_async_callback(app.close, 0)
        heard: list[asyncio.Task[str]] = []
        for transport in WEB:
            url = ("ws:" if transport == "websocket" else "http:") + where + WAYS[transport].path
            for revision in WAYS[transport].revisions:
                made = await stack.enter_async_context(connected(url, revision))
                made.oracle.forgive("was used before")  # over HTTP+SSE, by the attempt before it
                heard.append(asyncio.create_task(first_change(made.client)))
                if era(revision) == "envelope":
                    oracle = made.oracle
                    await oracle.until(lambda oracle=oracle: oracle.sent_by("server", ACKNOWLEDGED))
        assert len(heard) == 2 * len(REVISIONS) + len(HANDSHAKE)
        changer = await stack.enter_async_context(connected(f"http:{where}/mcp", "2026-07-28"))
        await changer.client.call("offer", kind="tool", name="shared")
        assert await asyncio.gather(*heard) == ["tools"] * len(heard)


async def first_change(client: Client) -> str:
    async with contextlib.aclosing(client.watch(tools=True)) as changes:
        return (await anext(changes)).kind
