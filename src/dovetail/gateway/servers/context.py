"""Context of the servers of one gateway: what they share, and what they tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .clients import DeclaredCapabilities

if TYPE_CHECKING:
    from dovetail.gateway.settings import ServerSettings
    from dovetail.protocol.subscriptions import ListKind
    from dovetail.types.capabilities import Implementation

    from .upstream import Upstream

OnChanged: TypeAlias = "Callable[[Upstream, ListKind], None]"


class Generation:
    """A number that grows with every change at any server: what was worked out before it may be out of date."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> None:
        """Something has changed."""
        self.number += 1


class UpstreamContext(NamedTuple):
    """The parts that the servers of one gateway share."""

    info: Implementation
    """The name and version that the gateway has as a client."""
    on_changed: OnChanged
    generation: Generation
    declared: DeclaredCapabilities
    reviews: Callable[[ServerSettings], bool]
    """Tells if the definitions of a server decide what may be done, so that those of each connection count."""
