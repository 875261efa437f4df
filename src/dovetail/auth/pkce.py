"""PKCE: proof that the client that exchanges a code also requested it (RFC 7636, S256 only)."""

from __future__ import annotations

from hashlib import sha256

from .http import Random
from .jwk import encode64

METHOD = "S256"


def new_verifier(random: Random) -> str:
    """Make a code verifier: a secret of 43 characters, kept until the code is exchanged."""
    return encode64(random(32))


def challenge(verifier: str) -> str:
    """The code challenge of a verifier, sent with the authorization request."""
    return encode64(sha256(verifier.encode("ascii")).digest())
