"""Tokens that are of use only to who holds a key: proofs that a request comes from there.

RFC 9449. Each request has a proof of its own, made for its method and URL; a server takes each proof once.
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
from .jwt import check_header, moment, sign, take_apart

TYPE = "dpop+jwt"
MAX_AGE = 60.0
"""How long a proof is taken, in seconds."""
MAX_AHEAD = 5.0
MAX_NONCE = 1024
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class Prover:
    """Makes proofs with one key, and keeps the newest nonce of each server."""

    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self._nonces: dict[tuple[str, str, int], str] = {}

    @property
    def thumbprint(self) -> str:
        """What a token that is bound to the key says of it."""
        return self.key.public.thumbprint

    def prove(self, method: str, url: str, *, now: float, random: Random, token: str | None = None) -> str:
        """A proof for one request (section 4.2), with the token that goes with it."""
        claims: dict[str, Any] = {"jti": encode64(random(16)), "htm": method, "htu": target(url), "iat": int(now)}
        if token is not None:
            claims["ath"] = token_hash(token)
        nonce = self._nonces.get(url_guard.origin(urlsplit(url)))
        if nonce is not None:
            claims["nonce"] = nonce
        return sign(claims, self.key, TYPE, {"jwk": self.key.public.jwk})

    def learn(self, url: str, headers: Mapping[str, str]) -> bool:
        """Keep the nonce of a response for the next request (section 8.2); whether it is a new one."""
        nonce, place = headers.get("dpop-nonce"), url_guard.origin(urlsplit(url))
        if not nonce or len(nonce) > MAX_NONCE or self._nonces.get(place) == nonce:
            return False
        self._nonces[place] = nonce
        return True


class Proof(msgspec.Struct, frozen=True):
    """A proof that is valid, if it was not used before."""

    thumbprint: str
    """Of the key that made it; a token must be bound to the same one (`cnf.jkt`)."""
    id: str
    """What tells it from all others, of a bounded length."""
    until: float
    """When it need not be remembered any more."""


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
    """Check a proof for a request (section 4.3); where it was used before is for `Replays`, or a store, to say.

    `token` is the access token that came with it, and `thumbprint` the key it is bound to. `nonces` are those of ours
    that are still good; None asks for none.
    """
    parts = take_apart(proof)
    check_header(parts.header, (TYPE,), algorithms)
    jwk: Any = parts.header.get("jwk")
    if not isinstance(jwk, dict) or _PRIVATE & set(cast("dict[str, Any]", jwk)):
        raise TokenRefused("The proof does not show its public key")
    key = PublicKey(cast("dict[str, Any]", jwk))
    if key.alg != parts.header["alg"] or not key.check(parts.signed, parts.signature):
        raise TokenRefused("The signature of the proof is not valid")
    claims = parts.claims
    jti, made = claims.get("jti"), moment(claims, "iat")
    if not isinstance(jti, str) or not jti:
        raise TokenRefused("The proof has no identifier")
    if claims.get("htm") != method or not _same_target(claims.get("htu"), url):
        raise TokenRefused("The proof is for another request")
    if made is None or not now - MAX_AGE <= made <= now + MAX_AHEAD:
        raise TokenRefused("The proof is too old, or from the future")
    if token is not None and not _same(claims.get("ath"), token_hash(token)):
        raise TokenRefused("The proof is for another token")
    if thumbprint is not None and not _same(key.thumbprint, thumbprint):
        raise TokenRefused("The token is bound to another key")
    if nonces is not None and claims.get("nonce") not in nonces:
        raise NonceNeeded("The proof has no nonce of this server's, or an old one")
    used = encode64(sha256(f"{key.thumbprint}\0{jti}".encode(errors="replace")).digest())
    return Proof(key.thumbprint, used, made + MAX_AGE + MAX_AHEAD)


class NonceNeeded(TokenRefused):
    """The client is to try again with the nonce that goes with the refusal (`use_dpop_nonce`)."""


class Replays:
    """Remembers proofs for as long as they could be used again; beyond a bound nothing is let in."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def admit(self, proof: Proof, now: float) -> None:
        """Take a proof, once."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        if self._until.get(proof.id, 0) > now:
            raise TokenRefused("The proof was used before")
        if len(self._until) >= self._most:
            raise TokenRefused("Too many proofs at once")
        self._until[proof.id] = proof.until
        self._until.move_to_end(proof.id)


def target(url: str) -> str:
    """A URL as a proof names it: without query and fragment."""
    return url.partition("#")[0].partition("?")[0]


def token_hash(token: str) -> str:
    """What a proof says of the token that goes with it."""
    return encode64(sha256(token.encode()).digest())


def _same(one: object, other: str) -> bool:
    return isinstance(one, str) and compare_digest(one.encode(errors="replace"), other.encode())


def _same_target(named: object, url: str) -> bool:
    if not isinstance(named, str):
        return False
    try:
        one, other = urlsplit(target(named)), urlsplit(target(url))
        return url_guard.origin(one) == url_guard.origin(other) and (one.path or "/") == (other.path or "/")
    except ValueError:
        return False
