"""Encryption of the request state that a client carries between rounds and must not read or change.

2026-07-28 mrtr, "Server Requirements": state is attacker-controlled, must be protected, and should be
bound to the principal, to the request it belongs to, and to a time.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from collections.abc import Sequence

from .errors import INVALID_PARAMS, LocalError, ProtocolError

_FORMAT = b"\x01"
_KEY_ID = 8
_NONCE = 12
_HEAD_TEXT = 12
"""Characters that hold the format and the id of the key."""
MAX_SEALED = 4 * 1024 * 1024
"""The longest sealed state in characters; longer ones are refused."""


class KeyRing:
    """Encryption keys: the first one encrypts, each of them decrypts.

    To rotate keys, put the new one first, and remove the old one when the states encrypted with it have expired.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.replace(keys)

    def replace(self, keys: Sequence[bytes]) -> None:
        """Use other keys from now on."""
        if not keys or not all(len(key) >= 16 for key in keys):
            raise LocalError("A key ring needs at least one key, and each key at least 16 bytes")
        self.secrets = tuple(keys)
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
        from cryptography.exceptions import InvalidTag

        raw = _decode(text)
        head, nonce = raw[: 1 + _KEY_ID], raw[1 + _KEY_ID : 1 + _KEY_ID + _NONCE]
        key = self._derived().get(head[1:])
        if head[:1] != _FORMAT or key is None or len(nonce) < _NONCE:
            raise invalid_state()
        try:
            return _cipher(key).decrypt(nonce, raw[1 + _KEY_ID + _NONCE :], head + bound)
        except InvalidTag:
            raise invalid_state() from None

    def has_key_of(self, text: str) -> bool:
        """True if the state names a key of this ring; False too for text that is no state."""
        return _decode(text[:_HEAD_TEXT])[1 : 1 + _KEY_ID] in self._derived()

    def _derived(self) -> dict[bytes, bytes]:
        if self._keys is None:
            from hashlib import blake2b

            derived = [blake2b(secret, digest_size=32, person=b"dovetail-seal").digest() for secret in self.secrets]
            self._keys = {blake2b(key, digest_size=_KEY_ID).digest(): key for key in derived}
        return self._keys


def invalid_state() -> ProtocolError:
    """The error for every invalid state: one text for all reasons, so that an attacker learns nothing."""
    return ProtocolError(INVALID_PARAMS, "The request state is not valid for this request, or has expired")


def _decode(text: str) -> bytes:
    from base64 import urlsafe_b64decode

    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) <= MAX_SEALED else b""
    except (Base64Error, ValueError):
        return b""


def _cipher(key: bytes):  # noqa: ANN202 - the type would import the library
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)
