"""Pagination of lists with signed cursors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.seal import KeyRing

_MAC = 16
_MAX_CURSOR = 4096
_KEYS_IN_CURSOR = 8


class _CursorContent(msgspec.Struct, array_like=True, frozen=True):
    """The content of a cursor: the index where the page ended, and hashes of the last keys sent."""

    index: int
    last_keys: list[int]


class Pager:
    """Divides lists into pages; its cursors are opaque, and signed with a key that is derived from one of a key ring.

    Replicas that serve the same clients have the same keys: the first signs, each of them verifies.
    """

    __slots__ = ("_derived_from", "_keys", "_ring")

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._derived_from: Sequence[bytes] = ()
        self._keys: list[bytes] = []

    def page(self, kind: str, keys: Sequence[str], cursor: str | None, size: int) -> tuple[slice, str | None]:
        """The slice of a list that a cursor leads to, and the cursor of the next page, if there is one.

        `keys` are the unique names in the list, in order. A cursor of another list, or with another signature, is
        −32602.
        """
        size = max(size, 1)
        start = 0 if cursor is None else _position(keys, self._open(kind, cursor))
        stop = min(start + size, len(keys))
        if stop >= len(keys):
            return slice(start, stop), None
        last_keys = [_hash(key) for key in keys[max(stop - _KEYS_IN_CURSOR, 0) : stop]]
        return slice(start, stop), self._seal(kind, _CursorContent(stop, last_keys))

    def _seal(self, kind: str, content: _CursorContent) -> str:
        from base64 import urlsafe_b64encode

        body = msgspec.json.encode(content)
        return urlsafe_b64encode(_mac(self._derived()[0], kind, body) + body).rstrip(b"=").decode()

    def _open(self, kind: str, cursor: str) -> _CursorContent:
        from base64 import urlsafe_b64decode
        from hmac import compare_digest

        try:
            if len(cursor) > _MAX_CURSOR:
                raise ValueError("too long")
            coded = cursor.encode("ascii")
            sealed = urlsafe_b64decode(coded + b"=" * (-len(coded) % 4))
            body = sealed[_MAC:]
            if not any(compare_digest(_mac(key, kind, body), sealed[:_MAC]) for key in self._derived()):
                raise ValueError("the signature is not valid")
            return msgspec.json.decode(body, type=_CursorContent)
        except (ValueError, msgspec.DecodeError):
            raise ProtocolError(INVALID_PARAMS, "Invalid cursor") from None

    def _derived(self) -> list[bytes]:
        """Keys of their own: those of the ring encrypt states."""
        from hmac import digest

        secrets = self._ring.secrets
        if self._derived_from is not secrets:
            self._keys = [digest(secret, b"dovetail-cursors", "sha256") for secret in secrets]
            self._derived_from = secrets
        return self._keys


def _mac(key: bytes, kind: str, body: bytes) -> bytes:
    from hmac import digest

    return digest(key, kind.encode() + b"\0" + body, "sha256")[:_MAC]


def _hash(key: str) -> int:
    from zlib import crc32

    return crc32(key.encode(errors="surrogatepass"))


def _position(keys: Sequence[str], content: _CursorContent) -> int:
    """The index to continue at: behind the last key sent that is still in the list, wherever it is now.

    So an entry added or removed in front neither repeats nor loses one. If all these keys are gone, the position is
    unknown and the list starts again, since an entry seen twice does less harm than one never seen.
    """
    index, last_keys = content.index, content.last_keys
    if index <= len(keys) and _hash(keys[index - 1]) == last_keys[-1]:
        return index
    positions = {_hash(key): at for at, key in enumerate(keys)}
    return next((positions[key] + 1 for key in reversed(last_keys) if key in positions), 0)
