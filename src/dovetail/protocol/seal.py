"""State that a client carries and cannot read, change or use for anything else.

2026-07-28 mrtr, "Server Requirements": state is attacker-controlled, must be protected, and should be
bound to the principal, to the request it belongs to, and to a time.
"""

from __future__ import annotations

from binascii import Error as Base64Error

from .errors import INVALID_PARAMS, LocalError, ProtocolError

_FORMAT = b"\x01"
_KEY_ID = 8
_NONCE = 12
LONGEST = 4 * 1024 * 1024
"""What a sealed state may take; longer ones are not opened."""


class KeyRing:
    """Keys that seal and open: the first one seals, each of them opens.

    To rotate, put the new key first and drop the old one when what it sealed has expired.
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or not all(len(key) >= 16 for key in keys):
            raise LocalError("A key ring needs at least one key, and each key at least 16 bytes")
        self._secrets = keys
        self._keys: dict[bytes, bytes] | None = None

    def seal(self, content: bytes, bound: bytes, nonce: bytes) -> str:
        """Encrypt and sign; `bound` must be given again to open, `nonce` is 12 bytes never used before."""
        from base64 import urlsafe_b64encode

        key_id, key = next(iter(self._derived().items()))
        head = _FORMAT + key_id
        sealed = _cipher(key).encrypt(nonce, content, head + bound)
        return urlsafe_b64encode(head + nonce + sealed).rstrip(b"=").decode()

    def open(self, text: str, bound: bytes) -> bytes:
        """The content of what one of our keys sealed for the same purpose; anything else is −32602."""
        from base64 import urlsafe_b64decode

        from cryptography.exceptions import InvalidTag

        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= LONGEST else b""
        except (Base64Error, ValueError):
            raw = b""
        head, nonce = raw[: 1 + _KEY_ID], raw[1 + _KEY_ID : 1 + _KEY_ID + _NONCE]
        key = self._derived().get(head[1:])
        if head[:1] != _FORMAT or key is None or len(nonce) < _NONCE:
            raise refused()
        try:
            return _cipher(key).decrypt(nonce, raw[1 + _KEY_ID + _NONCE :], head + bound)
        except InvalidTag:
            raise refused() from None

    def _derived(self) -> dict[bytes, bytes]:
        if self._keys is None:
            from hashlib import blake2b

            derived = [blake2b(secret, digest_size=32, person=b"dovetail-seal").digest() for secret in self._secrets]
            self._keys = {blake2b(key, digest_size=_KEY_ID).digest(): key for key in derived}
        return self._keys


def refused() -> ProtocolError:
    """One answer for whatever is wrong with a state, so that trying teaches nothing."""
    return ProtocolError(INVALID_PARAMS, "The request state is not valid for this request, or has expired")


def _cipher(key: bytes):  # noqa: ANN202 - the type would import the library
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)
