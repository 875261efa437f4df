"""State of one chat session, and the numbers of resources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.parser import UsageError
from dovetail.cli.traffic.live import LiveTraffic
from dovetail.host.chat.saved_conversations import SavedConversations, new_id

from .usage import SessionUsage
from .waiting_questions import WaitingQuestions

if TYPE_CHECKING:
    from contextlib import ExitStack

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
            case [number] if number.isascii() and number.isdigit():
                if 1 <= int(number) <= len(self._links):
                    return self._links[int(number) - 1]
                raise UsageError(f"there is no resource number {number}; {self._range()}")
            case [server, uri]:
                return NumberedResource(server, uri)
            case [word] if (link := read_mention(word)) is not None:
                return link
            case _:
                raise UsageError("name a resource by its number, by server and URI, or as @server:uri")

    def _range(self) -> str:
        count = len(self._links)
        if not count:
            return "no resource has a number yet: /resources and results give them"
        return "there is only number 1" if count == 1 else f"there are only {count}: /links lists them"


_MENTION = re.compile(r"(?<!\S)@([^\s:@/]{1,200}):(\S{1,8000})")
_AFTER_MENTION = ".,;:!?)]}'\""
"""Characters that end a sentence and no URI, in a message."""


def read_mention(word: str) -> NumberedResource | None:
    """The resource of a word `@server:uri`."""
    match = _MENTION.fullmatch(word)
    return None if match is None else NumberedResource(match[1], match[2])


def mentioned_resources(text: str, servers: Collection[str]) -> list[NumberedResource]:
    """The resources that a message mentions as `@server:uri`; words about unknown servers are ordinary text."""
    found = [NumberedResource(match[1], match[2].rstrip(_AFTER_MENTION)) for match in _MENTION.finditer(text)]
    return list(dict.fromkeys(link for link in found if link.server in servers and link.uri))


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
    traffic: LiveTraffic = field(default_factory=LiveTraffic)
    following: ExitStack | None = None
    """Ends `/traffic follow` when it is closed; None if it is off."""
    background: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Calls that run while the user types."""
    questions: WaitingQuestions = field(default_factory=WaitingQuestions)
    """Questions of tasks in the background."""
    saving: bool = False
    """The conversation is saved after each turn."""
    conversation: str = field(default_factory=new_id)
    """The id of the conversation among the saved ones."""
    saved_messages: int = 0
    """Messages of the conversation that are saved already."""
    finished: bool = False
    """The user wants to quit."""
    system: str | None = None
    """The system prompt."""
    usage: SessionUsage = field(default_factory=SessionUsage)

    def new_chat(self, model: str | None = None, **options: Any) -> Chat:
        """Create a new conversation."""
        return self.host.chat(model=model, system=self.system, **options)

    def saved_conversations(self) -> SavedConversations:
        """The saved conversations of the user."""
        return SavedConversations()
