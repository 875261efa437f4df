"""The development authorization server with token exchange (RFC 8693), and a server that notes who called it."""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import parse_qs

from dovetail import JWTVerifier, Server
from dovetail.auth import jwt
from dovetail.auth.errors import TokenRefused
from dovetail.auth.grants import ACCESS_TOKEN, TOKEN_EXCHANGE
from dovetail.testing import DevAuth
from tests.support.http import listening, serving, url_of

SECRET = "of the gateway"


class ExchangingAuth:
    """Exchanges tokens for one audience for tokens for any resource; everything else is that of `DevAuth`."""

    def __init__(self, dev: DevAuth, audience: str) -> None:
        self.dev = dev
        self.seconds = 300
        self.refused: set[str] = set()
        """Users whose tokens are not exchanged."""
        self.exchanged: list[tuple[str, str]] = []
        """The user and the resource of each exchange."""
        self.issued: set[str] = set()
        self.subject_tokens: dict[str, str] = {}
        """The token that was exchanged for each one that was issued."""
        self.returns_subject_token = False
        self._verify = JWTVerifier(issuer=dev.issuer, audience=audience)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/token":
            await self.dev.asgi()(scope, receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if fields.get("grant_type") != TOKEN_EXCHANGE:

            async def again() -> dict[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            await self.dev.asgi()(scope, again, send)
            return
        status, answer = await self._exchange(fields, dict(scope["headers"]).get(b"authorization", b""))
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _exchange(self, fields: dict[str, str], authorization: bytes) -> tuple[int, dict[str, Any]]:
        if b64decode(authorization.removeprefix(b"Basic ")).decode() != "gateway:of+the+gateway":
            return 401, {"error": "invalid_client"}
        try:
            user = (await self._verify(fields["subject_token"])).subject
        except TokenRefused as problem:
            return 400, {"error": "invalid_grant", "error_description": str(problem)}
        if user in self.refused:
            return 400, {"error": "invalid_target", "error_description": f"{user} has no account there"}
        self.exchanged.append((user, fields["resource"]))
        token = self.dev.token(user, fields["resource"], client_id="gateway", seconds=self.seconds)
        if self.returns_subject_token:
            token = fields["subject_token"]
        self.issued.add(token)
        self.subject_tokens[token] = fields["subject_token"]
        answer = {"access_token": token, "token_type": "Bearer", "issued_token_type": ACCESS_TOKEN}
        return 200, {**answer, "expires_in": self.seconds}


class Recorder:
    """Notes the JSON-RPC method and the Authorization header of every request to an application."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.seen: list[tuple[str, str]] = []
        """The method and the Authorization header of each request whose body was read."""
        self.headers: list[str] = []
        """The Authorization header of each request, also of those that were refused at once."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
        self.headers.append(authorization)

        async def reading() -> Any:
            message = await receive()
            if message["type"] == "http.request" and message.get("body"):
                self.seen.append((json.loads(message["body"]).get("method", ""), authorization))
            return message

        await self.app(scope, reading, send)

    @property
    def tokens(self) -> set[str]:
        """All tokens that were sent."""
        return {authorization.removeprefix("Bearer ") for _, authorization in self.seen if authorization}

    def callers(self, method: str | None = None) -> set[str]:
        """The subjects of the tokens of all requests, or of those for one method."""
        return {self.caller(one) for one in self.seen if method in (None, one[0])}

    @staticmethod
    def caller(request: tuple[str, str]) -> str:
        """The subject of the token of a request; empty without one."""
        token = request[1].removeprefix("Bearer ")
        return str(jwt.parse_unverified(token).claims["sub"]) if token else ""


@contextlib.asynccontextmanager
async def exchanging(audience: str) -> AsyncGenerator[ExchangingAuth]:
    """An authorization server that is there meanwhile."""
    sock = listening()
    auth = ExchangingAuth(DevAuth(url_of(sock)), audience)
    auth.dev.add_client("gateway", secret=SECRET)
    async with serving(auth, sock, lifespan="off"):
        yield auth


@contextlib.asynccontextmanager
async def behind(make: Callable[[JWTVerifier], Server], issuer: str) -> AsyncGenerator[tuple[str, Recorder]]:
    """A server behind a URL that accepts only tokens that were issued for this URL, and notes them."""
    sock = listening()
    url = f"{url_of(sock)}/mcp"
    recorder = Recorder(make(JWTVerifier(issuer=issuer, audience=url)).asgi())
    async with serving(recorder, sock):
        yield url, recorder
