"""Who shows a token to a server of ours, and what the token lets them do.

2026-07-28 authorization, "Token Handling", and security considerations, "Access Token Privilege Restriction": a token
that is not meant for this server is refused, however valid it is elsewhere. RFC 9068; RFC 7662; RFC 9449, section 7.
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
from .errors import AuthorizationFailed, TokenRefused, plain
from .grants import Means
from .http import Document, Flow, get, post_form
from .jwk import ALGORITHMS, PublicKey, read_key_set

ACCESS_TYPES = ("at+jwt", "jwt", "")
"""Types that an access token may have: many servers still name none. That of a proof or of a grant is another."""
KEYS_SECONDS = 3600.0
KEYS_PAUSE = 30.0


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who a token speaks for."""

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    thumbprint: str | None = None
    """The key that the token is bound to; it is of no use without a proof of that key."""
    claims: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """What tells this principal from all others, such as for a session that belongs to it."""
        return msgspec.json.encode([self.issuer, self.subject, self.client_id]).decode()

    def name_to(self, issuer: str | None) -> str:
        """What those who accept tokens of one issuer call this principal: its subject, unless it is another's.

        A subject is unique at its issuer only (RFC 7519, section 4.1.2), so that of another has the issuer with it; no
        subject of one's own can look like that.
        """
        if self.issuer in (None, issuer) and not self.subject.startswith("["):
            return self.subject
        return msgspec.json.encode([self.issuer, self.subject]).decode()

    def lacks(self, wanted: Collection[str]) -> tuple[str, ...]:
        """Those of the scopes that the token does not have."""
        return tuple(scope for scope in wanted if scope not in self.scopes)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens are accepted: of one issuer, and meant for us."""

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = jwt.LEEWAY

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience or not all(self.audience):
            raise LocalError(
                "To check tokens, an issuer and an audience are needed: whose they are, and whom they are for"
            )
        unknown = set(self.algorithms) - set(ALGORITHMS)
        if unknown or not self.algorithms:
            raise LocalError(
                f"Algorithms are some of {', '.join(ALGORITHMS)}, not {', '.join(sorted(unknown)) or 'none'}"
            )

    def check(self, token: str, keys: Collection[PublicKey], now: float) -> Principal:
        """Who a signed token speaks for; raises `TokenRefused`, as `UnknownKey` where newer keys may help."""
        claims = jwt.verify(token, keys, typ=ACCESS_TYPES, algorithms=self.algorithms)
        jwt.check_claims(claims, now=now, issuer=self.issuer, audience=self.audience, leeway=self.leeway)
        return principal(claims)


class KeyStore(msgspec.Struct, frozen=True):
    """The keys of an issuer, and when they were fetched."""

    keys: tuple[PublicKey, ...] = ()
    fetched_at: float = float("-inf")

    def due(self, now: float, *, unknown: bool = False) -> bool:
        """Whether to fetch them again: after an hour, or for a key not seen before, but then not at once.

        Otherwise anybody could make us ask the issuer as often as they like.
        """
        return now - self.fetched_at >= (KEYS_PAUSE if unknown else KEYS_SECONDS)


class StaticTokens:
    """Fixed tokens, for development; only their digests are kept."""

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        if not all(tokens):
            raise LocalError("A token cannot be empty")
        self._known = {_digest(token): who for token, who in tokens.items()}

    def check(self, token: str) -> Principal:
        """Who a token belongs to."""
        found = self._known.get(_digest(token))
        if found is None:
            raise TokenRefused("The token is not known")
        return found


def fetch_keys(url: str, now: float) -> Flow[KeyStore]:
    """The keys at the `jwks_uri` of an issuer."""
    response = yield get(url)
    if response.status != 200:
        raise AuthorizationFailed(f"{plain(url)} answered {response.status} instead of keys")
    document = Document.read(response.body, f"The set of keys at {plain(url)}")
    return KeyStore(read_key_set(document.fields), now)


def introspect(means: Means, token: str, audience: Collection[str]) -> Flow[Principal]:
    """Ask the authorization server who a token speaks for (RFC 7662); it too must be meant for us."""
    endpoint = means.server.introspection_endpoint
    if endpoint is None or means.client is None:
        raise LocalError("To ask about tokens, an introspection endpoint and a client are needed")
    headers, known = authenticate(means.server, means.client, now=means.now, random=means.random)
    response = yield post_form(endpoint, [("token", token), ("token_type_hint", "access_token"), *known], headers)
    if response.status != 200:
        raise AuthorizationFailed(f"{plain(endpoint)} answered {response.status}")
    claims = Document.read(response.body, f"The answer of {plain(endpoint)}").fields
    if claims.get("active") is not True:
        raise TokenRefused("The token is not active")
    if claims.get("iss") not in (None, means.server.issuer):
        raise TokenRefused("The token is of another issuer")
    if not jwt.audiences(claims).intersection(audience):
        raise TokenRefused("The token is for another audience")
    if claims.get("exp") is not None:
        jwt.check_times(claims, means.now)
    return principal({"iss": means.server.issuer, **claims})


def principal(claims: dict[str, Any]) -> Principal:
    """Who claims that were checked speak for."""
    client = _text(claims, "client_id") or _text(claims, "azp")
    subject = _text(claims, "sub") or client
    if subject is None:
        raise TokenRefused("The token does not say whom it is about")
    bound: Any = claims.get("cnf")
    thumbprint: Any = None
    if bound is not None:
        thumbprint = cast("dict[str, Any]", bound).get("jkt") if isinstance(bound, dict) else None
        if not isinstance(thumbprint, str):
            raise TokenRefused("The token is bound to something that cannot be checked")
    return Principal(
        subject=subject,
        issuer=_text(claims, "iss"),
        client_id=client,
        scopes=_scopes(claims),
        expires_at=jwt.moment(claims, "exp"),
        thumbprint=thumbprint,
        claims=claims,
    )


def check_binding(who: Principal, scheme: str, proof: Proof | None) -> None:
    """Refuse a token that is bound to a key and comes without it, also when it comes as a plain one (section 7.1)."""
    if who.thumbprint is None and scheme.lower() == "bearer":
        return
    if who.thumbprint is None or scheme.lower() != "dpop" or proof is None:
        raise TokenRefused("The token and the way it is shown do not fit")
    if not compare_digest(who.thumbprint.encode(), proof.thumbprint.encode()):
        raise TokenRefused("The token is bound to another key")


def _scopes(claims: dict[str, Any]) -> tuple[str, ...]:
    value: Any = claims.get("scope", claims.get("scp"))
    if isinstance(value, str):
        return scopes.split(value)
    if isinstance(value, list):
        return scopes.cleaned(each for each in cast("list[Any]", value) if isinstance(each, str))
    return ()


def _text(claims: dict[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 2048:
        raise TokenRefused(f"The {name} of the token is not a text")
    return value


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()
