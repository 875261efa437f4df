"""Encryption of the request state that a client carries between rounds and must not read or change.

2026-07-28 mrtr, "Server Requirements": state is attacker-controlled, must be protected, and should be
bound to the principal, to the request it belongs to, and to a time.
"""

from __future__ import annotations

from binascii import Error as Base64Error

from .errors import INVALID_PARAMS, LocalError, ProtocolError

_FORMAT = b"\x01"
_KEY_ID = 8
_NONCE = 12
MAX_SEALED = 4 * 1024 * 1024
"""The longest sealed state in characters; longer ones are refused."""


class KeyRing:
    """Encryption keys: the first one encrypts, each of them decrypts.

    To rotate keys, put the new one first, and remove the old one when the states encrypted with it have expired.
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or not all(len(key) >= 16 for key in keys):
            raise LocalError("A key ring needs at least one key, and each key at least 16 bytes")
        self._secrets = keys
        self._keys: dict[bytes, bytes] | None = None

    def seal(self, content: bytes, bound: bytes, nonce: bytes) -> str:
        """Encrypt and authenticate; `open` needs the same `bound`. `nonce` is 12 bytes never used before."""
        from base64 import urlsafe_b64encode

        key_id, key = next(iter(self._derived().items()))
        head = _FORMAT + key_id
        sealed = _cipher(key).encrypt(nonce, content, head + bound)
        return urlsafe_b64encode(head + nonce + sealed).rstrip(b"=").decode()

    def open(self, text: str, bound: bytes) -> bytes:
        """Decrypt a state that was sealed with one of the keys and the same `bound`; anything else is −32602."""
        from base64 import urlsafe_b64decode

        from cryptography.exceptions import InvalidTag

        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= MAX_SEALED else b""
        except (Base64Error, ValueError):
            raw = b""
        head, nonce = raw[: 1 + _KEY_ID], raw[1 + _KEY_ID : 1 + _KEY_ID + _NONCE]
        key = self._derived().get(head[1:])
        if head[:1] != _FORMAT or key is None or len(nonce) < _NONCE:
            raise invalid_state()
        try:
            return _cipher(key).decrypt(nonce, raw[1 + _KEY_ID + _NONCE :], head + bound)
        except InvalidTag:
            raise invalid_state() from None

    def _derived(self) -> dict[bytes, bytes]:
        if self._keys is None:
            from hashlib import blake2b

            derived = [blake2b(secret, digest_size=32, person=b"dovetail-seal").digest() for secret in self._secrets]
            self._keys = {blake2b(key, digest_size=_KEY_ID).digest(): key for key in derived}
        return self._keys


def invalid_state() -> ProtocolError:
    """The error for every invalid state: one text for all reasons, so that an attacker learns nothing."""
    return ProtocolError(INVALID_PARAMS, "The request state is not valid for this request, or has expired")


def _cipher(key: bytes):  # noqa: ANN202 - the type would import the library
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)
