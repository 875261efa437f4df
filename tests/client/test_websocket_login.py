"""A login that a server wants when a WebSocket is opened."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from dovetail import Client, Server, Verifier
from dovetail.auth.token_verification import Principal
from dovetail.client.auth.oauth import OAuth
from dovetail.protocol.errors import HttpStatus
from tests.client.protected import BACK
from tests.client.rotating import Rotating
from tests.support.http import serving


class Asking(Verifier):
    """Takes what an authorization server has given out."""

    def __init__(self, authority: Rotating) -> None:
        self.issuer = authority.base
        self._authority = authority

    async def __call__(self, token: str) -> Principal | None:
        return Principal(subject="ada") if token in self._authority.tokens else None


@contextlib.asynccontextmanager
async def guarded(authority: Rotating) -> AsyncGenerator[str]:
    """The address of a WebSocket that only those get who have a token."""
    server = Server("guarded", auth=Asking(authority))

    @server.tool
    def hello() -> str:
        return "hello"

    async with serving(server.asgi()) as url:
        authority.resource = f"{url}/mcp"
        yield f"ws{url.removeprefix('http')}/mcp/ws"


async def test_the_login_is_done_and_kept_and_renewed() -> None:
    async with Rotating() as authority, guarded(authority) as url:
        auth = OAuth(open_page=authority.consent, redirect_uri=BACK)
        for _ in range(2):
            async with Client(url, auth=auth) as client:
                assert (await client.call("hello")).text == "hello"
        assert authority.grants == ["authorization_code"]
        authority.expire()
        async with Client(url, auth=auth) as client:
            assert (await client.call("hello")).text == "hello"
        assert authority.grants == ["authorization_code", "refresh_token"]


async def test_a_token_that_cannot_be_had_again_is_refused() -> None:
    async with Rotating() as authority, guarded(authority) as url:
        with pytest.raises(HttpStatus, match="401") as caught:
            await Client(url, auth="wrong").open()
        assert caught.value.status == 401


async def test_a_function_is_asked_for_another_token() -> None:
    async with Rotating() as authority, guarded(authority) as url:
        authority.tokens["good"] = set()
        given = iter(["stale", "good"])
        async with Client(url, auth=lambda: next(given)) as client:
            assert (await client.call("hello")).text == "hello"
