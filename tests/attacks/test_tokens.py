"""Attacks on a server with tokens that were not made for it, and on tokens that are to end up elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.auth import challenge, jwt
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.jwk import SigningKey, encode64
from dovetail.client.auth.token_store import MemoryTokens
from dovetail.server.auth.verifiers import Introspection, StaticTokens
from tests.attacks.attack_setup import (
    KEY,
    AttackerServer,
    AuthorizationServer,
    ProtectedServer,
    attacker_server,
    authorization_server,
    bare,
    login_scene,
    oauth_login,
    protected,
)
from tests.support.http import serving
from tests.support.raw_http import Site, modern, modern_headers, request, text_of


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes = b"") -> str:
    """A token whose signature is made with a shared secret, or left out."""
    content = ".".join(encode64(json.dumps(part).encode()) for part in (header, claims))
    return f"{content}.{encode64(hmac.digest(key, content.encode(), hashlib.sha256)) if key else ''}"


def forgeries(place: ProtectedServer) -> dict[str, str]:
    honest, now = place.authorization_server, time.time()
    claims = {"iss": honest.url, "sub": "ada", "aud": place.url, "exp": now + 60}
    public = json.dumps(KEY.public.jwk).encode()
    return {
        "another audience": honest.token(aud="https://other.example/mcp"),
        "a part of the audience": honest.token(aud=bare(place.url)),
        "no audience": honest.token(),
        "an empty audience": honest.token(aud=[]),
        "another issuer": honest.token(aud=place.url, iss="https://evil.example"),
        "an issuer that looks alike": honest.token(aud=place.url, iss=f"{honest.url}/"),
        "expired": honest.token(aud=place.url, exp=now - 3600),
        "no end": honest.token(aud=place.url, exp=None),
        "not yet": honest.token(aud=place.url, nbf=now + 3600),
        "another key": jwt.sign(claims, SigningKey.generate(kid="k1"), "at+jwt"),
        "a proof": jwt.sign(claims, KEY, "dpop+jwt"),
        "an ID token's type": jwt.sign(claims, KEY, "id+jwt"),
        "a critical extension": jwt.sign(claims, KEY, "at+jwt", {"kid": "k1", "crit": ["x"], "x": 1}),
        "no signature": by_hand({"alg": "none", "typ": "at+jwt"}, claims),
        "no algorithm": by_hand({"typ": "at+jwt", "kid": "k1"}, claims, b"x"),
        "the public key as a secret": by_hand({"alg": "HS256", "typ": "at+jwt", "kid": "k1"}, claims, public),
        "a key of its own": jwt.sign(
            claims, other := SigningKey.generate(), "at+jwt", {"jwk": other.public.jwk, "kid": "k1"}
        ),
        "a key elsewhere": jwt.sign(
            claims, SigningKey.generate(), "at+jwt", {"jku": "http://127.0.0.1:1/", "kid": "k1"}
        ),
        "nonsense": "a.b.c",
    }


KINDS = sorted(forgeries(ProtectedServer("http://localhost/mcp", AuthorizationServer(), [], [])))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_that_was_not_made_for_this_server(kind: str) -> None:
    async with login_scene() as place, Site(bare(place.url)) as site:
        token = forgeries(place)[kind]
        answer = await site.call("who", {"Authorization": f"Bearer {token}"})
        (told,) = challenge.parse(answer.headers["www-authenticate"])
        assert (answer.status, told.error) == (401, "invalid_token")
        assert token.encode() not in await answer.body() and not place.ran
        good = place.authorization_server.token(aud=place.url)
        assert (await site.call("who", {"Authorization": f"Bearer {good}"})).status == 200


async def test_a_token_of_another_server_of_the_same_authority() -> None:
    """An honest server that was broken into uses the tokens that it was shown at another one."""
    async with authorization_server() as honest, protected(honest) as one, protected(honest) as other:
        async with Client(one.url, auth=oauth_login()) as client:
            await client.call("who")
        (stolen,) = honest.granted
        async with Site(bare(other.url)) as site:
            assert (await site.call("who", {"Authorization": f"Bearer {stolen}"})).status == 401
        assert one.ran == ["ada"] and other.ran == []


async def test_an_issuer_that_is_asked_about_the_token_of_another_server() -> None:
    async with attacker_server() as issuer:
        known = {"active": True, "sub": "ada", "aud": "https://other.example", "exp": time.time() + 60}
        issuer.pages["/ask"] = known
        check = Introspection(
            issuer=issuer.url,
            audience="http://localhost/mcp",
            client_id="us",
            client_secret="x",
            endpoint=f"{issuer.url}/ask",
        )
        server = Server("s", auth=check)
        server.tool(lambda: 1, name="who")
        async with serving(server.asgi()) as url, Site(url) as site:
            for changes in ({}, {"aud": None}, {"aud": "http://localhost/mcp", "iss": "https://evil.example"}):
                issuer.pages["/ask"] = {**known, **changes}
                assert (await site.call("who", {"Authorization": "Bearer t"})).status == 401


async def test_the_client_keeps_the_tokens_of_two_servers_apart() -> None:
    async with authorization_server() as honest, protected(honest) as one, attacker_server() as attacker:
        store = MemoryTokens()
        async with Client(one.url, auth=oauth_login(store=store)) as client:
            await client.call("who")
        attacker.pages["/mcp"] = (401, {"www-authenticate": "Bearer"}, b"")
        with pytest.raises(AuthorizationFailed):
            await Client(f"{attacker.url}/mcp", auth=oauth_login(store=store)).open()
        attacker.learned_nothing(honest)


class TestPassingOn:
    async def test_a_token_goes_no_further_than_the_gate(self) -> None:
        """A handler that calls another server, as a proxy does, calls it as itself."""
        upstream = AttackerServer()
        server = Server("proxy", auth=StaticTokens({"secret-token": "ada"}))
        seen: list[str] = []

        @server.tool
        async def ask_on(ctx: Context) -> str:
            seen.append(
                repr(
                    [ctx.meta, ctx.principal, ctx.client, ctx.request_id, vars(ctx) if hasattr(ctx, "__dict__") else ""]
                )
            )
            with pytest.raises(Exception, match="404"):
                await Client(f"{upstream.url}/mcp").open()
            return "done"

        async with serving(upstream, lifespan="off") as where, serving(server.asgi()) as url, Site(url) as site:
            upstream.url = where
            answer = await site.call("ask_on", {"Authorization": "Bearer secret-token"})
            assert text_of(await answer.answer()) == "done"
        assert upstream.seen
        upstream.learned_nothing()
        assert all("secret-token" not in each.text for each in upstream.seen)
        assert "secret-token" not in seen[0]


class TestOtherPlaces:
    """A token counts in its header and nowhere else (RFC 6750 knows three places, MCP one)."""

    @pytest.mark.parametrize("query", ["access_token={}", "token={}", "Authorization=Bearer%20{}"])
    async def test_a_token_in_the_query_is_refused(self, query: str) -> None:
        async with login_scene() as place, Site(bare(place.url)) as site:
            message = modern("tools/call", name="who", arguments={})
            path = f"/mcp?{query.format(place.authorization_server.token(aud=place.url))}"
            answer = await site.post(message, modern_headers(message), path=path)
            assert answer.status == 401 and not place.ran

    async def test_a_token_in_a_form_a_cookie_or_twice_is_refused(self) -> None:
        async with login_scene() as place, Site(bare(place.url)) as site:
            token = place.authorization_server.token(aud=place.url)
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            assert (await site.post(f"access_token={token}".encode(), form)).status in (401, 415)
            assert (await site.call("who", {"Cookie": f"access_token={token}"})).status == 401
            twice = [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]
            assert (await site.call("who", twice)).status in (400, 401)
            assert not place.ran

    async def test_a_client_never_puts_it_into_a_url(self) -> None:
        async with login_scene() as place:
            paths: list[str] = []
            real = place.app[0]

            async def watched(scope: Any, receive: Any, send: Any) -> None:
                paths.append(scope["path"] + scope["query_string"].decode())
                await real(scope, receive, send)

            place.app[0] = watched
            async with Client(place.url, auth=oauth_login()) as client:
                await client.call("who")
            assert paths and all(token not in path for path in paths for token in place.authorization_server.granted)


async def test_each_request_brings_its_token() -> None:
    """A connection, or a session, that was let in once lets nobody in."""
    async with login_scene() as place, Site(bare(place.url)) as site:
        site.usual = [("Authorization", f"Bearer {place.authorization_server.token(aud=place.url)}")]
        session = await site.session("2025-11-25")
        site.usual = []
        for answer in (await session.ask("tools/list"), await session.get(), await session.delete()):
            assert answer.status == 401
        async with await site.connect() as line:
            message = request("ping")
            shown = [("Authorization", f"Bearer {place.authorization_server.granted[0]}")]
            given = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")]
            given += list(session.headers.items())
            body = json.dumps(message).encode()
            first = await line.ask("POST", "/mcp", given + shown, body)
            await first.body()
            second = await line.ask("POST", "/mcp", given, body)
            assert (first.status, second.status) == (200, 401)
