"""OAuth grants: each is a flow of one request to the token endpoint, or of two if the server requires a nonce.

RFC 6749, sections 4.1.3, 4.4 and 6; RFC 7009; RFC 7523, section 2.1; RFC 8693; RFC 8707; RFC 9449, section 5. The
extensions "OAuth Client Credentials" and "Enterprise-Managed Authorization". A grant that is refused is
not retried, and no other is tried in its place.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .authorization_code import AuthorizationRequest
from .client_authentication import OAuthClient, authenticate
from .dpop import Prover
from .errors import AuthorizationFailed, Untrusted, printable
from .http import Flow, OAuthResponse, Random, post_form
from .metadata import AuthorizationServer
from .tokens import Tokens, read_tokens, token_error

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT = "urn:ietf:params:oauth:token-type:jwt"


class TokenRequestContext(msgspec.Struct, frozen=True):
    """Server metadata, client, clock and random source of a request to the token endpoint."""

    server: AuthorizationServer
    client: OAuthClient | None
    """None only if an assertion alone is enough."""
    now: float
    random: Random
    prover: Prover | None = None
    """The DPoP key to bind tokens to; a token that is not bound is then refused."""


def exchange_code(context: TokenRequestContext, request: AuthorizationRequest, code: str) -> Flow[Tokens]:
    """Exchange an authorization code, only at the server and with the client of the authorization request."""
    if context.client is None or context.server.issuer != request.issuer or context.client.id != request.client_id:
        raise Untrusted("An authorization code is exchanged only at the server, and by the client, of its request")
    fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", request.redirect_uri),
        ("code_verifier", request.verifier),
    ]
    return (yield from _token(context, fields, request.resource))


def refresh(context: TokenRequestContext, tokens: Tokens, resource: str) -> Flow[Tokens]:
    """Get a new access token; the result has the new refresh token if it was rotated, else the old one."""
    if tokens.refresh_token is None:
        raise AuthorizationFailed("There is no refresh token: log in again")
    fields = [("grant_type", "refresh_token"), ("refresh_token", tokens.refresh_token)]
    return (yield from _token(context, fields, resource)).merged_with(tokens)


def client_credentials(context: TokenRequestContext, resource: str, scope: Iterable[str] = ()) -> Flow[Tokens]:
    """Get a token for the client itself."""
    client = context.client
    if client is None or (client.secret is None and client.key is None):
        raise AuthorizationFailed("The client credentials grant needs a client with a secret or a key")
    return (yield from _token(context, [("grant_type", "client_credentials")], resource, scope))


def jwt_bearer(context: TokenRequestContext, assertion: str, resource: str, scope: Iterable[str] = ()) -> Flow[Tokens]:
    """Get a token for the subject of an assertion: a workload, or the user of an identity assertion grant."""
    return (yield from _token(context, [("grant_type", JWT_BEARER), ("assertion", assertion)], resource, scope))


def identity_assertion(
    context: TokenRequestContext,
    subject_token: str,
    *,
    audience: str,
    resource: str,
    scope: Iterable[str] = (),
    subject_token_type: str = ID_TOKEN,
) -> Flow[str]:
    """Exchange a token of the identity provider for an identity assertion grant, to use with `jwt_bearer`.

    `audience` is the issuer of the MCP server's authorization server, and `resource` the identifier of the MCP server.
    """
    fields = [
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", audience),
        ("subject_token", subject_token),
        ("subject_token_type", subject_token_type),
    ]
    response = yield from _post(context, fields, resource, scope, None)
    tokens = read_tokens(response, _endpoint(context.server), now=context.now, types=("N_A",))
    if tokens.issued_token_type != ID_JAG:
        raise Untrusted(f"{printable(context.server.issuer)} issued another type of token than requested")
    return tokens.access_token


def token_exchange(
    context: TokenRequestContext,
    subject_token: str,
    resource: str,
    scope: Iterable[str] = (),
    *,
    audience: str | None = None,
) -> Flow[Tokens]:
    """Exchange the access token of a caller for one that is for another resource, in the name of the same subject.

    RFC 8693, section 2. The issued token is never the one that was given, which is for us only.
    """
    fields = [
        ("grant_type", TOKEN_EXCHANGE),
        ("subject_token", subject_token),
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
        *([("audience", audience)] if audience is not None else []),
    ]
    tokens = yield from _token(context, fields, resource, scope)
    if tokens.issued_token_type not in (ACCESS_TOKEN, JWT):
        raise Untrusted(f"{printable(context.server.issuer)} issued another type of token than requested")
    if tokens.access_token == subject_token:
        raise Untrusted(f"{printable(context.server.issuer)} returned the token that it was to exchange")
    return tokens


def revoke(context: TokenRequestContext, token: str, hint: str) -> Flow[bool]:
    """Revoke a token; True if the server confirmed it. `hint` is `refresh_token` or `access_token`."""
    endpoint = context.server.revocation_endpoint
    if endpoint is None or context.client is None:
        return False
    headers, credentials = authenticate(context.server, context.client, now=context.now, random=context.random)
    response = yield post_form(endpoint, [("token", token), ("token_type_hint", hint), *credentials], headers)
    return response.status == 200


def _token(
    context: TokenRequestContext, fields: list[tuple[str, str]], resource: str, scope: Iterable[str] = ()
) -> Flow[Tokens]:
    response = yield from _post(context, fields, resource, scope, context.prover)
    types = ("Bearer",) if context.prover is None else ("DPoP",)
    return read_tokens(response, _endpoint(context.server), now=context.now, types=types)


def _post(
    context: TokenRequestContext,
    fields: list[tuple[str, str]],
    resource: str,
    scope: Iterable[str],
    prover: Prover | None,
) -> Flow[OAuthResponse]:
    endpoint = _endpoint(context.server)
    scope_text = " ".join(scope)
    form = [*fields, ("resource", resource), *([("scope", scope_text)] if scope_text else [])]
    accepted = context.server.dpop_signing_alg_values_supported
    if prover is not None and accepted and prover.key.alg not in accepted:
        raise AuthorizationFailed(
            f"{printable(context.server.issuer)} accepts no DPoP proofs signed with {prover.key.alg}"
        )
    response: OAuthResponse | None = None
    for first in (True, False):
        headers, credentials = {}, []
        if context.client is not None:
            headers, credentials = authenticate(context.server, context.client, now=context.now, random=context.random)
        if prover is not None:
            headers["dpop"] = prover.prove("POST", endpoint, now=context.now, random=context.random)
        response = yield post_form(endpoint, [*form, *credentials], headers)
        has_new_nonce = prover is not None and prover.store_nonce(endpoint, response.headers)
        problem = token_error(response, "The response") if first and has_new_nonce else None
        if problem is None or problem.error != "use_dpop_nonce":
            break
    assert response is not None
    return response


def _endpoint(server: AuthorizationServer) -> str:
    if server.token_endpoint is None:
        raise AuthorizationFailed(f"{printable(server.issuer)} has no token endpoint")
    return server.token_endpoint
