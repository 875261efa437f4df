"""Playback of a transcript to a server, to check that its responses are the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from typing import Any, TypeAlias, cast

import msgspec

from dovetail.client.targets.resolve import Target, resolve_target
from dovetail.protocol.envelope import SERVER_INFO
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong

from .message_diff import Json, Path, as_path, difference, replaced, same, title, without
from .transcript import Transcript

ALWAYS_IGNORED: tuple[Path, ...] = (("result", "serverInfo", "version"), ("result", "_meta", SERVER_INFO, "version"))
OPAQUE = frozenset({"requestState", "nextCursor", "elicitationId", "taskId"})
"""Members with opaque values of the server."""

Key: TypeAlias = tuple[Any, ...]


class TranscriptDiffers(AssertionError):
    """A server responds differently than recorded."""


async def play_back(
    transcript: Transcript | str | os.PathLike[str],
    target: Target,
    *,
    ignore: Collection[str | Path] = (),
    timeout: float = 10.0,
) -> None:
    """Send a server what the client sent, in the same order, and compare what comes back.

    `ignore` lists paths into messages that may differ, as `"result.structuredContent.at"`, with `*` for any
    member or item. Ids, cursors and sealed states may differ by themselves, and so may the server's version.
    """
    if not isinstance(transcript, Transcript):
        transcript = Transcript.load(transcript)
    where = resolve_target(target, None, None)
    channel = await where.connect()
    ear = _Ear()
    channel.open(ear)
    comparison = _Comparison([as_path(path) for path in ignore])
    try:
        for line in transcript.lines:
            if line.sender == "client":
                channel.send(msgspec.json.encode(comparison.retold(line.message)))
                continue
            actual = await ear.next(_key(line.message), timeout)
            if actual is None:
                comparison.problems.append(_silence(line.message, ear, timeout))
                break
            comparison.compare(line.message, actual)
        comparison.problems += [f"The server now also sends {title(extra)}" for extra in ear.heard]
    finally:
        await channel.close()
        await where.release()
    if comparison.problems:
        raise TranscriptDiffers("The server differs from the transcript:\n" + "\n".join(comparison.problems))


class _Ear:
    """Stores messages of the server until they are expected."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        self.gone: str | None = None
        self._news = asyncio.Event()

    def received(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return  # not a message: something that the server printed
        members = cast("list[Any]", message) if isinstance(message, list) else [message]
        self.heard += [one for one in members if isinstance(one, dict)]
        self._news.set()

    def overlong(self, line: TooLong) -> None:
        """Never called: nothing that long was recorded."""

    def failed(self, id: Id, problem: Exception) -> None:
        """Never called: a channel in memory loses nothing."""

    def disconnected(self, reason: str | None) -> None:
        self.gone = reason or "it closed the connection"
        self._news.set()

    async def next(self, key: Key, timeout: float) -> Json | None:
        """Wait for the first message of this kind; None after a timeout."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    for place, message in enumerate(self.heard):
                        if _key(message) == key:
                            return self.heard.pop(place)
                    if self.gone is not None:
                        return None
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None


class _Comparison:
    """Differences, and the mapping of opaque values and ids to the recorded ones."""

    def __init__(self, ignored: Collection[Path]) -> None:
        self._ignored = (*ALWAYS_IGNORED, *ignored)
        self._texts: dict[str, str] = {}
        self._ids: dict[Any, Any] = {}
        self.problems: list[str] = []

    def retold(self, message: Json) -> Json:
        """A message of the client with the values of this server."""
        if "method" not in message:
            id = message.get("id")
            return {**replaced(message, self._texts), "id": self._ids.get(id, id)}
        return replaced(message, self._texts)

    def compare(self, recorded: Json, actual: Json) -> None:
        """Record how a message of the server differs from the transcript."""
        self._learn(recorded, actual)
        if "method" in recorded and "id" in recorded:
            self._ids[recorded["id"]] = actual["id"]
            actual = {**actual, "id": recorded["id"]}
        before = without(replaced(recorded, self._texts), self._ignored)
        after = without(actual, self._ignored)
        if not same(before, after):
            self.problems.append(f"{title(recorded)} is not what it was:\n{difference(before, after)}")

    def _learn(self, recorded: Any, actual: Any) -> None:
        if isinstance(recorded, dict) and isinstance(actual, dict):
            for name, item in cast(Json, recorded).items():
                other = cast(Json, actual).get(name)
                if name in OPAQUE and isinstance(item, str) and isinstance(other, str):
                    self._texts[item] = other
                else:
                    self._learn(item, other)
        elif isinstance(recorded, list) and isinstance(actual, list):
            for item, other in zip(cast("list[Any]", recorded), cast("list[Any]", actual), strict=False):
                self._learn(item, other)


def _key(message: Json) -> Key:
    """The kind of a message: response to an id, or request or notification of a method."""
    if "method" not in message:
        return ("answer", message.get("id"))
    return ("request" if "id" in message else "notification", message["method"])


def _silence(expected: Json, ear: _Ear, timeout: float) -> str:
    heard = ", ".join(title(message) for message in ear.heard) or "nothing else"
    why = f"it is gone: {ear.gone}" if ear.gone is not None else f"not within {timeout:g} s"
    return f"The server did not send {title(expected)} ({why}); it sent {heard}"
