"""Tokens of callers that are revoked at a gateway."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from dovetail import Gateway, LocalError, Server
from dovetail.storage import MemoryStore
from tests.gateway.served import ServedGateway, served, tokens

VIEWS = ("/mcp", "/mcp/server/files", "/mcp/server/late")


async def accepted(at: ServedGateway, user: str) -> list[str]:
    """The views that accept the token of a user."""
    headers = {"authorization": f"Bearer token-of-{user}"}
    found: list[str] = []
    async with aiohttp.ClientSession(headers=headers) as http:
        for path in VIEWS:
            async with http.post(f"{at.url}{path}", json={}) as answer:
                assert answer.status in (400, 401)
                found += [path] if answer.status == 400 else []
    return found


def make_gateway() -> Gateway:
    return Gateway({"files": Server("files"), "late": Server("late")}, auth=tokens(ann=[], bob=[]))


async def test_a_revoked_token_is_refused_at_every_view_and_its_streams_end() -> None:
    """Also at a view that nobody has used yet."""
    gateway = make_gateway()
    async with served(gateway) as at, at.client("ann", "/mcp/server/files", revision="2026-07-28") as client:
        ended = asyncio.create_task(anext(client.watch(tools=True)))
        await client.tools()
        await gateway.revoke_token("token-of-ann")
        with pytest.raises(Exception, match=r"401|not valid|refused|Unauthorized"):
            await ended
        assert await accepted(at, "ann") == []
        assert await accepted(at, "bob") == list(VIEWS)


async def test_a_token_that_was_revoked_at_one_gateway_is_refused_at_all_that_share_its_store() -> None:
    store = MemoryStore()
    one, other = make_gateway(), make_gateway()
    async with served(one, store=store) as at, served(other, store=store) as there:
        assert await accepted(there, "ann") == list(VIEWS)
        await one.revoke_token("token-of-ann")
        async with asyncio.timeout(10):
            while await accepted(there, "ann"):
                await asyncio.sleep(0.01)
        assert await accepted(at, "ann") == []


async def test_a_gateway_without_authentication_has_no_tokens_to_revoke() -> None:
    with pytest.raises(LocalError, match="no auth"):
        await Gateway({}).revoke_token("x")
