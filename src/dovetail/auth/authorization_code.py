"""Authorization code grant: the request that the browser opens, and the response that comes back.

2026-07-28 authorization, "Authorization Flow Steps" and "Authorization Response Validation"; RFC 6749, section 4.1;
RFC 9207. PKCE proves that the client that exchanges a code also requested it (RFC 7636, S256 only).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from . import scopes
from .client_authentication import OAuthClient
from .errors import AuthorizationFailed, Denied, Untrusted, printable
from .http import Random
from .jwk import encode64
from .metadata import AuthorizationServer
from .registration import check_redirect

PKCE_METHOD = "S256"


def new_code_verifier(random: Random) -> str:
    """Make a code verifier: a secret of 43 characters, kept until the code is exchanged."""
    return encode64(random(32))


def pkce_challenge(verifier: str) -> str:
    """The code challenge of a verifier, sent with the authorization request."""
    return encode64(sha256(verifier.encode("ascii")).digest())


MAX_RESPONSE = 16 * 1024
MAX_FIELDS = 50
_CLIENT_PARAMETERS = frozenset(
    {
        *("response_type", "client_id", "redirect_uri", "scope", "state", "resource", "prompt"),
        *("code_challenge", "code_challenge_method", "dpop_jkt", "request", "request_uri", "response_mode"),
    }
)


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization request in progress: kept until its response arrives, and used for one response only."""

    url: str
    """The URL to open in the browser."""
    issuer: str
    iss_expected: bool
    """The server declares that its responses name it (RFC 9207)."""
    client_id: str
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...]
    state: str
    verifier: str

    def __repr__(self) -> str:
        return f"AuthorizationRequest(issuer={self.issuer!r}, resource={self.resource!r})"


def build_request(
    server: AuthorizationServer,
    client: OAuthClient,
    *,
    redirect_uri: str,
    resource: str,
    scope: Iterable[str],
    random: Random,
    dpop_thumbprint: str | None = None,
) -> AuthorizationRequest:
    """Build an authorization request; a server that does not support PKCE is refused."""
    server.check_pkce()
    client = client.at(server.issuer)
    check_redirect(redirect_uri)
    endpoint = server.authorization_endpoint
    if endpoint is None:
        raise AuthorizationFailed(
            f"{printable(server.issuer)} has no authorization_endpoint, so that nobody can log in there"
        )
    fixed_parameters = {name for name, _ in parse_qsl(urlsplit(endpoint).query, keep_blank_values=True)}
    if fixed_parameters & _CLIENT_PARAMETERS:
        raise Untrusted(
            f"The authorization_endpoint of {printable(server.issuer)} sets parameters that the client must set itself"
        )
    verifier, state, requested_scopes = new_code_verifier(random), encode64(random(32)), scopes.check_scopes(scope)
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": pkce_challenge(verifier),
        "code_challenge_method": PKCE_METHOD,
        "resource": resource,
    }
    if requested_scopes:
        fields["scope"] = " ".join(requested_scopes)
    if scopes.OFFLINE in requested_scopes:
        fields["prompt"] = "consent"  # OpenID Connect Core, section 11: without it, the scope is ignored
    if dpop_thumbprint is not None:
        fields["dpop_jkt"] = dpop_thumbprint
    return AuthorizationRequest(
        url=f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}",
        issuer=server.issuer,
        iss_expected=server.authorization_response_iss_parameter_supported,
        client_id=client.id,
        redirect_uri=redirect_uri,
        resource=resource,
        scopes=requested_scopes,
        state=state,
        verifier=verifier,
    )


def read_response(request: AuthorizationRequest, response: str) -> str:
    """The code in an authorization response: the URL that the browser was redirected to, or its query.

    Nothing in a response is used or shown before it is known to be for this request, and from its server.
    """
    fields = _fields(response)
    if not compare_digest(fields.get("state", "").encode(errors="replace"), request.state.encode()):
        raise Untrusted("The authorization response is for another request than the one made here (state)")
    issuer = fields.get("iss")
    if issuer is None and request.iss_expected:
        raise Untrusted(f"The authorization response does not say that it is from {printable(request.issuer)} (iss)")
    if issuer is not None and issuer != request.issuer:
        raise Untrusted(f"The authorization response is not from {printable(request.issuer)} (iss)")
    if "error" in fields:
        raise Denied(fields["error"], fields.get("error_description", ""))
    code = fields.get("code")
    if not code:
        raise AuthorizationFailed("The authorization response has no code")
    return code


def _fields(response: str) -> dict[str, str]:
    if len(response) > MAX_RESPONSE:
        raise Untrusted("The authorization response is too long")
    try:
        query = urlsplit(response).query if response.startswith(("http://", "https://")) else response.removeprefix("?")
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Untrusted("The authorization response cannot be read, or has too many parameters") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Untrusted("The authorization response has a parameter twice")  # RFC 6749, section 3.1
    return fields
