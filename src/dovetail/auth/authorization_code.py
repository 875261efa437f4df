"""The way through the user's browser: where it is sent, and what it brings back.

2026-07-28 authorization, "Authorization Flow Steps" and "Authorization Response Validation"; RFC 6749, section 4.1;
RFC 9207.
"""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from . import pkce, scopes
from .client_authentication import Client
from .errors import AuthorizationFailed, Denied, Untrusted, plain
from .http import Random
from .jwk import encode64
from .metadata import AuthorizationServer
from .registration import check_redirect

MAX_ANSWER = 16 * 1024
MAX_FIELDS = 50
_OURS = frozenset(
    {
        *("response_type", "client_id", "redirect_uri", "scope", "state", "resource", "prompt"),
        *("code_challenge", "code_challenge_method", "dpop_jkt", "request", "request_uri", "response_mode"),
    }
)


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """One login that was begun: kept until its answer comes, used for one answer only."""

    url: str
    """Where to send the browser."""
    issuer: str
    iss_expected: bool
    """Whether the server said that its answers name it."""
    client_id: str
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...]
    state: str
    verifier: str

    def __repr__(self) -> str:
        return f"Login(issuer={self.issuer!r}, resource={self.resource!r})"


def begin(
    server: AuthorizationServer,
    client: Client,
    *,
    redirect_uri: str,
    resource: str,
    scope: Iterable[str],
    random: Random,
    dpop_thumbprint: str | None = None,
) -> Login:
    """Begin a login; a server that does not offer PKCE is refused."""
    server.check_pkce()
    client = client.at(server.issuer)
    check_redirect(redirect_uri)
    endpoint = server.authorization_endpoint
    if endpoint is None:
        raise AuthorizationFailed(f"{plain(server.issuer)} has no page where a user could log in")
    named = {name for name, _ in parse_qsl(urlsplit(endpoint).query, keep_blank_values=True)}
    if named & _OURS:
        raise Untrusted(f"The authorization_endpoint of {plain(server.issuer)} sets what the client must set itself")
    verifier, state, chosen = pkce.new_verifier(random), encode64(random(32)), scopes.checked(scope)
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": pkce.challenge(verifier),
        "code_challenge_method": pkce.METHOD,
        "resource": resource,
    }
    if chosen:
        fields["scope"] = " ".join(chosen)
    if scopes.OFFLINE in chosen:
        fields["prompt"] = "consent"  # OpenID Connect Core, section 11: without it, it is ignored
    if dpop_thumbprint is not None:
        fields["dpop_jkt"] = dpop_thumbprint
    return Login(
        url=f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}",
        issuer=server.issuer,
        iss_expected=server.authorization_response_iss_parameter_supported,
        client_id=client.id,
        redirect_uri=redirect_uri,
        resource=resource,
        scopes=chosen,
        state=state,
        verifier=verifier,
    )


def finish(login: Login, answer: str) -> str:
    """The code in an answer, which is the address that the browser was sent back to, or its query.

    Nothing of an answer is used or told on before it is known to be for this login, and from its server.
    """
    fields = _fields(answer)
    if not compare_digest(fields.get("state", "").encode(errors="replace"), login.state.encode()):
        raise Untrusted("The answer to a login is not for the one that was begun here (state)")
    issuer = fields.get("iss")
    if issuer is None and login.iss_expected:
        raise Untrusted(f"The answer to a login does not say that it is from {plain(login.issuer)} (iss)")
    if issuer is not None and issuer != login.issuer:
        raise Untrusted(f"The answer to a login is not from {plain(login.issuer)} (iss)")
    if "error" in fields:
        raise Denied(fields["error"], fields.get("error_description", ""))
    code = fields.get("code")
    if not code:
        raise AuthorizationFailed("The answer to a login has no code")
    return code


def _fields(answer: str) -> dict[str, str]:
    if len(answer) > MAX_ANSWER:
        raise Untrusted("The answer to a login is too long")
    try:
        query = urlsplit(answer).query if answer.startswith(("http://", "https://")) else answer.removeprefix("?")
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Untrusted("The answer to a login cannot be read, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Untrusted("The answer to a login says something twice")  # RFC 6749, section 3.1
    return fields
