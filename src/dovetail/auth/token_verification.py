"""Verification of access tokens by a server: signature, issuer, audience, lifetime, DPoP binding.

2026-07-28 authorization, "Token Handling", and security considerations, "Access Token Privilege Restriction": a token
that was not issued for this server is refused, even if it is valid elsewhere. RFC 9068; RFC 7662; RFC 9449, section 7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError

from . import jwt, scopes
from .client_authentication import authenticate
from .dpop import Proof
from .errors import AuthorizationFailed, TokenRefused, printable
from .grants import TokenRequestContext
from .http import Document, Flow, get, post_form
from .jwk import ALGORITHMS, PublicKey, read_key_set

ACCESS_TYPES = ("at+jwt", "jwt", "")
"""Accepted `typ` headers: many servers still set none. Proofs and grants have other types."""
KEYS_SECONDS = 3600.0
KEYS_PAUSE = 30.0


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller, as an access token describes it."""

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    thumbprint: str | None = None
    """The thumbprint of the key that the token is bound to: it is accepted only with a DPoP proof of that key."""
    claims: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """A unique key of this principal, for example to bind a session to it."""
        return msgspec.json.encode([self.issuer, self.subject, self.client_id]).decode()

    def name_for_issuer(self, issuer: str | None) -> str:
        """A name for this principal that is unique where tokens of `issuer` are accepted: usually its subject.

        A subject is unique at its issuer only (RFC 7519, section 4.1.2), so that the subject of another issuer is
        combined with that issuer, in a form that no plain subject can have.
        """
        if self.issuer in (None, issuer) and not self.subject.startswith("["):
            return self.subject
        return msgspec.json.encode([self.issuer, self.subject]).decode()

    def lacks(self, wanted: Collection[str]) -> tuple[str, ...]:
        """The scopes among `wanted` that the token does not have."""
        return tuple(scope for scope in wanted if scope not in self.scopes)


class TokenRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for accepted tokens: issuer, audience, algorithms, clock leeway."""

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = jwt.LEEWAY

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience or not all(self.audience):
            raise LocalError("To verify tokens, an issuer and an audience are required (issuer, audience)")
        unknown = set(self.algorithms) - set(ALGORITHMS)
        if unknown or not self.algorithms:
            raise LocalError(
                f"Algorithms are some of {', '.join(ALGORITHMS)}, not {', '.join(sorted(unknown)) or 'none'}"
            )

    def check(
        self, token: str, keys: Collection[PublicKey], now: float, audience: Collection[str] | None = None
    ) -> Principal:
        """Verify a signed token; raises `TokenRefused`, or `UnknownKey` if fetching the keys again may help.

        `audience` is for a part of a server with an audience of its own; without any, each token is refused.
        """
        claims = jwt.verify(token, keys, typ=ACCESS_TYPES, algorithms=self.algorithms)
        accepted = self.audience if audience is None else audience
        jwt.check_claims(claims, now=now, issuer=self.issuer, audience=accepted, leeway=self.leeway)
        return principal_from_claims(claims)


class IssuerKeys(msgspec.Struct, frozen=True):
    """The public keys of an issuer, with the time they were fetched."""

    keys: tuple[PublicKey, ...] = ()
    fetched_at: float = float("-inf")

    def is_due(self, now: float, *, unknown: bool = False) -> bool:
        """True if it is time to fetch them again: after an hour, or after half a minute if a token has an unknown key.

        Without that pause, anybody could make the server send requests to the issuer at any rate.
        """
        return now - self.fetched_at >= (KEYS_PAUSE if unknown else KEYS_SECONDS)


class TokenTable:
    """Fixed tokens, for development; only their digests are stored."""

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        for token, principal in tokens.items():
            if not token.strip():
                raise LocalError(f"The token of {principal.subject!r} is empty")
        self._known = {_digest(token): principal for token, principal in tokens.items()}

    def check(self, token: str) -> Principal:
        """The principal of a token; raises `TokenRefused` for an unknown one."""
        principal = self._known.get(_digest(token))
        if principal is None:
            raise TokenRefused("The token is not known")
        return principal


def fetch_keys(url: str, now: float) -> Flow[IssuerKeys]:
    """Fetch the keys at the `jwks_uri` of an issuer."""
    response = yield get(url)
    if response.status != 200:
        raise AuthorizationFailed(f"{printable(url)} answered {response.status} instead of keys")
    document = Document.read(response.body, f"The set of keys at {printable(url)}")
    return IssuerKeys(read_key_set(document.fields), now)


def introspect(context: TokenRequestContext, token: str, audience: Collection[str] | None = None) -> Flow[Principal]:
    """Introspect a token at the authorization server (RFC 7662).

    Without an `audience`, that of the token is still to be checked (`check_audience`).
    """
    endpoint = context.server.introspection_endpoint
    if endpoint is None or context.client is None:
        raise LocalError("Introspection needs a server with an introspection endpoint, and a client")
    headers, credentials = authenticate(context.server, context.client, now=context.now, random=context.random)
    response = yield post_form(endpoint, [("token", token), ("token_type_hint", "access_token"), *credentials], headers)
    if response.status != 200:
        raise AuthorizationFailed(f"{printable(endpoint)} answered {response.status}")
    claims = Document.read(response.body, f"The response of {printable(endpoint)}").fields
    if claims.get("active") is not True:
        raise TokenRefused("The token is not active")
    if claims.get("iss") not in (None, context.server.issuer):
        raise TokenRefused("The token is of another issuer")
    if audience is not None:
        check_audience(claims, audience)
    if claims.get("exp") is not None:
        jwt.check_times(claims, context.now)
    return principal_from_claims({"iss": context.server.issuer, **claims})


def check_audience(claims: dict[str, Any], audience: Collection[str]) -> None:
    """Refuse a token of which no audience is among the accepted ones."""
    if not jwt.audiences(claims).intersection(audience):
        raise TokenRefused("The token is for another audience")


def principal_from_claims(claims: dict[str, Any]) -> Principal:
    """The principal that verified claims describe."""
    client = _text(claims, "client_id") or _text(claims, "azp")
    subject = _text(claims, "sub") or client
    if subject is None:
        raise TokenRefused("The token has no subject")
    bound: Any = claims.get("cnf")
    thumbprint: Any = None
    if bound is not None:
        thumbprint = cast("dict[str, Any]", bound).get("jkt") if isinstance(bound, dict) else None
        if not isinstance(thumbprint, str):
            raise TokenRefused("The token is bound to a key by an unsupported method")
    return Principal(
        subject=subject,
        issuer=_text(claims, "iss"),
        client_id=client,
        scopes=_scopes(claims),
        expires_at=jwt.time_claim(claims, "exp"),
        thumbprint=thumbprint,
        claims=claims,
    )


def check_binding(principal: Principal, scheme: str, proof: Proof | None) -> None:
    """Refuse a DPoP-bound token without a proof of its key, also if it is sent as a bearer token (section 7.1)."""
    if principal.thumbprint is None and scheme.lower() == "bearer":
        return
    if principal.thumbprint is None or scheme.lower() != "dpop" or proof is None:
        raise TokenRefused(
            "The token does not fit the authentication scheme: a DPoP-bound token needs DPoP and a proof"
        )
    if not compare_digest(principal.thumbprint.encode(), proof.thumbprint.encode()):
        raise TokenRefused("The token is bound to another key")


def _scopes(claims: dict[str, Any]) -> tuple[str, ...]:
    value: Any = claims.get("scope", claims.get("scp"))
    if isinstance(value, str):
        return scopes.split(value)
    if isinstance(value, list):
        return scopes.valid_scopes(each for each in cast("list[Any]", value) if isinstance(each, str))
    return ()


def _text(claims: dict[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 2048:
        raise TokenRefused(f"The {name} of the token is not a string")
    return value


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()
