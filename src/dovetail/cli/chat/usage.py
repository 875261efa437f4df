"""Time, tokens and cost of turns, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.host.chat.events import TurnEnded
    from dovetail.host.models.usage import Usage


@dataclass
class SessionUsage:
    """Tokens of the conversation and cost of the session, as far as the model's endpoint reports them."""

    cost: float | None = None
    _context: int = 0
    _chat: Any = None

    def add(self, chat: object, event: TurnEnded) -> None:
        """Count a turn of a chat."""
        if event.usage is not None and event.usage.cost is not None:
            self.cost = (self.cost or 0.0) + event.usage.cost
        if event.last is not None:
            self._chat, self._context = chat, event.last.input + event.last.output

    def context(self, chat: object) -> int:
        """Tokens of a conversation; 0 if unknown."""
        return self._context if chat is self._chat else 0


def turn_summary(seconds: float, usage: Usage | None) -> str:
    """Time, tokens and cost of a turn."""
    parts = [elapsed(seconds)]
    if usage is not None:
        parts.append(f"{usage.input:,} tokens in, {usage.output:,} out")
        if usage.cost is not None:
            parts.append(price(usage.cost))
    return " · ".join(parts)


def elapsed(seconds: float) -> str:
    """A time for users: `0.4 s`, `12 s`, `2 min 5 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def price(dollars: float) -> str:
    """An amount of money with the digits that matter."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def short_count(number: int) -> str:
    """A number of tokens in few characters: `950`, `12k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"
