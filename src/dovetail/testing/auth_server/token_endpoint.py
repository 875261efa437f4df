"""The token endpoint: what a client gets for a code, for a refresh token, or for itself.

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
from .codes import Codes, UsedTwice
from .errors import Problem, needed
from .tokens import Mint, Right

OPENID = "openid"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client that has proved who it is."""

    fields: dict[str, str]
    client: KnownClient
    issuer: str
    now: float
    seconds: int
    """How long an access token is to live."""
    jkt: str | None
    """The key to bind tokens to, of which there was a proof."""


class Given(msgspec.Struct, frozen=True):
    """What a grant has given."""

    right: Right
    document: dict[str, Any]


class Grants:
    """All that has been given, and the ways to more."""

    def __init__(self, random: Random, key: SigningKey, offer: Offer) -> None:
        self.codes = Codes(random)
        self.mint = Mint(random, key)
        self._offer = offer
        self._ways: dict[str, _Way] = {CODE: self._code, REFRESH: self._refresh, CREDENTIALS: self._credentials}

    def give(self, request: Request) -> Given:
        """Tokens, for what the request brings."""
        kind = needed(request.fields, "grant_type")
        way = self._ways.get(kind)
        if way is None:
            raise Problem("unsupported_grant_type", f"There is {', '.join(self._ways)} here")
        if kind not in request.client.grants:
            raise Problem("unauthorized_client", f"This client is not one for {kind}")
        return way(request)

    def _code(self, request: Request) -> Given:
        family = self.mint.new_name()
        try:
            allowed = self.codes.redeem(request.fields, request.client, family, request.now)
        except UsedTwice as problem:
            self.mint.revoke_family(problem.family)
            raise
        asked = allowed.asked
        if asked.jkt not in (None, request.jkt):
            raise Problem("invalid_dpop_proof", "The login was begun for another key")
        _check_resource(request, asked.resource)
        right = Right(
            subject=allowed.user,
            client_id=asked.client.id,
            resource=asked.resource,
            scopes=allowed.scopes,
            jkt=request.jkt,
        )
        self.mint.begin(family, right, request.now)
        given = self._tokens(request, family, right)
        if OPENID in right.scopes:
            given["id_token"] = self._id_token(request, allowed.user, asked.nonce)
        return Given(right, given)

    def _refresh(self, request: Request) -> Given:
        family, right = self.mint.renew(needed(request.fields, "refresh_token"), request.client.id, request.now)
        if right.jkt != request.jkt:
            raise Problem("invalid_dpop_proof", "The refresh token is bound to another key, or to none")
        _check_resource(request, right.resource)
        asked = scopes.split(request.fields.get("scope", ""))
        if not set(asked) <= set(right.scopes):
            raise Problem("invalid_scope", "A renewal gives no more than there was before")
        return Given(right, self._tokens(request, family, msgspec.structs.replace(right, scopes=asked or right.scopes)))

    def _credentials(self, request: Request) -> Given:
        right = Right(
            subject=request.client.id,
            client_id=request.client.id,
            resource=self._offer.choose_resource(request.fields.get("resource")),
            scopes=self._offer.choose_scopes(request.fields.get("scope", "")),
            jkt=request.jkt,
        )
        family = self.mint.new_name()
        self.mint.begin(family, right, request.now)
        return Given(right, self._tokens(request, family, right))

    def _tokens(self, request: Request, family: str, right: Right) -> dict[str, Any]:
        given: dict[str, Any] = {
            "access_token": self.mint.access(request.issuer, family, right, request.now, request.seconds),
            "token_type": "Bearer" if right.jkt is None else "DPoP",
            "expires_in": request.seconds,
            "scope": " ".join(right.scopes),
        }
        if REFRESH in request.client.grants:
            given["refresh_token"] = self.mint.refresh_token(family, request.now)
        return given

    def _id_token(self, request: Request, user: str, nonce: str | None) -> str:
        """Who the user is, for the client itself (OpenID Connect Core, section 2)."""
        claims: dict[str, Any] = {"iss": request.issuer, "sub": user, "aud": request.client.id}
        claims |= {"iat": int(request.now), "exp": ceil(request.now + request.seconds)}
        return jwt.sign({**claims, **({} if nonce is None else {"nonce": nonce})}, self.mint.key)


_Way: TypeAlias = Callable[[Request], Given]


def _check_resource(request: Request, resource: str) -> None:
    if request.fields.get("resource", resource) != resource:
        raise Problem("invalid_target", "The user agreed to tokens for another resource")
