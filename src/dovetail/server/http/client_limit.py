"""Limits on what clients hold at the same time: sessions, connections and streams, in all and for each client."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from dovetail.protocol.client_address import AddressKey
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.request_guard import Refusal

logger = logging.getLogger("dovetail")


class ClientLimit:
    """Counts what clients hold, by `client_key`; above a limit there is a refusal with the time to wait."""

    def __init__(self, noun: str, most: int, each: int, *, option: str | None = None, retry_after: int = 5) -> None:
        """`option` is the option of `most`, if it can be set; that of `each` has the same name with `_each`."""
        self._noun = noun
        self._option = "" if option is None else f" ({option})"
        self._option_each = "" if option is None else f" ({option}_each)"
        self._most = most
        self._each = each
        self._retry_after = retry_after
        self._total = 0
        self._counts: dict[Hashable, int] = {}
        self._warned = False

    def __len__(self) -> int:
        return self._total

    @property
    def is_full(self) -> bool:
        """True if nobody can have one more."""
        return self._total >= self._most

    def is_full_for(self, client: Hashable) -> bool:
        """True if this client cannot have one more of its own."""
        return self._counts.get(client, 0) >= self._each

    def admit(self, client: Hashable) -> Refusal | None:
        """Count one more, which `release` takes back; or the refusal if there is no room for it."""
        if self.is_full or self.is_full_for(client):
            return self.refusal(client)
        self.add(client)
        return None

    def add(self, client: Hashable) -> None:
        """Count one more, whether there is room or not."""
        self._total += 1
        self._counts[client] = self._counts.get(client, 0) + 1

    def release(self, client: Hashable) -> None:
        """Count one less."""
        self._total -= 1
        left = self._counts[client] - 1
        if left:
            self._counts[client] = left
        else:
            del self._counts[client]
        if left < self._each // 2:
            self._warned = False

    def refusal(self, client: Hashable) -> Refusal:
        """The response to a client for which there is no room; 503, because the same request works later."""
        return self.refusal_of(client, each=self.is_full_for(client))

    def refusal_of(self, client: Hashable, *, each: bool) -> Refusal:
        """The same, if it is known that it is the limit of each client, or that of all, which is reached."""
        if each:
            text = f"This client has {self._each} {self._noun}, the most of one client{self._option_each}"
            self._warn(client)
        else:
            text = f"There are {self._most} {self._noun}, the most of this server{self._option}"
        wait = ((b"retry-after", b"%d" % self._retry_after),)
        return Refusal(503, INTERNAL_ERROR, f"{text}; close some, or try again later", headers=wait)

    def _warn(self, client: Hashable) -> None:
        """Log that a client is refused; once until it holds less, because it may try again and again."""
        if not self._warned:
            self._warned = True
            name, hint = str(client), ""
            if isinstance(client, AddressKey):
                name = client.address or "a Unix socket"
                hint = "; if it is a proxy, it should name its clients in X-Forwarded-For (trusted_proxies)"
            text = "The client %s has %d %s%s and gets no more%s"
            logger.warning(text, name, self._each, self._noun, self._option_each, hint)
