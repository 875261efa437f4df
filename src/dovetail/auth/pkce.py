"""Proof that a code is exchanged by who asked for it (RFC 7636, only with S256)."""

from __future__ import annotations

from hashlib import sha256

from .http import Random
from .jwk import encode64

METHOD = "S256"


def new_verifier(random: Random) -> str:
    """A secret of 43 characters that stays here until the code is exchanged."""
    return encode64(random(32))


def challenge(verifier: str) -> str:
    """What may be seen of it before."""
    return encode64(sha256(verifier.encode("ascii")).digest())
