"""Attacks on what belongs to somebody else: sessions, streams and states whose ids an attacker knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.auth.verifiers import StaticTokens
from tests.support.http import serving
from tests.support.raw_http import EVENTS, SESSIONS, Session, Site, initialize, request, text_of

VICTIM, ATTACKER = ({"Authorization": f"Bearer {name}"} for name in ("victim", "attacker"))


def make() -> Server:
    server = Server("s", auth=StaticTokens({"victim": "vera", "attacker": "mallory"}))

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal}"

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?")
        return f"{ctx.principal}: {answer.accepted}"

    server.resource("a://b")(lambda: "x")
    return server


def be(site: Site, who: dict[str, str]) -> None:
    site.usual = list(who.items())


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_session_of_somebody_else_is_not_there(revision: str) -> None:
    server = make()
    async with serving(server.asgi(always_stream=True)) as url, Site(url) as site:
        be(site, VICTIM)
        session = await site.session(revision)
        stream = await session.get()
        first = (await (await session.call("who")).all())[0].id
        be(site, ATTACKER)
        forged = [
            await session.call("who"),
            await session.ask("tools/list"),
            await session.get(),
            await session.get(first),
            await session.delete(),
            await session.post({"jsonrpc": "2.0", "id": 1, "result": {}}),
            await session.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        ]
        assert [answer.status for answer in forged] == [404] * len(forged)
        bodies = [await answer.body() for answer in forged]
        assert all(b"vera" not in body for body in bodies)
        gone = await Session(site, revision, "0" * 32).call("who")
        assert await gone.error() == json.loads(bodies[0])["error"], "nobody learns that there is such a session"
        be(site, VICTIM)
        assert text_of(await (await session.call("who")).answer()) == "vera"
        server.tool(lambda: 1, name="new")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_session_that_an_attacker_knows_is_useless_to_the_attacker() -> None:
    """An attacker has a victim use a session that the attacker knows."""
    async with serving(make().asgi()) as url, Site(url) as site:
        be(site, ATTACKER)
        prepared = await site.session("2025-11-25")
        be(site, VICTIM)
        assert (await prepared.call("who")).status == 404
        for chosen in ("chosen-by-the-attacker", prepared.id):
            begun = await site.post(initialize("2025-11-25"), {"Mcp-Session-Id": chosen})
            given = begun.headers.get("mcp-session-id")
            assert given != chosen and (begun.status == 200) == (given is not None)


async def test_ids_cannot_be_guessed() -> None:
    async with serving(make().asgi()) as url, Site(url) as site:
        be(site, VICTIM)
        ids = {(await site.session("2025-11-25")).id for _ in range(20)}
        assert len(ids) == 20 and all(len(id) == 22 for id in ids), "128 random bits"
        prefixes = {id[:8] for id in ids}
        assert len(prefixes) == 20


async def test_messages_for_the_stream_of_somebody_else() -> None:
    async with serving(make().asgi()) as url, Site(url) as site:
        be(site, VICTIM)
        stream = await site.ask("GET", {"Accept": EVENTS}, path="/sse")
        event = await stream.next()
        assert event is not None and event.data is not None
        be(site, ATTACKER)
        assert (await site.post(initialize("2024-11-05"), path=event.data)).status == 404
        be(site, VICTIM)
        assert (await site.post(initialize("2024-11-05"), path=event.data)).status == 202
        assert "result" in await stream.message()


async def test_a_state_of_somebody_else() -> None:
    """Consent that one user gave does not count for another, nor the other way round."""
    meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    async with serving(make().asgi()) as url, Site(url) as site:
        be(site, VICTIM)
        asked = (await (await site.modern("tools/call", name="greet", arguments={}, meta=meta)).answer())["result"]
        (key,) = asked["inputRequests"]
        again: dict[str, Any] = {
            "name": "greet",
            "arguments": {},
            "meta": meta,
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {}}},
        }
        be(site, ATTACKER)
        refused = await (await site.modern("tools/call", **again)).answer()
        assert refused["error"]["code"] == -32602 and "vera" not in str(refused)
        be(site, VICTIM)
        assert text_of(await (await site.modern("tools/call", **again)).answer()) == "vera: True"


async def test_a_session_of_somebody_else_after_a_restart(tmp_path: Any) -> None:
    store = str(tmp_path / "store")
    async with serving(make().asgi(store=store)) as url, Site(url) as site:
        be(site, VICTIM)
        id = (await site.session("2025-11-25")).id
    async with serving(make().asgi(store=store)) as url, Site(url) as site:
        be(site, ATTACKER)
        assert (await Session(site, "2025-11-25", id).call("who")).status == 404
        be(site, VICTIM)
        assert text_of(await (await Session(site, "2025-11-25", id).call("who")).answer()) == "vera"
        assert (await Session(site, "2025-11-25", id).post(request("ping"))).status == 200
