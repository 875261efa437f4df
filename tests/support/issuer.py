"""A small token issuer over HTTP: metadata, keys and introspection, with request counts."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

from dovetail.auth import jwt
from dovetail.auth.jwk import SigningKey
from tests.support.http import serving

US = "http://localhost/mcp"
KEY = SigningKey.generate(kid="k1")


class Issuer:
    """As an ASGI application; `pages` may be changed while it is served."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = [KEY]
        self.asked: Counter[str] = Counter()
        self.pages: dict[str, Any] = {}
        self.active: dict[str, dict[str, Any]] = {}
        self.credentials: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        path = scope["path"]
        self.asked[path] += 1
        body = (await receive()).get("body", b"")
        value = self.pages.get(path, 404)
        if path == "/introspect":
            self.credentials.append(dict(scope["headers"]).get(b"authorization", b""))
            token = parse_qs(body.decode())["token"][0]
            value = {"active": token in self.active, **self.active.get(token, {})}
        elif path == "/keys" and value == 404:
            value = {"keys": [{**key.public.jwk, "kid": key.kid, "alg": key.alg} for key in self.keys]}
        status, content = (value, b"") if isinstance(value, int) else (200, json.dumps(value).encode())
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": content})

    def token(self, key: SigningKey = KEY, **changes: Any) -> str:
        """A token that is good, but for the changes."""
        claims = {"iss": self.url, "aud": US, "sub": "ada", "exp": time.time() + 60, "scope": "read", **changes}
        return jwt.sign(claims, key, "at+jwt")


@contextlib.asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    """An issuer that is there meanwhile."""
    issuer = Issuer()
    async with serving(issuer, lifespan="off") as url:
        issuer.url = url
        issuer.pages["/.well-known/oauth-authorization-server"] = {
            "issuer": url,
            "jwks_uri": f"{url}/keys",
            "introspection_endpoint": f"{url}/introspect",
        }
        yield issuer
