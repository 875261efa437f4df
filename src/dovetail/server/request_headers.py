"""Headers of the HTTP request that a handler serves, without credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

CREDENTIALS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"dpop"})
"""Headers that handlers do not see.

A token for this server must not be passed on (authorization, "Token Passthrough"); `ctx.principal` is its owner.
"""


class RequestHeaders(Mapping[str, str]):
    """Headers by name, in any case; read-only."""

    __slots__ = ("_values",)

    def __init__(self, headers: Mapping[bytes, bytes]) -> None:
        """`headers` have lower-case names."""
        self._values = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers.items()
            if name not in CREDENTIALS
        }

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        # Values may be secret, and a repr ends up in logs.
        return f"<RequestHeaders {', '.join(self._values)}>"
