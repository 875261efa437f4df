"""DPoP: tokens bound to a key, and proofs that a request comes from the holder of that key.

RFC 9449. Each request has its own proof, made for its method and URL; a server accepts each proof once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from . import url_guard
from .errors import TokenRefused
from .http import Random
from .jwk import ALGORITHMS, PublicKey, SigningKey, encode64
from .jwt import check_header, parse_unverified, sign, time_claim

TYPE = "dpop+jwt"
MAX_AGE = 60.0
"""Seconds for which a proof is accepted."""
MAX_AHEAD = 5.0
MAX_NONCE = 1024
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class Prover:
    """Makes proofs with one key, and stores the newest nonce of each server."""

    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self._nonces: dict[tuple[str, str, int], str] = {}

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the key, as a bound token contains it."""
        return self.key.public.thumbprint

    def prove(self, method: str, url: str, *, now: float, random: Random, token: str | None = None) -> str:
        """Make the proof for one request (section 4.2), and for the token that is sent with it."""
        claims: dict[str, Any] = {"jti": encode64(random(16)), "htm": method, "htu": request_url(url), "iat": int(now)}
        if token is not None:
            claims["ath"] = token_hash(token)
        nonce = self._nonces.get(url_guard.origin(urlsplit(url)))
        if nonce is not None:
            claims["nonce"] = nonce
        return sign(claims, self.key, TYPE, {"jwk": self.key.public.jwk})

    def store_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Store the nonce of a response for the next request (section 8.2); True if it is new."""
        nonce, origin = headers.get("dpop-nonce"), url_guard.origin(urlsplit(url))
        if not nonce or len(nonce) > MAX_NONCE or self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        return True


class Proof(msgspec.Struct, frozen=True):
    """A valid proof; a replay cache must still check that it was not used before."""

    thumbprint: str
    """The thumbprint of its key; the token must be bound to the same key (`cnf.jkt`)."""
    id: str
    """A unique id of bounded length, made from key and `jti`."""
    until: float
    """The time after which it is refused anyway, and a replay cache can forget it."""


def verify(
    proof: str,
    method: str,
    url: str,
    *,
    now: float,
    token: str | None = None,
    thumbprint: str | None = None,
    nonces: Collection[str] | None = None,
    algorithms: Collection[str] = ALGORITHMS,
) -> Proof:
    """Verify the proof of a request (section 4.3); `UsedProofs` or a store must refuse repeated ones.

    `token` is the access token sent with it, and `thumbprint` the key that the token is bound to. `nonces` are the
    current nonces of this server; None requires no nonce.
    """
    parts = parse_unverified(proof)
    check_header(parts.header, (TYPE,), algorithms)
    jwk: Any = parts.header.get("jwk")
    if not isinstance(jwk, dict) or _PRIVATE & set(cast("dict[str, Any]", jwk)):
        raise TokenRefused("The proof does not contain its public key")
    key = PublicKey(cast("dict[str, Any]", jwk))
    if key.alg != parts.header["alg"] or not key.verify(parts.signed, parts.signature):
        raise TokenRefused("The signature of the proof is not valid")
    claims = parts.claims
    jti, issued_at = claims.get("jti"), time_claim(claims, "iat")
    if not isinstance(jti, str) or not jti:
        raise TokenRefused("The proof has no identifier")
    if claims.get("htm") != method or not _same_target(claims.get("htu"), url):
        raise TokenRefused("The proof is for another request")
    if issued_at is None or not now - MAX_AGE <= issued_at <= now + MAX_AHEAD:
        raise TokenRefused("The proof is too old, or from the future")
    if token is not None and not _equal(claims.get("ath"), token_hash(token)):
        raise TokenRefused("The proof is for another token")
    if thumbprint is not None and not _equal(key.thumbprint, thumbprint):
        raise TokenRefused("The token is bound to another key")
    if nonces is not None and claims.get("nonce") not in nonces:
        raise NonceNeeded("The proof has no nonce of this server, or an old one")
    id = encode64(sha256(f"{key.thumbprint}\0{jti}".encode(errors="replace")).digest())
    return Proof(key.thumbprint, id, issued_at + MAX_AGE + MAX_AHEAD)


class NonceNeeded(TokenRefused):
    """The client must retry with the nonce in the response (`use_dpop_nonce`)."""


class UsedProofs:
    """Remembers used proofs until they expire, in memory; if it is full, all proofs are refused."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._expiry_by_id: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._expiry_by_id)

    def admit(self, proof: Proof, now: float) -> None:
        """Accept a proof once; raises `TokenRefused` if it was used before or if the cache is full."""
        while self._expiry_by_id and next(iter(self._expiry_by_id.values())) <= now:
            self._expiry_by_id.popitem(last=False)
        if self._expiry_by_id.get(proof.id, 0) > now:
            raise TokenRefused("The proof was used before")
        if len(self._expiry_by_id) >= self._most:
            raise TokenRefused("Too many proofs at once")
        self._expiry_by_id[proof.id] = proof.until
        self._expiry_by_id.move_to_end(proof.id)


def request_url(url: str) -> str:
    """The URL of a request as a proof contains it (`htu`): without query and fragment."""
    return url.partition("#")[0].partition("?")[0]


def token_hash(token: str) -> str:
    """The hash of the access token in a proof (`ath`)."""
    return encode64(sha256(token.encode()).digest())


def _equal(one: object, other: str) -> bool:
    return isinstance(one, str) and compare_digest(one.encode(errors="replace"), other.encode())


def _same_target(named: object, url: str) -> bool:
    if not isinstance(named, str):
        return False
    try:
        one, other = urlsplit(request_url(named)), urlsplit(request_url(url))
        return url_guard.origin(one) == url_guard.origin(other) and (one.path or "/") == (other.path or "/")
    except ValueError:
        return False
