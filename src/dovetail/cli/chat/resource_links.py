"""Resources that came by, each with a number to call it by."""

from __future__ import annotations

from typing import NamedTuple

from dovetail.cli.parser import UsageError


class Link(NamedTuple):
    """A resource of a server."""

    server: str
    uri: str
    name: str = ""


class Links:
    """Numbers for what was shown, so that nobody has to type a URI."""

    def __init__(self) -> None:
        self._links: list[Link] = []

    def add(self, link: Link) -> int:
        """The number of a link; the same resource keeps its number."""
        for number, known in enumerate(self._links, start=1):
            if (known.server, known.uri) == (link.server, link.uri):
                return number
        self._links.append(link)
        return len(self._links)

    def all(self) -> list[Link]:
        """All, in the order of their numbers."""
        return list(self._links)

    def find(self, words: list[str]) -> Link:
        """The link that the words name: its number, or a server and a URI."""
        match words:
            case [number] if number.isascii() and number.isdigit() and 1 <= int(number) <= len(self._links):
                return self._links[int(number) - 1]
            case [server, uri]:
                return Link(server, uri)
            case _:
                raise UsageError("name a resource by its number, or by server and URI")
