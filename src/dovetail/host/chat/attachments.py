"""Resources that become part of a message: those that the user picks, and those that matter most, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from dovetail.host.catalogue import HostResource
from dovetail.host.models.content_blocks import Plain, plain
from dovetail.protocol.errors import DovetailError
from dovetail.text.sanitize import clean_text
from dovetail.text.token_estimate import CHARACTERS, estimated_tokens
from dovetail.types.content import Embedded, SamplingContent, Text
from dovetail.types.resources import ReadResourceResult

from .events import Attached, LinkedResource
from .provenance import MAX_BYTES, framed, limited

IMAGE_TOKENS = 1_500

Picked: TypeAlias = HostResource | LinkedResource | tuple[str, str]
"""A resource: from a list, from a link, or by server and URI."""


class ResourceReader(Protocol):
    """Reads resources."""

    async def resources(self) -> Sequence[HostResource]: ...

    async def read(self, server: str, uri: str) -> ReadResourceResult: ...


def resource_key(picked: Picked) -> tuple[str, str]:
    """The server and the URI of what was picked."""
    match picked:
        case HostResource():
            return picked.server, picked.resource.uri
        case LinkedResource():
            return picked.server, picked.link.uri
        case _:
            return picked


def by_priority(resources: Sequence[HostResource], above: float) -> list[HostResource]:
    """Those that their servers say a model should see, the most important first.

    One whose audience is the user alone is left out, and so is one without a priority (resources, "Annotations").
    """
    wanted: list[tuple[float, HostResource]] = []
    for item in resources:
        notes = item.resource.annotations
        if notes is None or notes.priority is None or notes.priority < above:
            continue
        if not notes.audience or "assistant" in notes.audience:
            wanted.append((notes.priority, item))
    return [item for _, item in sorted(wanted, key=lambda pair: (-pair[0], pair[1].server, pair[1].resource.uri))]


class Attachments:
    """Reads resources for one message until its budget is used up."""

    def __init__(self, library: ResourceReader, budget: int, emit: Callable[[Attached], None]) -> None:
        self._library = library
        self._left = budget
        self._emit = emit
        self.blocks: list[SamplingContent] = []

    async def pick(self, picked: Picked) -> None:
        """Attach what the user wants, cut where the budget ends."""
        server, uri = resource_key(picked)
        if (contents := await self._read(server, uri)) is None:
            return
        used = sum(self._append(server, uri, part) for part in contents)
        self._emit(Attached(server=server, uri=clean_text(uri), tokens=used))

    async def offer(self, item: HostResource) -> None:
        """Attach what its server finds important, if the whole of it fits."""
        server, uri = item.server, item.resource.uri
        if (item.resource.size or 0) > self._left * CHARACTERS or self._left <= 0:
            return
        contents = await self._read(server, uri)
        if contents is None or sum(_cost(part) for part in contents) > self._left:
            return
        used = sum(self._append(server, uri, part) for part in contents)
        self._emit(Attached(server=server, uri=clean_text(uri), tokens=used))

    async def _read(self, server: str, uri: str) -> list[Plain] | None:
        try:
            result = await self._library.read(server, uri)
        except DovetailError as problem:
            words = clean_text(str(problem))[:500]
            self._emit(Attached(server=server, uri=clean_text(uri), problem=words))
            self.blocks.append(Text(text=f"[A resource could not be attached.]\n{framed(server, words, uri=uri)}"))
            return None
        return [plain(Embedded(resource=contents)) for contents in result.contents]

    def _append(self, server: str, uri: str, part: Plain) -> int:
        if isinstance(part, Text):
            kept, missing = limited(part.text, max(self._left, 0) * CHARACTERS)
            while estimated_tokens(kept) > self._left and kept:
                missing += len(kept) - len(kept) // 2
                kept = kept[: len(kept) // 2]
            note = f"\n[The host cut this resource: {missing:,} more characters.]" if missing else ""
            self.blocks.append(Text(text=framed(server, kept, kind="resource", uri=uri) + note))
            cost = estimated_tokens(kept)
        elif self._left < IMAGE_TOKENS or len(part.data) > MAX_BYTES:
            self.blocks.append(Text(text=f"[The host left out a resource that is too big.]\n{framed(server, uri)}"))
            cost = 0
        else:
            self.blocks.append(part)
            cost = IMAGE_TOKENS
        self._left -= cost
        return cost


def _cost(part: Plain) -> int:
    return estimated_tokens(part.text) if isinstance(part, Text) else IMAGE_TOKENS
