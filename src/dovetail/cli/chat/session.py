"""What one run of the application knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.contract import Surface

from .resource_links import Link, Links

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Chat
    from dovetail.host.host import Host


@dataclass
class Session:
    """The terminal, the host, and what the person has put together so far."""

    surface: Surface
    host: Host
    chat: Chat | None = None
    """None where there is no model: then everything but the chat works."""
    links: Links = field(default_factory=Links)
    attached: list[Link] = field(default_factory=list[Link])
    """What goes along with the next message."""
    watched: list[Link] = field(default_factory=list[Link])
    over: bool = False
    """The person wants to leave."""
    system: str | None = None
    """What the model is told before everything else."""

    def talk(self, model: str | None = None) -> Chat:
        """A new conversation."""
        return self.host.chat(model=model, system=self.system)
