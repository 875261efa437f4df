"""Verifiers ask a real issuer over real sockets, seldom, and accept nothing that was made for others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dovetail import LocalError
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, UnknownKey, Untrusted
from dovetail.auth.jwk import SigningKey
from dovetail.auth.token_verification import KEYS_PAUSE, KEYS_SECONDS, Principal
from dovetail.server.auth.token_cache import REFUSAL_SECONDS
from dovetail.server.auth.verifiers import (
    MAX_INTROSPECTIONS,
    MAX_TOKEN,
    Introspection,
    JWTVerifier,
    StaticTokens,
    Verifier,
)
from tests.support.http import serving
from tests.support.issuer import US, Issuer, issuing


def verifier(issuer: Issuer, **options: Any) -> JWTVerifier:
    return JWTVerifier(**{"issuer": issuer.url, "audience": US, **options})


def introspection(issuer: Issuer, **options: Any) -> Introspection:
    given = {"issuer": issuer.url, "audience": US, "client_id": "us", "client_secret": "s3cret"}
    return Introspection(**{**given, **options})


class Clock:
    """Lets hours pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = time.monotonic
        monkeypatch.setattr("dovetail.server.auth.verifiers.monotonic", lambda: real() + self.ahead)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class TestJWT:
    async def test_keys_are_fetched_for_the_first_token_and_cached(self) -> None:
        async with issuing() as issuer:
            check = verifier(issuer)
            assert not issuer.asked
            found = await asyncio.gather(*(check(issuer.token()) for _ in range(5)))
            assert {(who.subject, who.scopes) for who in found} == {("ada", ("read",))}
            await check(issuer.token(sub="bob"))
            assert issuer.asked == {"/.well-known/oauth-authorization-server": 1, "/keys": 1}

    async def test_the_jwks_uri_may_be_given(self) -> None:
        async with issuing() as issuer:
            await verifier(issuer, jwks_uri=f"{issuer.url}/keys")(issuer.token())
            assert issuer.asked == {"/keys": 1}

    @pytest.mark.parametrize(
        "changes",
        [
            {"aud": "http://localhost/other"},
            {"aud": []},
            {"aud": None},
            {"iss": "https://evil.example"},
            {"exp": 1.0},
            {"exp": None},
            {"sub": None},
            {"key": SigningKey.generate(kid="k1")},
        ],
    )
    async def test_a_token_that_is_not_for_this_server_is_refused(self, changes: dict[str, Any]) -> None:
        async with issuing() as issuer:
            with pytest.raises(TokenRefused):
                await verifier(issuer)(issuer.token(**changes))

    @pytest.mark.parametrize("token", ["", "x", "a.b.c", "é.é.é", "x" * (MAX_TOKEN + 1)])
    async def test_text_that_is_no_token_is_refused(self, token: str) -> None:
        async with issuing() as issuer:
            with pytest.raises(TokenRefused):
                await verifier(issuer)(token)

    async def test_a_new_key_is_fetched_but_not_for_every_invented_key_id(self, clock: Clock) -> None:
        async with issuing() as issuer:
            check, new = verifier(issuer), SigningKey.generate(kid="k2")
            await check(issuer.token())
            for _ in range(3):
                with pytest.raises(UnknownKey):
                    await check(issuer.token(new))
            assert issuer.asked["/keys"] == 1
            issuer.keys.append(new)
            clock.ahead = KEYS_PAUSE + 1
            assert (await check(issuer.token(new))).subject == "ada"
            assert issuer.asked["/keys"] == 2

    async def test_a_withdrawn_key_is_refused_after_an_hour(self, clock: Clock) -> None:
        async with issuing() as issuer:
            check = verifier(issuer)
            await check(issuer.token())
            issuer.keys[:] = [SigningKey.generate(kid="k2")]
            clock.ahead = KEYS_SECONDS + 1
            with pytest.raises(UnknownKey):
                await check(issuer.token())

    async def test_an_issuer_that_fails_later_is_served_from_the_cached_keys(self, clock: Clock) -> None:
        async with issuing() as issuer:
            check = verifier(issuer)
            await check(issuer.token())
            issuer.pages["/keys"] = 500
            clock.ahead = KEYS_SECONDS + 1
            for _ in range(3):
                assert (await check(issuer.token())).subject == "ada"
            assert issuer.asked["/keys"] == 2

    async def test_an_issuer_that_fails_at_first_is_retried_soon_but_not_at_once(self, clock: Clock) -> None:
        async with issuing() as issuer:
            check = verifier(issuer)
            issuer.pages["/keys"] = 500
            for _ in range(3):
                with pytest.raises(AuthorizationFailed) as caught:
                    await check(issuer.token())
                assert not isinstance(caught.value, TokenRefused), "it is not the token's fault"
            assert issuer.asked["/keys"] == 1
            del issuer.pages["/keys"]
            clock.ahead = 3
            assert (await check(issuer.token())).subject == "ada"

    @pytest.mark.parametrize("uri", ["http://169.254.169.254/keys", "https://[::ffff:a9fe:a9fe]/keys", "file:///keys"])
    async def test_keys_are_not_fetched_from_forbidden_addresses(self, uri: str) -> None:
        async with issuing() as issuer:
            issuer.pages["/.well-known/oauth-authorization-server"]["jwks_uri"] = uri
            with pytest.raises(Untrusted):
                await verifier(issuer)(issuer.token())

    async def test_metadata_of_another_issuer_are_refused(self) -> None:
        async with issuing() as issuer:
            issuer.pages["/.well-known/oauth-authorization-server"]["issuer"] = "https://evil.example"
            with pytest.raises(Untrusted):
                await verifier(issuer)(issuer.token())

    async def test_metadata_without_a_jwks_uri_are_an_error(self) -> None:
        async with issuing() as issuer:
            del issuer.pages["/.well-known/oauth-authorization-server"]["jwks_uri"]
            with pytest.raises(AuthorizationFailed, match="jwks_uri"):
                await verifier(issuer)(issuer.token())

    @pytest.mark.parametrize(
        "options",
        [
            *({"audience": ""}, {"audience": []}, {"issuer": "auth.example.com"}, {"issuer": "http://a.example"}),
            *({"scopes": "read write"}, {"scopes": ["a b"]}, {"algorithms": ["none"]}, {"algorithms": ["HS256"]}),
        ],
    )
    def test_impossible_options_are_refused_at_once(self, options: dict[str, Any]) -> None:
        with pytest.raises((LocalError, Untrusted)):
            JWTVerifier(**{"issuer": "https://auth.example.com", "audience": US, **options})


class TestIntrospection:
    async def test_an_introspection_is_cached(self) -> None:
        async with issuing() as issuer:
            issuer.active["t"] = {"sub": "ada", "aud": US, "exp": time.time() + 60}
            for check, asked in ((introspection(issuer), 1), (introspection(issuer, cache=0), 1 + 5)):
                for _ in range(5):
                    assert (await check("t")).subject == "ada"
                assert issuer.asked["/introspect"] == asked

    async def test_the_issuer_decides_about_a_token(self) -> None:
        async with issuing() as issuer:
            check = introspection(issuer, cache=0)
            issuer.active["t"] = {"sub": "ada", "aud": US, "scope": "a b"}
            who = await check("t")
            assert (who.subject, who.scopes, who.issuer) == ("ada", ("a", "b"), issuer.url)
            assert issuer.credentials == [b"Basic dXM6czNjcmV0"]
            issuer.active.clear()
            with pytest.raises(TokenRefused):
                await check("t")

    async def test_the_introspection_endpoint_may_be_given(self) -> None:
        async with issuing() as issuer:
            issuer.active["t"] = {"sub": "ada", "aud": US}
            assert (await introspection(issuer, endpoint=f"{issuer.url}/introspect")("t")).subject == "ada"
            assert issuer.asked == {"/introspect": 1}

    @pytest.mark.parametrize(
        "answer", [{"aud": "https://other.example"}, {}, {"aud": US, "iss": "https://evil.example"}]
    )
    async def test_an_active_token_for_others_is_refused(self, answer: dict[str, Any]) -> None:
        async with issuing() as issuer:
            issuer.active["t"] = {"sub": "ada", **answer}
            with pytest.raises(TokenRefused):
                await introspection(issuer)("t")

    async def test_a_token_that_is_too_long_is_not_introspected(self) -> None:
        async with issuing() as issuer:
            with pytest.raises(TokenRefused):
                await introspection(issuer)("x" * (MAX_TOKEN + 1))
            assert not issuer.asked

    def test_introspection_needs_an_audience(self) -> None:
        with pytest.raises(LocalError):
            Introspection(issuer="https://a.example", audience="", client_id="us", client_secret="x")


class TestStaticTokens:
    async def test_a_static_token_has_a_name_or_a_principal(self) -> None:
        check = StaticTokens({"a": "ada", "b": Principal(subject="bob", scopes=("read",))})
        assert await check("a") == Principal(subject="ada")
        assert (await check("b")).scopes == ("read",)
        with pytest.raises(TokenRefused):
            await check("c")

    def test_the_repr_shows_no_token(self) -> None:
        assert "s3cret" not in repr(vars(StaticTokens({"s3cret": "ada"})))


async def test_the_verifier_base_class_verifies_nothing() -> None:
    with pytest.raises(NotImplementedError):
        await Verifier()("t")


@pytest.mark.attack("M13")
class TestFloodOfTokens:
    async def test_few_introspections_run_at_once_over_few_connections(self) -> None:
        async with issuing() as issuer:
            issuer.active["good"] = {"sub": "ada", "aud": US, "exp": time.time() + 60}
            running = most = 0
            clients: set[Any] = set()
            answer = issuer.__call__

            async def counted(scope: Any, receive: Any, send: Any) -> None:
                nonlocal running, most
                running += 1
                most = max(most, running)
                clients.add(tuple(scope["client"]))
                await asyncio.sleep(0.02)  # so that they would pile up
                await answer(scope, receive, send)
                running -= 1

            async with serving(counted, lifespan="off") as url:
                issuer.url = url
                issuer.pages["/.well-known/oauth-authorization-server"] = {
                    "issuer": url,
                    "introspection_endpoint": f"{url}/introspect",
                }
                check = introspection(issuer)
                found = await asyncio.gather(*(check(f"made up {n}") for n in range(300)), return_exceptions=True)
                assert {type(each) for each in found} == {TokenRefused}
                assert (await check("good")).subject == "ada"
            assert 1 < most <= MAX_INTROSPECTIONS
            assert len(clients) <= MAX_INTROSPECTIONS + 4
            assert issuer.asked == {"/.well-known/oauth-authorization-server": 1, "/introspect": 301}

    async def test_a_refusal_is_kept_for_a_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ahead = 0.0
        real = time.monotonic
        monkeypatch.setattr("dovetail.server.auth.token_cache.monotonic", lambda: real() + ahead)
        async with issuing() as issuer:
            check = introspection(issuer)
            for _ in range(3):
                with pytest.raises(TokenRefused):
                    await check("new")
            assert issuer.asked["/introspect"] == 1
            issuer.active["new"] = {"sub": "ada", "aud": US, "exp": time.time() + 60}
            ahead = REFUSAL_SECONDS + 0.1
            assert (await check("new")).subject == "ada"
