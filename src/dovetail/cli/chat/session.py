"""State of one chat session, and the numbers of resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Chat
    from dovetail.host.host import Host


class NumberedResource(NamedTuple):
    """A resource of a server."""

    server: str
    uri: str
    name: str = ""


class ResourceNumbers:
    """Numbers of resources that were shown, to be typed in place of URIs."""

    def __init__(self) -> None:
        self._links: list[NumberedResource] = []

    def add(self, link: NumberedResource) -> int:
        """Add a resource and return its number; a known resource keeps its number."""
        for number, known in enumerate(self._links, start=1):
            if (known.server, known.uri) == (link.server, link.uri):
                return number
        self._links.append(link)
        return len(self._links)

    def all(self) -> list[NumberedResource]:
        """All resources, by number."""
        return list(self._links)

    def find(self, words: list[str]) -> NumberedResource:
        """Find a resource by its number, or by server and URI."""
        match words:
            case [number] if number.isascii() and number.isdigit() and 1 <= int(number) <= len(self._links):
                return self._links[int(number) - 1]
            case [server, uri]:
                return NumberedResource(server, uri)
            case _:
                raise UsageError("name a resource by its number, or by server and URI")


@dataclass
class ChatSession:
    """The user interface, the host, and the state of the chat."""

    ui: ChatUI
    host: Host
    chat: Chat | None = None
    """None without a model: then everything but the chat works."""
    links: ResourceNumbers = field(default_factory=ResourceNumbers)
    attached: list[NumberedResource] = field(default_factory=list[NumberedResource])
    """Resources to send with the next message."""
    watched: list[NumberedResource] = field(default_factory=list[NumberedResource])
    finished: bool = False
    """The user wants to quit."""
    system: str | None = None
    """The system prompt."""

    def new_chat(self, model: str | None = None) -> Chat:
        """Create a new conversation."""
        return self.host.chat(model=model, system=self.system)
