"""Filters of exchanges: by server, by failure, and by words in the method, the subject or the messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from .exchange import TrafficExchange

ERRORS = "errors"
"""The word that selects exchanges that failed."""


class TrafficFilter(NamedTuple):
    """Selects exchanges; the default selects all."""

    servers: tuple[str, ...] = ()
    errors: bool = False
    words: tuple[str, ...] = ()
    """All must occur, in any case."""

    def matches(self, exchange: TrafficExchange) -> bool:
        """True if the exchange is selected."""
        if self.servers and exchange.server not in self.servers:
            return False
        if self.errors and not exchange.failed:
            return False
        return all(_contains(exchange, word.lower()) for word in self.words)


def read_filter(words: Sequence[str], servers: Collection[str]) -> TrafficFilter:
    """A filter from typed words: keys of servers, `errors`, and words to find."""
    named = tuple(word for word in words if word in servers)
    rest = tuple(word for word in words if word not in servers and word != ERRORS)
    return TrafficFilter(named, ERRORS in words, rest)


def _contains(exchange: TrafficExchange, word: str) -> bool:
    if word in f"{exchange.method} {exchange.subject} {exchange.outcome} {exchange.error}".lower():
        return True
    lines = [exchange.request, *exchange.related, *([] if exchange.answer is None else [exchange.answer])]
    return any(word in line.message.decode(errors="replace").lower() for line in lines)
