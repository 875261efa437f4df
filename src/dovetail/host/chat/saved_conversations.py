"""Saved conversations: one private file for each, bounded in size and number.

A file has two lines: a summary, so that a list reads only the beginning of each file, and the messages as the protocol
writes them. Texts of servers keep their marks (`provenance`), so that a resumed conversation still tells them apart.
Decisions are not part of a conversation: an approval for the session ends with the host that asked for it.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError, ProtocolError
from dovetail.protocol.sampling import blocks_of, check_conversation
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Audio, Content, Image, SamplingContent, Text, ToolResultContent
from dovetail.types.serialization import dump, load
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import check_only_owner_writes, read_file, write_private

from .provenance import unframed

MAX_CONVERSATIONS = 100
"""Conversations that are kept; the ones unused for longest are deleted."""
MAX_CONVERSATION_BYTES = 8_000_000
"""Of one saved conversation: images and sounds are left out first, then the oldest turns."""
FOLDER = "conversations"
LAST = "last"
"""In place of an id: the conversation that was used last."""

_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
_TITLE = 80
_SUMMARY_BYTES = 4_000


class SavedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A saved conversation in a list."""

    id: str
    started: float
    updated: float
    """In seconds since the epoch."""
    model: str
    title: str
    """The first words of the user."""
    count: int
    """Of messages."""
    version: int = 1


class SavedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A saved conversation: `Chat(messages=…, owners=…)` continues it."""

    summary: SavedSummary
    messages: list[SamplingMessage]
    owners: dict[str, str]
    """The servers of the tool uses, by their ids."""


class SavedConversations:
    """The saved conversations of the user; its methods wait for the disk."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or user_folder()) / FOLDER

    def save(
        self,
        id: str,
        messages: Sequence[SamplingMessage],
        model: str,
        owners: Mapping[str, str],
        cover: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Write a conversation, in place of an earlier state of it; `cover` redacts known secrets in every text."""
        plain = fitted([_covered(dump(message), cover) for message in messages])
        if not plain:
            return
        now = time.time()
        before = self._summary(self._path(id))
        kept = [load(SamplingMessage, each) for each in plain]
        summary = SavedSummary(
            id=id,
            started=now if before is None else before.started,
            updated=now,
            model=model,
            title=before.title if before is not None else title_of(kept),
            count=len(plain),
        )
        content = {"messages": plain, "owners": dict(owners)}
        write_private(self._path(id), msgspec.json.encode(summary) + b"\n" + msgspec.json.encode(content) + b"\n")
        for old in self.list()[MAX_CONVERSATIONS:]:
            self.delete(old.id)

    def list(self) -> list[SavedSummary]:
        """All conversations, the one used last first; a file that cannot be read is left out."""
        found = [self._summary(path) for path in self._folder.glob("*.json")]
        return sorted((each for each in found if each is not None), key=lambda each: -each.updated)

    def load(self, id: str) -> SavedConversation:
        """Read a conversation by its id, the beginning of it, or `last`; `LocalError` if that cannot be done."""
        summary = self._find(id)
        path = self._path(summary.id)
        check_only_owner_writes(path)
        content = read_file(path)
        try:
            if content is None:
                raise LocalError(f"There is no conversation {id!r} any more")
            body: dict[str, Any] = msgspec.json.decode(content.partition(b"\n")[2])
            messages = [load(SamplingMessage, each) for each in body["messages"]]
            check_conversation(messages)
            owners = msgspec.convert(body["owners"], dict[str, str])
        except (msgspec.MsgspecError, KeyError, TypeError, ProtocolError) as problem:
            raise LocalError(f"{path} is no conversation that can be continued: {problem}") from None
        return SavedConversation(summary=summary, messages=messages, owners=owners)

    def delete(self, id: str) -> None:
        """Delete a conversation."""
        self._path(id).unlink(missing_ok=True)

    def _find(self, id: str) -> SavedSummary:
        known = self.list()
        if not known:
            raise LocalError("There is no saved conversation")
        if id == LAST:
            return known[0]
        matches = [each for each in known if each.id == id] or [each for each in known if each.id.startswith(id)]
        if len(matches) != 1:
            what = "several saved conversations begin with" if matches else "there is no saved conversation"
            raise LocalError(f"{what[0].upper()}{what[1:]} {id!r}; the last one is {known[0].id!r}")
        return matches[0]

    def _path(self, id: str) -> Path:
        if _ID.fullmatch(id) is None:
            raise LocalError(f"{id!r} is not the id of a conversation")
        return self._folder / f"{id}.json"

    def _summary(self, path: Path) -> SavedSummary | None:
        try:
            with path.open("rb") as file:
                summary = msgspec.json.decode(file.readline(_SUMMARY_BYTES), type=SavedSummary)
        except (OSError, msgspec.MsgspecError):
            return None
        return summary if summary.id == path.stem and _ID.fullmatch(summary.id) else None


def new_id() -> str:
    """The id of a new conversation: the time, and a few random characters."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def title_of(messages: Iterable[SamplingMessage]) -> str:
    """The first words of the user, on one line."""
    for message in messages:
        texts = [block.text for block in blocks_of(message.content) if isinstance(block, Text)]
        if message.role == "user" and texts:
            # Attached resources stand before what the user wrote.
            return " ".join(unframed(texts[-1]).split())[:_TITLE]
    return ""


def fitted(messages: list[dict[str, Any]], most: int = MAX_CONVERSATION_BYTES) -> list[dict[str, Any]]:
    """The messages within a bound of bytes: without images and sounds, then without the oldest turns."""
    sizes = [len(msgspec.json.encode(message)) for message in messages]
    if sum(sizes) <= most:
        return messages
    messages = [dump(_without_media(load(SamplingMessage, message))) for message in messages]
    sizes = [len(msgspec.json.encode(message)) for message in messages]
    first, total = 0, sum(sizes)
    while total > most and first < len(messages):
        total -= sizes[first]
        first += 1
        while first < len(messages) and not _begins_turn(load(SamplingMessage, messages[first])):
            total -= sizes[first]
            first += 1
    return messages[first:]


def _begins_turn(message: SamplingMessage) -> bool:
    return message.role == "user" and not any(
        isinstance(block, ToolResultContent) for block in blocks_of(message.content)
    )


def _without_media(message: SamplingMessage) -> SamplingMessage:
    blocks: list[SamplingContent] = []
    for block in blocks_of(message.content):
        if isinstance(block, ToolResultContent):
            inner: list[Content] = [_note(part) if isinstance(part, Image | Audio) else part for part in block.content]
            blocks.append(msgspec.structs.replace(block, content=inner))
        else:
            blocks.append(_note(block) if isinstance(block, Image | Audio) else block)
    return SamplingMessage(role=message.role, content=blocks)


def _note(block: Image | Audio) -> Text:
    return Text(text=f"[The host did not save {block.mime_type}: the conversation was too long.]")


def _covered(value: Any, cover: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return cover(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: inner if name == "data" else _covered(inner, cover) for name, inner in members.items()}
    if isinstance(value, list):
        return [_covered(item, cover) for item in cast("list[Any]", value)]
    return value
