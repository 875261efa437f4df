"""The ways to a token: each a flow of one request to the token endpoint, or of two where a nonce is asked for.

RFC 6749, sections 4.1.3, 4.4 and 6; RFC 7009; RFC 7523, section 2.1; RFC 8693; RFC 8707; RFC 9449, section 5. The
extensions "OAuth Client Credentials" and "Enterprise-Managed Authorization". A grant that is refused is not tried
again, and no other is tried in its place.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .authorization_code import Login
from .client_authentication import Client, authenticate
from .dpop import Prover
from .errors import AuthorizationFailed, Untrusted, plain
from .http import Flow, Random, Response, post_form
from .metadata import AuthorizationServer
from .tokens import Tokens, error_of, read_tokens

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
SAML2 = "urn:ietf:params:oauth:token-type:saml2"


class Means(msgspec.Struct, frozen=True):
    """What every grant needs: where, who, when, and chance."""

    server: AuthorizationServer
    client: Client | None
    """None only where an assertion alone is enough."""
    now: float
    random: Random
    prover: Prover | None = None
    """The key to bind tokens to; a token that is not bound is then refused."""


def exchange_code(means: Means, login: Login, code: str) -> Flow[Tokens]:
    """Exchange the code of a login, at the server where the login was begun and nowhere else."""
    if means.client is None or means.server.issuer != login.issuer or means.client.id != login.client_id:
        raise Untrusted("A code is exchanged only where, and by whom, the login was begun")
    fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", login.redirect_uri),
        ("code_verifier", login.verifier),
    ]
    return (yield from _token(means, fields, login.resource))


def refresh(means: Means, tokens: Tokens, resource: str) -> Flow[Tokens]:
    """Another access token; where the refresh token is rotated, the new one is in the result, else the old one."""
    if tokens.refresh_token is None:
        raise AuthorizationFailed("There is no refresh token: log in again")
    fields = [("grant_type", "refresh_token"), ("refresh_token", tokens.refresh_token)]
    return (yield from _token(means, fields, resource)).after(tokens)


def client_credentials(means: Means, resource: str, scope: Iterable[str] = ()) -> Flow[Tokens]:
    """A token for the client itself."""
    client = means.client
    if client is None or (client.secret is None and client.key is None):
        raise AuthorizationFailed("A client needs a secret or a key to get a token for itself")
    return (yield from _token(means, [("grant_type", "client_credentials")], resource, scope))


def jwt_bearer(means: Means, assertion: str, resource: str, scope: Iterable[str] = ()) -> Flow[Tokens]:
    """A token for who an assertion is about: a workload, or the user in an identity assertion grant."""
    return (yield from _token(means, [("grant_type", JWT_BEARER), ("assertion", assertion)], resource, scope))


def identity_assertion(
    means: Means,
    subject_token: str,
    *,
    audience: str,
    resource: str,
    scope: Iterable[str] = (),
    subject_token_type: str = ID_TOKEN,
) -> Flow[str]:
    """At the identity provider: exchange what it said of the user for a grant, to show to `jwt_bearer` elsewhere.

    `audience` is the issuer of the server's authorization server, and `resource` what the server calls itself.
    """
    fields = [
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", audience),
        ("subject_token", subject_token),
        ("subject_token_type", subject_token_type),
    ]
    response = yield from _post(means, fields, resource, scope, None)
    found = read_tokens(response, _endpoint(means.server), now=means.now, types=("N_A",))
    if found.issued_token_type != ID_JAG:
        raise Untrusted(f"{plain(means.server.issuer)} issued another kind of token than was asked for")
    return found.access_token


def revoke(means: Means, token: str, hint: str) -> Flow[bool]:
    """Tell the server that a token is not needed any more; whether it took note.

    `hint` is `refresh_token` or `access_token`.
    """
    endpoint = means.server.revocation_endpoint
    if endpoint is None or means.client is None:
        return False
    headers, known = authenticate(means.server, means.client, now=means.now, random=means.random)
    response = yield post_form(endpoint, [("token", token), ("token_type_hint", hint), *known], headers)
    return response.status == 200


def _token(means: Means, fields: list[tuple[str, str]], resource: str, scope: Iterable[str] = ()) -> Flow[Tokens]:
    response = yield from _post(means, fields, resource, scope, means.prover)
    types = ("Bearer",) if means.prover is None else ("DPoP",)
    return read_tokens(response, _endpoint(means.server), now=means.now, types=types)


def _post(
    means: Means, fields: list[tuple[str, str]], resource: str, scope: Iterable[str], prover: Prover | None
) -> Flow[Response]:
    endpoint = _endpoint(means.server)
    wanted = " ".join(scope)
    form = [*fields, ("resource", resource), *([("scope", wanted)] if wanted else [])]
    accepted = means.server.dpop_signing_alg_values_supported
    if prover is not None and accepted and prover.key.alg not in accepted:
        raise AuthorizationFailed(f"{plain(means.server.issuer)} takes no proofs that are signed with {prover.key.alg}")
    response: Response | None = None
    for first in (True, False):
        headers, known = {}, []
        if means.client is not None:
            headers, known = authenticate(means.server, means.client, now=means.now, random=means.random)
        if prover is not None:
            headers["dpop"] = prover.prove("POST", endpoint, now=means.now, random=means.random)
        response = yield post_form(endpoint, [*form, *known], headers)
        news = prover is not None and prover.learn(endpoint, response.headers)
        problem = error_of(response, "The answer") if first and news else None
        if problem is None or problem.error != "use_dpop_nonce":
            break
    assert response is not None
    return response


def _endpoint(server: AuthorizationServer) -> str:
    if server.token_endpoint is None:
        raise AuthorizationFailed(f"{plain(server.issuer)} has no token endpoint")
    return server.token_endpoint
