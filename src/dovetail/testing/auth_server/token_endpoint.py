"""The token endpoint: grants for codes, refresh tokens and client credentials.

RFC 6749, sections 4.1.3, 4.4 and 6; RFC 8707, section 2.2; RFC 9449, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, TypeAlias

import msgspec

from dovetail.auth import jwt, scopes
from dovetail.auth.http import Random
from dovetail.auth.jwk import SigningKey

from .authorize_request import Offer
from .clients import CODE, CREDENTIALS, REFRESH, KnownClient
from .codes import CodeReused, Codes
from .errors import RequestError, required_field
from .tokens import AccessRight, TokenIssuer

OPENID = "openid"


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A token request of an authenticated client."""

    fields: dict[str, str]
    client: KnownClient
    issuer: str
    now: float
    seconds: int
    """Lifetime of the access token."""
    jkt: str | None
    """Thumbprint of the DPoP key to bind tokens to."""


class IssuedTokens(msgspec.Struct, frozen=True):
    """Tokens issued for a grant."""

    right: AccessRight
    document: dict[str, Any]


class GrantHandlers:
    """Issues tokens by grant type."""

    def __init__(self, random: Random, key: SigningKey, offer: Offer) -> None:
        self.codes = Codes(random)
        self.issuer = TokenIssuer(random, key)
        self._offer = offer
        self._handlers: dict[str, _GrantHandler] = {
            CODE: self._code,
            REFRESH: self._refresh,
            CREDENTIALS: self._credentials,
        }

    def issue(self, request: TokenRequest) -> IssuedTokens:
        """Issue tokens."""
        kind = required_field(request.fields, "grant_type")
        handler = self._handlers.get(kind)
        if handler is None:
            raise RequestError("unsupported_grant_type", f"Supported: {', '.join(self._handlers)}")
        if kind not in request.client.grants:
            raise RequestError("unauthorized_client", f"This client may not use {kind}")
        return handler(request)

    def _code(self, request: TokenRequest) -> IssuedTokens:
        family = self.issuer.new_id()
        try:
            approved = self.codes.redeem(request.fields, request.client, family, request.now)
        except CodeReused as problem:
            self.issuer.revoke_family(problem.family)
            raise
        authorization = approved.authorization
        if authorization.jkt not in (None, request.jkt):
            raise RequestError("invalid_dpop_proof", "The authorization request was made for another key")
        _check_resource(request, authorization.resource)
        right = AccessRight(
            subject=approved.user,
            client_id=authorization.client.id,
            resource=authorization.resource,
            scopes=approved.scopes,
            jkt=request.jkt,
        )
        self.issuer.begin(family, right, request.now)
        response = self._tokens(request, family, right)
        if OPENID in right.scopes:
            response["id_token"] = self._id_token(request, approved.user, authorization.nonce)
        return IssuedTokens(right, response)

    def _refresh(self, request: TokenRequest) -> IssuedTokens:
        family, right = self.issuer.renew(
            required_field(request.fields, "refresh_token"), request.client.id, request.now
        )
        if right.jkt != request.jkt:
            raise RequestError("invalid_dpop_proof", "The refresh token is bound to another key, or to none")
        _check_resource(request, right.resource)
        requested = scopes.split(request.fields.get("scope", ""))
        if not set(requested) <= set(right.scopes):
            raise RequestError("invalid_scope", "A refresh cannot add scopes")
        return IssuedTokens(
            right, self._tokens(request, family, msgspec.structs.replace(right, scopes=requested or right.scopes))
        )

    def _credentials(self, request: TokenRequest) -> IssuedTokens:
        right = AccessRight(
            subject=request.client.id,
            client_id=request.client.id,
            resource=self._offer.choose_resource(request.fields.get("resource")),
            scopes=self._offer.choose_scopes(request.fields.get("scope", "")),
            jkt=request.jkt,
        )
        family = self.issuer.new_id()
        self.issuer.begin(family, right, request.now)
        return IssuedTokens(right, self._tokens(request, family, right))

    def _tokens(self, request: TokenRequest, family: str, right: AccessRight) -> dict[str, Any]:
        response: dict[str, Any] = {
            "access_token": self.issuer.access(request.issuer, family, right, request.now, request.seconds),
            "token_type": "Bearer" if right.jkt is None else "DPoP",
            "expires_in": request.seconds,
            "scope": " ".join(right.scopes),
        }
        if REFRESH in request.client.grants:
            response["refresh_token"] = self.issuer.refresh_token(family, request.now)
        return response

    def _id_token(self, request: TokenRequest, user: str, nonce: str | None) -> str:
        """An ID token (OpenID Connect Core, section 2)."""
        claims: dict[str, Any] = {"iss": request.issuer, "sub": user, "aud": request.client.id}
        claims |= {"iat": int(request.now), "exp": ceil(request.now + request.seconds)}
        return jwt.sign({**claims, **({} if nonce is None else {"nonce": nonce})}, self.issuer.key)


_GrantHandler: TypeAlias = Callable[[TokenRequest], IssuedTokens]


def _check_resource(request: TokenRequest, resource: str) -> None:
    if request.fields.get("resource", resource) != resource:
        raise RequestError("invalid_target", "The user approved another resource")
