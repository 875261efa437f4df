"""A server, a client and the authorization server, each over real HTTP: what a test of a user's would do."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import (
    Client,
    ClientCredentials,
    Context,
    DovetailError,
    HttpOptions,
    Introspection,
    JWTVerifier,
    OAuth,
    Server,
    Verifier,
)
from dovetail.auth.errors import AuthorizationFailed, Denied
from dovetail.auth.jwk import SigningKey
from dovetail.protocol.errors import LocalError
from dovetail.testing import DevAuth
from tests.support.http import listening, serving, url_of
from tests.testing.auth_server.asks import BACK
from tests.transports.http.test_aiohttp_client import certificate


class House:
    """A protected server, and where its tokens come from."""

    def __init__(self, auth: DevAuth, url: str) -> None:
        self.auth = auth
        self.url = url
        self.pages: list[str] = []

    async def agree(self, url: str) -> str:
        self.pages.append(url)
        return await self.auth.agree(url)

    def login(self, **options: Any) -> OAuth:
        return OAuth(open_page=self.agree, redirect_uri=BACK, **options)


def protected(verifier: Verifier) -> Server:
    server = Server("house", auth=verifier)

    @server.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(scopes=["keys"])
    def unlock() -> str:
        return "open"

    return server


@contextlib.asynccontextmanager
async def house(*, asks: bool = False, dpop: bool = False, **options: Any) -> AsyncIterator[House]:
    auth, sock = DevAuth(**options), listening()
    auth.add_client("house", secret="known to two")
    async with auth.serving():
        url, issuer = f"{url_of(sock)}/mcp", auth.issuer
        verifier: Verifier = JWTVerifier(issuer=issuer, audience=url, dpop=dpop)
        if asks:
            verifier = Introspection(
                issuer=issuer, audience=url, client_id="house", client_secret="known to two", cache=0, dpop=dpop
            )
        async with serving(protected(verifier).asgi(), sock):
            yield House(auth, url)


async def test_a_login_is_done_once() -> None:
    async with house(asks=True) as here:
        login = here.login()
        for _ in range(2):
            async with Client(here.url, auth=login) as client:
                assert (await client.call("whoami")).data == "ada"
        assert (len(here.pages), here.auth.logins, here.auth.refreshes) == (1, 1, 0)


async def test_an_expired_token_is_renewed_in_silence() -> None:
    async with house(asks=True) as here, Client(here.url, auth=here.login()) as client:
        await client.call("whoami")
        for times in (1, 2, 3):
            here.auth.expire()
            assert (await client.call("whoami")).data == "ada"
            assert (here.auth.refreshes, len(here.pages)) == (times, 1)


async def test_after_all_is_revoked_the_user_is_asked_again() -> None:
    async with house(asks=True) as here, Client(here.url, auth=here.login()) as client:
        await client.call("whoami")
        here.auth.revoke_all()
        assert (await client.call("whoami")).data == "ada"
        assert (len(here.pages), here.auth.refreshes) == (2, 0)


async def test_a_server_that_checks_signatures() -> None:
    async with house() as here, Client(here.url, auth=here.login()) as client:
        assert (await client.call("whoami")).data == "ada"
        assert here.auth.logins == 1


async def test_the_token_of_a_clock_that_is_behind_is_renewed_and_given_up() -> None:
    """It says that it is good for long, and has expired to the server."""
    behind = [0.0]
    async with house(clock=lambda: time.time() - behind[0]) as here, Client(here.url, auth=here.login()) as client:
        behind[0] = 7200.0
        with pytest.raises(AuthorizationFailed, match="just given out"):
            async with Client(here.url, auth=here.login()) as other:
                await other.call("whoami")
        assert (await client.call("whoami")).data == "ada"


async def test_a_tool_that_needs_more_asks_for_more() -> None:
    async with house(scopes=["keys", "offline_access"]) as here:
        async with Client(here.url, auth=here.login(scopes=["offline_access"])) as client:
            assert "unlock" not in [tool.name for tool in await client.tools()]
        async with Client(here.url, auth=here.login(scopes=["keys"])) as client:
            assert (await client.call("unlock")).data == "open"


async def test_tokens_that_are_bound_to_a_key() -> None:
    async with house(dpop=True) as here, Client(here.url, auth=here.login(dpop=True)) as client:
        assert (await client.call("whoami")).data == "ada"
    async with house(asks=True, dpop=True) as here, Client(here.url, auth=here.login(dpop=True)) as client:
        assert (await client.call("whoami")).data == "ada"
        here.auth.expire()
        assert (await client.call("whoami")).data == "ada"
        assert here.auth.refreshes == 1


async def test_a_user_who_says_no() -> None:
    async with house() as here:
        with pytest.raises(Denied, match="access_denied"):
            async with Client(here.url, auth=OAuth(open_page=here.auth.deny, redirect_uri=BACK)):
                pass


@pytest.mark.parametrize("proof", ["secret", "key"])
async def test_a_program_for_itself(proof: str) -> None:
    async with house() as here:
        pem = SigningKey.generate().to_pem()
        if proof == "secret":
            here.auth.add_client("robot", secret="s e c r e t")
            way = ClientCredentials("robot", secret="s e c r e t")
        else:
            here.auth.add_client("robot", key=pem)
            way = ClientCredentials("robot", private_key=pem)
        async with Client(here.url, auth=OAuth(way)) as client:
            assert (await client.call("whoami")).data == "robot"


async def test_tokens_without_a_login() -> None:
    async with house() as here:
        async with Client(here.url, auth=here.auth.token("bob", here.url, scopes=["keys"])) as client:
            assert (await client.call("unlock")).data == "open"
        for wrong in (here.auth.token("bob", here.url, seconds=-120), here.auth.token("bob", "http://127.0.0.1:1/mcp")):
            with pytest.raises(DovetailError, match="401"):
                async with Client(here.url, auth=wrong):
                    pass


async def test_a_client_that_is_known_by_its_document(tmp_path: Path) -> None:
    trusted = str(certificate(tmp_path, "documents"))
    about: dict[str, Any] = {}

    async def document(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200 if about else 404, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(about).encode()})

    async with (
        serving(document, ssl_certfile=trusted, lifespan="off") as base,
        house(http=HttpOptions(ca=trusted)) as here,
    ):
        url = f"{base.replace('http:', 'https:')}/client.json"
        with pytest.raises(LocalError, match="404"):
            async with Client(here.url, auth=here.login(document=url)):
                pass
        about |= {"client_id": url, "client_name": "Documented", "redirect_uris": [BACK]}
        async with Client(here.url, auth=here.login(document=url)) as client:
            assert (await client.call("whoami")).data == "ada"


async def test_only_authorization_requests_of_known_clients_are_answered() -> None:
    async with DevAuth().serving() as auth:
        with pytest.raises(LocalError, match="not the authorization endpoint of"):
            await auth.agree("http://127.0.0.1:1/authorize?x=y")
        with pytest.raises(LocalError, match="is invalid"):
            await auth.agree(f"{auth.issuer}/authorize?client_id=nobody")
        with pytest.raises(LocalError, match="needs a secret"):
            auth.add_client("nobody")
