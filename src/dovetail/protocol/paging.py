"""Pages of a list and the sealed cursors between them (pagination)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError

_MAC = 16
_MAX_CURSOR = 4096
_TRAIL = 8


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """Where a page ended: its index, and short forms of the last keys sent."""

    index: int
    trail: list[int]


class Pager:
    """Cuts lists into pages; its cursors are opaque and cannot be made by anyone without the secret.

    Replicas that serve one client share the secret. Without one a random secret is made, and cursors hold for
    the life of this object.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret

    def page(self, kind: str, keys: Sequence[str], cursor: str | None, size: int) -> tuple[slice, str | None]:
        """The part of a list that a cursor leads to, and the cursor for what follows.

        `keys` are the list's unique names in order. A cursor of another list, or not made here, is −32602.
        """
        size = max(size, 1)
        start = 0 if cursor is None else _position(keys, self._open(kind, cursor))
        stop = min(start + size, len(keys))
        if stop >= len(keys):
            return slice(start, stop), None
        trail = [_short(key) for key in keys[max(stop - _TRAIL, 0) : stop]]
        return slice(start, stop), self._seal(kind, _Place(stop, trail))

    def _seal(self, kind: str, place: _Place) -> str:
        from base64 import urlsafe_b64encode

        body = msgspec.json.encode(place)
        return urlsafe_b64encode(self._mac(kind, body) + body).rstrip(b"=").decode()

    def _open(self, kind: str, cursor: str) -> _Place:
        from base64 import urlsafe_b64decode
        from hmac import compare_digest

        try:
            if len(cursor) > _MAX_CURSOR:
                raise ValueError("too long")
            coded = cursor.encode("ascii")
            sealed = urlsafe_b64decode(coded + b"=" * (-len(coded) % 4))
            body = sealed[_MAC:]
            if not compare_digest(self._mac(kind, body), sealed[:_MAC]):
                raise ValueError("not ours")
            return msgspec.json.decode(body, type=_Place)
        except (ValueError, msgspec.DecodeError):
            raise ProtocolError(INVALID_PARAMS, "Invalid cursor") from None

    def _mac(self, kind: str, body: bytes) -> bytes:
        from hmac import digest

        if self._secret is None:
            self._secret = os.urandom(32)
        return digest(self._secret, kind.encode() + b"\0" + body, "sha256")[:_MAC]


def _short(key: str) -> int:
    from zlib import crc32

    return crc32(key.encode(errors="surrogatepass"))


def _position(keys: Sequence[str], place: _Place) -> int:
    """Where to go on: behind the last key sent that is still there, wherever it stands now.

    So an entry added or removed in front neither repeats nor loses one. When all keys of the trail are gone
    nobody knows what moved where: the list begins again, since seen twice does less harm than never seen.
    """
    index, trail = place.index, place.trail
    if index <= len(keys) and _short(keys[index - 1]) == trail[-1]:
        return index
    now = {_short(key): at for at, key in enumerate(keys)}
    return next((now[key] + 1 for key in reversed(trail) if key in now), 0)
