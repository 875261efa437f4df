"""All flows together: from a refusal of the server to a token, to more scopes, and to the next authorization server."""

import os
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest

from dovetail.auth import (
    authorization_code,
    challenge,
    discovery,
    dpop,
    grants,
    jwt,
    registration,
    scopes,
    token_verification,
)
from dovetail.auth.authorization_code import AuthorizationRequest, pkce_challenge
from dovetail.auth.challenge import Challenge
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import DiscoveryResult
from dovetail.auth.errors import Denied, TokenRefused, Untrusted
from dovetail.auth.http import OAuthRequest, OAuthResponse
from dovetail.auth.jwk import SigningKey
from dovetail.auth.metadata import ProtectedResource, encode_protected_resource
from dovetail.auth.step_up import StepUp
from dovetail.auth.tokens import Account, Tokens
from tests.auth.web import Web

NOW = 1_800_000_000.0
SERVER = "https://mcp.example.com/mcp"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
HONEST, EVIL = "https://honest.example", "https://evil.example"
BACK = "http://127.0.0.1:3000/callback"
ABOUT = registration.ClientMetadata(name="Dovetail", redirect_uris=(BACK,))


class Issuer:
    """An authorization server in a few lines, which checks what it is asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = SigningKey.generate(kid=url)
        self.clients: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: dict[str, dict[str, str]] = {}
        self.seen = dpop.UsedProofs()

    def pages(self) -> dict[str, Any]:
        card = {
            "issuer": self.url,
            "authorization_endpoint": self.url + "/authorize",
            "token_endpoint": self.url + "/token",
            "registration_endpoint": self.url + "/register",
            "jwks_uri": self.url + "/keys",
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["read", "write", "offline_access"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {
            self.url + "/.well-known/oauth-authorization-server": card,
            self.url + "/keys": {"keys": [{**self.key.public.jwk, "kid": self.key.kid}]},
            self.url + "/register": self.register,
            self.url + "/token": self.token,
        }

    def register(self, request: OAuthRequest) -> OAuthResponse:
        self.clients.append(f"{self.url}/client{len(self.clients)}")
        return OAuthResponse(201, {}, msgspec.json.encode({"client_id": self.clients[-1]}))

    def visit(self, login: AuthorizationRequest) -> str:
        """What the browser does: the user agrees, and is sent back."""
        asked = {name: value for name, [value] in parse_qs(urlsplit(login.url).query).items()}
        assert login.url.startswith(self.url + "/authorize?") and asked["client_id"] in self.clients
        code = f"code{len(self.codes)}@{self.url}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def token(self, request: OAuthRequest) -> OAuthResponse:
        form = {name: value for name, [value] in parse_qs(request.body.decode()).items()}
        store = self.codes if form["grant_type"] == "authorization_code" else self.refresh_tokens
        granted = store.pop(form.get("code") or form["refresh_token"], None)
        if granted is None or granted["client_id"] != form["client_id"] or granted["resource"] != form["resource"]:
            return OAuthResponse(400, {}, b'{"error": "invalid_grant"}')
        if "code" in form and pkce_challenge(form["code_verifier"]) != granted["code_challenge"]:
            return OAuthResponse(400, {}, b'{"error": "invalid_grant", "error_description": "PKCE"}')
        claims: dict[str, Any] = {"iss": self.url, "sub": "ada", "aud": granted["resource"], "exp": NOW + 600}
        claims["scope"] = granted["scope"]
        if "dpop" in request.headers:
            proof = dpop.verify(request.headers["dpop"], "POST", self.url + "/token", now=NOW)
            self.seen.admit(proof, NOW)
            claims["cnf"] = {"jkt": proof.thumbprint}
        again = f"refresh{len(self.codes)}{os.urandom(4).hex()}"
        self.refresh_tokens[again] = granted
        kind = "DPoP" if "cnf" in claims else "Bearer"
        access = jwt.sign(claims, self.key, "at+jwt")
        body = {"access_token": access, "token_type": kind, "expires_in": 600, "refresh_token": again}
        return OAuthResponse(200, {}, msgspec.json.encode({**body, "scope": granted["scope"]}))


class World:
    """A server and two authorization servers, the first of which it names."""

    def __init__(self) -> None:
        self.honest, self.evil = Issuer(HONEST), Issuer(EVIL)
        self.web = Web({**self.honest.pages(), **self.evil.pages()})
        self.belongs_to(HONEST)

    def belongs_to(self, issuer: str) -> None:
        self.web.pages[METADATA] = encode_protected_resource(
            ProtectedResource(resource=SERVER, authorization_servers=(issuer,))
        )

    def discover(self, asked: Challenge = challenge.NO_CHALLENGE) -> DiscoveryResult:
        return self.web.run(discovery.discover(SERVER, asked))

    def begin(
        self, found: DiscoveryResult, known: OAuthClient | None = None, scope: tuple[str, ...] = ("read",)
    ) -> tuple[AuthorizationRequest, OAuthClient]:
        client = self.web.run(registration.get_client(found.server, ABOUT, now=NOW, registered=known))
        login = authorization_code.build_request(
            found.server, client, redirect_uri=BACK, resource=found.resource, scope=scope, random=os.urandom
        )
        return login, client

    def means(
        self, found: DiscoveryResult, client: OAuthClient, prover: dpop.Prover | None = None
    ) -> grants.TokenRequestContext:
        return grants.TokenRequestContext(found.server, client, NOW, os.urandom, prover)

    def admit(self, token: str, issuer: Issuer) -> token_verification.Principal:
        """What the server does with a token."""
        store = self.web.run(token_verification.fetch_keys(issuer.url + "/keys", NOW))
        return token_verification.TokenRules(issuer=HONEST, audience=(SERVER,)).check(token, store.keys, NOW)


@pytest.fixture
def world() -> World:
    return World()


def test_from_a_refusal_to_a_token_and_on(world: World) -> None:
    asked = challenge.read({"www-authenticate": challenge.write(resource_metadata=METADATA, scope=["read"])})
    found = world.discover(asked)
    assert found.protected
    wanted = scopes.select(asked.scopes, found.protected.scopes_supported, found.server.scopes_supported)
    login, client = world.begin(found, scope=wanted)
    code = authorization_code.read_response(login, world.honest.visit(login))
    tokens = world.web.run(grants.exchange_code(world.means(found, client), login, code))
    who = world.admit(tokens.access_token, world.honest)
    assert who.subject == "ada" and who.scopes == ("read", "offline_access")

    account = Account(resource=found.resource, issuer=HONEST, client=client, tokens=tokens, requested=login.scopes)
    account = Account.decode(account.encode())
    first = account.tokens
    renewed = account.renewed(
        world.web.run(grants.refresh(world.means(found, account.client), first, account.resource))
    )
    assert renewed.tokens.refresh_token not in (None, first.refresh_token)
    with pytest.raises(Denied, match="invalid_grant"):  # the old one was rotated away
        world.web.run(grants.refresh(world.means(found, client), first, account.resource))

    more = challenge.read({"www-authenticate": challenge.write(error="insufficient_scope", scope=["write"])})
    step = StepUp().next_attempt(more, account.requested, renewed.tokens.scopes)
    login, _ = world.begin(found, known=client, scope=step.wanted)
    tokens = world.web.run(
        grants.exchange_code(
            world.means(found, client), login, authorization_code.read_response(login, world.honest.visit(login))
        )
    )
    assert world.admit(tokens.access_token, world.honest).scopes == ("read", "offline_access", "write")
    assert len(world.honest.clients) == 1


def test_a_server_that_moves_to_another_authorization_server(world: World) -> None:
    _, client = world.begin(world.discover())
    world.belongs_to(EVIL)
    moved = world.discover()
    _, other = world.begin(moved, known=client)
    assert other.issuer == EVIL and other.id in world.evil.clients
    sent = [request for request in world.web.requests if request.url.startswith(EVIL)]
    assert not any(client.id.encode() in request.body for request in sent)


def test_with_a_key_from_the_login_to_the_request(world: World) -> None:
    found, prover = world.discover(), dpop.Prover(SigningKey.generate())
    login, client = world.begin(found)
    code = authorization_code.read_response(login, world.honest.visit(login))
    tokens = world.web.run(grants.exchange_code(world.means(found, client, prover), login, code))
    who = world.admit(tokens.access_token, world.honest)
    shown = prover.prove("POST", SERVER, now=NOW, random=os.urandom, token=tokens.access_token)
    proof = dpop.verify(shown, "POST", SERVER, now=NOW, token=tokens.access_token)
    token_verification.check_binding(who, "DPoP", proof)
    with pytest.raises(TokenRefused):  # who has stolen the token alone
        token_verification.check_binding(who, "Bearer", None)
    thief = dpop.Prover(SigningKey.generate()).prove(
        "POST", SERVER, now=NOW, random=os.urandom, token=tokens.access_token
    )
    with pytest.raises(TokenRefused):
        token_verification.check_binding(
            who, "DPoP", dpop.verify(thief, "POST", SERVER, now=NOW, token=tokens.access_token)
        )


# Attacks.


def test_a_mix_up_of_authorization_servers_is_detected(world: World) -> None:
    """The client is at the attacker's, who sent the user on to the honest server: its code must not leak."""
    world.belongs_to(EVIL)
    found = world.discover()
    login, _ = world.begin(found)
    world.honest.clients.append(login.client_id)
    to_honest = msgspec.structs.replace(login, url=login.url.replace(EVIL, HONEST, 1))
    answer = world.honest.visit(to_honest)
    before = len(world.web.requests)
    with pytest.raises(Untrusted, match="iss"):
        authorization_code.read_response(login, answer)
    assert len(world.web.requests) == before


def test_a_code_of_somebody_else_is_of_no_use(world: World) -> None:
    """Code injection: the attacker's code in the victim's answer, or the victim's code in the attacker's client."""
    found = world.discover()
    victim, client = world.begin(found)
    attacker, _ = world.begin(found, known=client)
    stolen = authorization_code.read_response(victim, world.honest.visit(victim))
    with pytest.raises(Denied, match="PKCE"):
        world.web.run(grants.exchange_code(world.means(found, client), attacker, stolen))
    with pytest.raises(Untrusted, match="state"):
        authorization_code.read_response(victim, world.honest.visit(attacker))


def test_tokens_of_others_do_not_open_the_server(world: World) -> None:
    claims = {"iss": HONEST, "sub": "ada", "aud": SERVER, "exp": NOW + 600}
    world.admit(jwt.sign(claims, world.honest.key, "at+jwt"), world.honest)
    for forged, key in (
        ({**claims, "aud": "https://other.example/mcp"}, world.honest.key),
        ({**claims, "iss": EVIL}, world.evil.key),
        (claims, world.evil.key),
    ):
        with pytest.raises(TokenRefused):
            world.admit(jwt.sign(forged, key, "at+jwt"), world.honest)


def test_no_secret_is_in_any_url(world: World) -> None:
    found = world.discover()
    login, client = world.begin(found)
    code = authorization_code.read_response(login, world.honest.visit(login))
    tokens: Tokens = world.web.run(grants.exchange_code(world.means(found, client), login, code))
    for url in (*world.web.urls, login.url):
        for secret in (code, login.verifier, tokens.access_token, tokens.refresh_token):
            assert secret and secret not in url
