"""A server behind a URL that wants tokens, and the authorization server that gives them out, on one real socket."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from dovetail.auth.jwk import PublicKey
from dovetail.auth.jwt import parse_unverified
from tests.client.site import Site
from tests.support.scripted import discovery
from tests.transports.http.handmade import RecordedRequest, ResponseWriter

BACK = "http://127.0.0.1:3000/callback"


class Protected(Site):
    """Checks what it is asked for; tests change what it believes."""

    def __init__(self, **answers: Any) -> None:
        tools = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
        super().__init__(**{"server_discover": discovery(), "tools_list": tools, **answers})
        self.grants: list[str] = []
        self.logins: list[dict[str, str]] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, set[str]] = {}
        self.refresh_tokens: set[str] = set()
        self.lifetimes: list[int] = []
        self.demands: dict[str, str] = {}
        self.grudging = False
        """Whether tokens allow nothing of what was asked for."""
        self.believes = True
        self.metadata: dict[str, Any] = {}
        self.card: dict[str, Any] = {}
        self.client_key: PublicKey | None = None
        self.revoked: list[str] = []
        self.resource: str | None = None
        """Another server that tokens are for."""
        self._serial = 0

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def token(self) -> str:
        return list(self.tokens)[-1]

    async def consent(self, url: str) -> str:
        """A user who agrees at once."""
        fields = dict(parse_qsl(urlsplit(url).query))
        self.logins.append(fields)
        code = f"code{len(self.logins)}"
        self.codes[code] = fields
        return f"{fields['redirect_uri']}?{urlencode({'code': code, 'state': fields['state'], 'iss': self.base})}"

    async def _talk(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.path != "/mcp":
            status, content = self._page(asked)
            await line.json(content, status)
            return
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        if scheme != "Bearer" or token not in self.tokens or not self.believes:
            await line.answer(401, www_authenticate=where)
            return
        wanted = self.demands.get(asked.message.get("method", "")) if asked.method == "POST" else None
        if wanted is not None and wanted not in self.tokens[token]:
            await line.answer(403, www_authenticate=f'{where}, error="insufficient_scope", scope="{wanted}"')
            return
        await super()._talk(asked, line)

    def _page(self, asked: RecordedRequest) -> tuple[int, dict[str, Any]]:
        path = asked.path
        if path == "/.well-known/oauth-protected-resource/mcp":
            return 200, {"resource": self.url, "authorization_servers": [self.base], **self.metadata}
        if path == "/.well-known/oauth-authorization-server":
            return 200, {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "revocation_endpoint": f"{self.base}/revoke",
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                **self.card,
            }
        if path == "/register":
            return 201, {"client_id": "registered", **json.loads(asked.body)}
        fields = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        if path == "/revoke":
            self.revoked.append(fields["token"])
            return 200, {}
        if path == "/token":
            return self._token(asked, fields)
        return 404, {}

    def _token(self, asked: RecordedRequest, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        kind = fields["grant_type"]
        self.grants.append(kind)
        assert fields["resource"] == (self.resource or self.url)
        scope = fields.get("scope", "")
        if kind == "authorization_code":
            login = self.codes.pop(fields["code"])
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == login["code_challenge"]
            scope = login.get("scope", "")
        elif kind == "refresh_token":
            if fields["refresh_token"] not in self.refresh_tokens:
                return 400, {"error": "invalid_grant"}
            self.refresh_tokens.discard(fields["refresh_token"])
        elif not self._knows(asked, fields):
            return 401, {"error": "invalid_client"}
        if kind.endswith("token-exchange"):
            jag = "urn:ietf:params:oauth:token-type:id-jag"
            return 200, {"access_token": "jag", "issued_token_type": jag, "token_type": "N_A"}
        self._serial += 1
        token = f"t{self._serial}"
        self.tokens[token] = set() if self.grudging else set(scope.split())
        given: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        given["expires_in"] = self.lifetimes.pop(0) if self.lifetimes else 3600
        if kind != "client_credentials":
            given["refresh_token"] = f"r{self._serial}"
            self.refresh_tokens.add(given["refresh_token"])
        return 200, given

    def _knows(self, asked: RecordedRequest, fields: dict[str, str]) -> bool:
        if "assertion" in fields:
            return fields["assertion"] in ("jag", "from the platform")
        if "subject_token" in fields:
            return fields["subject_token"] == "from the enterprise" and fields["audience"] == self.base
        if self.client_key is None:
            basic = base64.b64encode(b"robot:secret").decode()
            return asked.headers.get("authorization") == f"Basic {basic}"
        proof = parse_unverified(fields["client_assertion"])
        return self.client_key.verify(proof.signed, proof.signature) and proof.claims["sub"] == "robot"
