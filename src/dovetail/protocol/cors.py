"""CORS: the headers by which a browser lets a web page of another origin use the server."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .errors import LocalError
from .request_guard import AllowedOrigin, Headers, Pairs, fits_origin, origin_pattern

_VARY: Pairs = ((b"vary", b"Origin"),)


class Cors(msgspec.Struct, frozen=True):
    """The CORS headers for web pages of other origins; only for origins that `RequestGuard.check_source` has allowed.

    Nothing is ever allowed with cookies, so no answer says `*` or speaks of credentials.
    """

    origins: tuple[AllowedOrigin, ...] | None
    """None for every origin that the request guard allows."""
    methods: tuple[str, ...] = ("POST", "GET", "DELETE")

    @staticmethod
    def build(cors: bool | Sequence[str]) -> Cors | None:
        """The value for the option: None if it is off."""
        if isinstance(cors, bool):
            return Cors(None) if cors else None
        if "*" in cors:
            raise LocalError('cors=["*"] says too little: use cors=True with allowed_origins=["*"]')
        return Cors(tuple(origin_pattern(entry) for entry in cors)) if cors else None

    def response_headers(self, headers: Headers) -> Pairs:
        """The headers to add to every response."""
        origin = headers.get(b"origin")
        if origin is None or not (self.origins is None or fits_origin(self.origins, origin)):
            return _VARY
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"),
            *_VARY,
        )

    def preflight(self, headers: Headers) -> Pairs | None:
        """The headers of a 204 answer to an OPTIONS request that is a preflight from an origin allowed here."""
        origin = headers.get(b"origin")
        if origin is None or b"access-control-request-method" not in headers:
            return None
        if self.origins is not None and not fits_origin(self.origins, origin):
            return None
        # Which headers a page may send depends on the tools (Mcp-Param-*), so it may send those it asks for.
        wanted = headers.get(b"access-control-request-headers")
        asked = () if wanted is None else ((b"access-control-allow-headers", wanted),)
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", ", ".join(self.methods).encode()),
            *asked,
            (b"access-control-max-age", b"600"),
            *_VARY,
        )
