"""Time for a login: while a person is at it, nobody's patience runs out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dovetail.transports.http.contract import Auth


class PausableTimeouts(Protocol):
    """Those of the requests that wait for an answer."""

    def pause(self) -> None:
        """Stop them."""
        ...

    def resume(self) -> None:
        """Let them go on, once for each pause."""
        ...


class PausingAuth:
    """Credentials; the time that it takes to get others counts towards no timeout."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self.clocks: PausableTimeouts | None = None
        # Asked for each request, so nothing stands in between.
        self.headers = auth.headers
        self.accepted = auth.accepted

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Get others, while the clocks stand still."""
        clocks = self.clocks
        if clocks is None:
            return await self._auth.refused(url, sent, status, headers)
        clocks.pause()
        try:
            return await self._auth.refused(url, sent, status, headers)
        finally:
            clocks.resume()
