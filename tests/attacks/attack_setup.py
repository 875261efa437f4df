"""Servers for attacks: a protected server, its authorization server, and an attacker that records all requests."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp

from dovetail import Context, Server
from dovetail.auth import jwt
from dovetail.auth.jwk import SigningKey
from dovetail.client.auth.oauth import OAuth
from dovetail.server.auth.verifiers import JWTVerifier
from tests.support.http import serving

BACK = "http://127.0.0.1:3999/callback"
KEY = SigningKey.generate(kid="k1")
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
PROTECTED = "/.well-known/oauth-protected-resource/mcp"

Page: TypeAlias = "int | dict[str, Any] | tuple[int, dict[str, str], bytes]"
"""A status, a JSON document, or an answer with all that belongs to it."""


class SeenRequest(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str

    @property
    def fields(self) -> dict[str, str]:
        """The form in its body."""
        return dict(parse_qsl(self.body))

    @property
    def text(self) -> str:
        """All that was said in it."""
        return f"{self.path}?{self.query} {self.headers} {self.body}"


class AttackerServer:
    """An HTTP server of an attacker's: answers from a table, and keeps everything that it is sent."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[SeenRequest] = []
        self.pages: dict[str, Page | Callable[[SeenRequest], Page]] = {}

    def paths(self) -> list[str]:
        """What was asked for."""
        return [each.path for each in self.seen]

    def answer(self, seen: SeenRequest) -> Page:
        """What a request gets."""
        page = self.pages.get(seen.path, 404)
        return page(seen) if callable(page) else page

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        seen = SeenRequest(scope["method"], scope["path"], scope["query_string"].decode(), headers, body.decode())
        self.seen.append(seen)
        page = self.answer(seen)
        if isinstance(page, int):
            page = page, {}, b""
        elif isinstance(page, dict):
            page = 200, {"content-type": "application/json"}, json.dumps(page).encode()
        status, given, content = page
        pairs = [(name.encode(), value.encode()) for name, value in given.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": content})

    def learned_nothing(self, *honest: AuthorizationServer) -> None:
        """Fail if anything came here that is of use to an attacker."""
        words = ("code=", "code_verifier", "refresh_token=", "client_secret", "assertion", "subject_token")
        for seen in self.seen:
            assert "authorization" not in seen.headers, seen
            for word in words:
                assert word not in seen.query + seen.body, seen
            for secret in {secret for authorization_server in honest for secret in authorization_server.secrets}:
                assert secret not in seen.text, seen

    def poses(self, resource: str, **changes: Any) -> None:
        """Be an authorization server, and a protected server that says so."""
        self.pages[PROTECTED] = {"resource": resource, "authorization_servers": [self.url]}
        self.pages[AUTHORIZATION_SERVER] = server_metadata(self.url, **changes)
        self.pages["/register"] = lambda seen: {**json.loads(seen.body), "client_id": "theirs"}


class AuthorizationServer(AttackerServer):
    """An authorization server that does all it should; every secret that it gave out or saw is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.grants: list[str] = []
        self.granted: list[str] = []
        """The access tokens, in order."""
        self.life = 3600.0
        self.names_itself = True
        self.changes: dict[str, Any] = {}

    def answer(self, seen: SeenRequest) -> Page:
        if seen.path in self.pages:
            return super().answer(seen)
        if seen.path == AUTHORIZATION_SERVER:
            return server_metadata(self.url, **self.changes)
        if seen.path == "/keys":
            return {"keys": [{**KEY.public.jwk, "kid": KEY.kid, "alg": KEY.alg}]}
        if seen.path == "/register":
            return {**json.loads(seen.body), "client_id": "registered"}
        if seen.path == "/authorize":
            return self._authorize(dict(parse_qsl(seen.query)))
        return self._token(seen) if seen.path == "/token" else 404

    def token(self, **changes: Any) -> str:
        """A token that this server signed."""
        now = time.time()
        claims = {"iss": self.url, "sub": "ada", "exp": now + self.life, "jti": secrets.token_hex(8), **changes}
        token = jwt.sign(claims, KEY, "at+jwt")
        self.secrets.add(token)
        self.granted.append(token)
        return token

    def _authorize(self, fields: dict[str, str]) -> Page:
        code = self._secret("code")
        self.codes[code] = fields
        answer = {"code": code, "state": fields["state"], **({"iss": self.url} if self.names_itself else {})}
        return 302, {"location": f"{fields['redirect_uri']}?{urlencode(answer)}"}, b""

    def _token(self, seen: SeenRequest) -> Page:
        fields = seen.fields
        self.grants.append(fields["grant_type"])
        resource = fields["resource"]
        if fields["grant_type"] == "authorization_code":
            login = self.codes.pop(fields["code"], None)
            self.secrets.add(fields["code_verifier"])
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            shown = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if login is None or (shown, fields["redirect_uri"], fields["client_id"]) != (
                login["code_challenge"],
                login["redirect_uri"],
                login["client_id"],
            ):
                return 400, {"content-type": "application/json"}, b'{"error": "invalid_grant"}'
        elif fields["grant_type"] == "refresh_token":
            if fields["refresh_token"] not in self.refresh_tokens:
                return 400, {"content-type": "application/json"}, b'{"error": "invalid_grant"}'
            self.refresh_tokens.discard(fields["refresh_token"])
        again = self._secret("refresh")
        self.refresh_tokens.add(again)
        token = self.token(aud=resource)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.life, "refresh_token": again}

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_hex(16)}"
        self.secrets.add(made)
        return made


def server_metadata(url: str, **changes: Any) -> dict[str, Any]:
    """What an authorization server says of itself."""
    return {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "registration_endpoint": f"{url}/register",
        "jwks_uri": f"{url}/keys",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        **changes,
    }


class ProtectedServer(NamedTuple):
    """A real server, and the authorization server that gives out tokens for it."""

    url: str
    authorization_server: AuthorizationServer
    ran: list[str]
    app: list[Any]
    """What answers at the URL; an attacker may take its place."""


@contextlib.asynccontextmanager
async def attacker_server() -> AsyncIterator[AttackerServer]:
    """An attacker's server that is there meanwhile."""
    stranger = AttackerServer()
    async with serving(stranger, lifespan="off") as url:
        stranger.url = url
        yield stranger


@contextlib.asynccontextmanager
async def authorization_server() -> AsyncIterator[AuthorizationServer]:
    """An authorization server that is there meanwhile."""
    honest = AuthorizationServer()
    async with serving(honest, lifespan="off") as url:
        honest.url = url
        yield honest


@contextlib.asynccontextmanager
async def protected(
    honest: AuthorizationServer, scopes: Sequence[str] = (), **options: Any
) -> AsyncIterator[ProtectedServer]:
    """A server of ours that takes the tokens of an authorization server."""
    app: list[Any] = []
    ran: list[str] = []

    async def later(scope: Any, receive: Any, send: Any) -> None:
        await app[0](scope, receive, send)

    async with serving(later, lifespan="off") as base:
        url = f"{base}/mcp"
        server = Server("s", auth=JWTVerifier(issuer=honest.url, audience=url, scopes=scopes))

        @server.tool
        async def who(ctx: Context) -> str:
            ran.append(str(ctx.principal))
            return f"{ctx.principal}"

        endpoint = server.asgi(**options)
        app.append(endpoint)
        yield ProtectedServer(url, honest, ran, app)
        await endpoint.close(0.0)


@contextlib.asynccontextmanager
async def login_scene(**options: Any) -> AsyncIterator[ProtectedServer]:
    """Both of them."""
    async with authorization_server() as honest, protected(honest, **options) as place:
        yield place


async def browse(url: str) -> str:
    """A user who agrees: follows redirects as a browser does, and comes back where the client waits."""
    async with aiohttp.ClientSession() as session:
        for _ in range(5):
            async with session.get(url, allow_redirects=False) as answer:
                location = answer.headers.get("location")
            assert location is not None, f"{url} answered {answer.status} and sends nobody back"
            if location.startswith(BACK):
                return location
            url = location
    raise AssertionError("too many redirects")


def oauth_login(**how: Any) -> OAuth:
    """A login of the user above."""
    return OAuth(**{"open_page": browse, "redirect_uri": BACK, **how})


def bare(url: str) -> str:
    """The origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
