"""A server that replays a transcript to a client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import cast

import msgspec

from dovetail.protocol.envelope import PROGRESS_TOKEN, SUBSCRIPTION_ID
from dovetail.protocol.errors import INTERNAL_ERROR, METHOD_NOT_FOUND
from dovetail.transports.base import Channel
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong

from .message_diff import GREETINGS, Json, difference, essence, same, title
from .transcript import Line, Transcript

REPEATABLE = frozenset(
    {
        *("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"),
        *GREETINGS,
    }
)
"""Requests that a client may repeat or omit, because it may cache their results."""


class Replay:
    """A target for `Client` that replays a transcript; `check` fails if the client deviates from it.

    Calls may come in another order than they did, and lists may be asked for more or less often. What a
    server said by itself is said again after the message of the client that it followed.
    """

    def __init__(self, transcript: Transcript | str | os.PathLike[str]) -> None:
        if not isinstance(transcript, Transcript):
            transcript = Transcript.load(transcript)
        self._lines = transcript.lines
        self._players: list[_Player] = []

    async def serve(self, channel: Channel) -> None:
        """Replay over a channel; each connection starts at the first line."""
        player = _Player(self._lines, channel)
        self._players.append(player)
        channel.open(player)
        player.send_ready()
        try:
            await player.ended.wait()
        finally:
            await channel.close()

    @property
    def problems(self) -> list[str]:
        """Messages of clients that are not in the transcript."""
        return [problem for player in self._players for problem in player.problems]

    @property
    def missing(self) -> list[str]:
        """Messages in the transcript that clients did not send."""
        if not self._players:
            return ["No client came"]
        return [f"The client did not send {title(message)}" for player in self._players for message in player.missing()]

    def check(self) -> None:
        """Fail unless clients sent exactly the requests of the transcript."""
        problems = [*self.problems, *self.missing]
        if problems:
            raise AssertionError("The client did not keep to the transcript:\n" + "\n".join(problems))


class _Player:
    """One connection, with the lines that were replayed."""

    def __init__(self, lines: list[Line], channel: Channel) -> None:
        self._lines = lines
        self._channel = channel
        self._needs = dict(_needs(lines))
        self._bases = {place: _base(lines, place) for place in self._needs}
        self._received: dict[int, Json] = {}
        self.problems: list[str] = []
        self.ended = asyncio.Event()

    def received(self, line: bytes) -> None:
        """Process a message of the client."""
        message = cast(Json, msgspec.json.decode(line))
        place = self._place_of(message)
        if place is not None:
            self._received[place] = message
            self.send_ready()
        elif "method" not in message:
            self.problems.append(f"Nobody asked for {title(message)}")
        elif "id" in message and not self._repeat(message):
            self._refuse(message)

    def overlong(self, line: TooLong) -> None:
        """Never called: a channel in memory has no limit."""

    def failed(self, id: Id, problem: Exception) -> None:
        """Never called: a channel in memory loses nothing."""

    def disconnected(self, reason: str | None) -> None:
        """The client has disconnected."""
        self.ended.set()

    def missing(self) -> Iterator[Json]:
        """The requests and answers that are missing."""
        for place, line in enumerate(self._lines):
            message = line.message
            if line.sender == "server" or place in self._received or "id" not in message:
                continue
            if self._matching_request(message) is None:
                yield message

    def send_ready(self) -> None:
        """Send the messages that are due."""
        for place in [place for place, needs in self._needs.items() if needs <= self._received.keys()]:
            del self._needs[place]
            message = self._addressed(self._lines[place].message, self._bases[place])
            if message is not None:
                self._channel.send(msgspec.json.encode(message))

    def _place_of(self, message: Json) -> int | None:
        """Find the line of a message; a different answer is recorded as a problem."""
        meant = essence(message)
        for place, line in enumerate(self._lines):
            if line.sender != "client" or place in self._received:
                continue
            recorded = line.message
            if "method" not in message and "method" not in recorded:
                if recorded.get("id") != message.get("id"):
                    continue
                if not same(essence(recorded), meant):
                    changed = difference(essence(recorded), meant)
                    self.problems.append(f"{title(message)} is not what it was:\n{changed}")
                return place
            if ("id" in message) == ("id" in recorded) and same(essence(recorded), meant):
                return place
        return None

    def _matching_request(self, message: Json) -> int | None:
        """The line of a repeatable request that was already sent."""
        if message.get("method") not in REPEATABLE:
            return None
        meant = essence(message)
        return next((place for place in self._received if same(essence(self._lines[place].message), meant)), None)

    def _repeat(self, message: Json) -> bool:
        """Send the recorded response to a repeated request."""
        place = self._matching_request(message)
        for answer, base in self._bases.items():
            if place is not None and base == place and "method" not in self._lines[answer].message:
                repeated = {**self._lines[answer].message, "id": message["id"]}
                self._channel.send(msgspec.json.encode(repeated))
                return True
        return False

    def _refuse(self, message: Json) -> None:
        method = message["method"]
        if method == "server/discover" and any(line.message.get("method") == "initialize" for line in self._lines):
            # The era was known when this was recorded, so nobody probed.
            self._answer(message, METHOD_NOT_FOUND, f"Method not found: {method}")
            return
        text = f"The transcript has no {title(message)} like this one"
        meant = essence(message)
        alike = [
            essence(line.message)
            for place, line in enumerate(self._lines)
            if line.sender == "client" and place not in self._received and line.message.get("method") == method
        ]
        text += f":\n{difference(alike[0], meant)}" if alike else f": {msgspec.json.encode(meant).decode()}"
        self.problems.append(text)
        self._answer(message, INTERNAL_ERROR, text)

    def _answer(self, message: Json, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        self._channel.send(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "error": error}))

    def _addressed(self, message: Json, base: int | None) -> Json | None:
        """A message with the ids of this client; None if this client has not sent the request."""
        if base is None:
            return message
        asked = self._received[base]
        if "method" not in message:
            return {**message, "id": asked["id"]}
        params = cast(Json, message.get("params") or {})
        if PROGRESS_TOKEN in params:
            token = _meta(asked).get(PROGRESS_TOKEN)
            return None if token is None else {**message, "params": {**params, PROGRESS_TOKEN: token}}
        meta = {**_meta(message), SUBSCRIPTION_ID: asked["id"]}
        return {**message, "params": {**params, "_meta": meta}}


def _needs(lines: list[Line]) -> Iterator[tuple[int, set[int]]]:
    """For each line of the server, the lines of the client that must precede it."""
    latest: int | None = None
    for place, line in enumerate(lines):
        if line.sender == "client":
            latest = place
            continue
        base = _base(lines, place)
        if base is None:
            yield place, set() if latest is None else {latest}
        else:
            answers = {
                i for i in range(base, place) if lines[i].sender == "client" and "method" not in lines[i].message
            }
            yield place, {base, *answers}


def _base(lines: list[Line], place: int) -> int | None:
    """The request of the client that a line of the server belongs to, if any."""
    message = lines[place].message
    params = message.get("params")
    token = cast(Json, params).get(PROGRESS_TOKEN) if isinstance(params, dict) else None
    subscription = _meta(message).get(SUBSCRIPTION_ID)
    for i in range(place - 1, -1, -1):
        asked = lines[i].message
        if lines[i].sender != "client" or "method" not in asked or "id" not in asked:
            continue
        if "method" not in message:
            matches = asked["id"] == message.get("id")
        elif token is not None:
            matches = _meta(asked).get(PROGRESS_TOKEN) == token
        else:
            matches = subscription is not None and asked["id"] == subscription
        if matches:
            return i
    return None


def _meta(message: Json) -> Json:
    params = message.get("params")
    meta = cast(Json, params).get("_meta") if isinstance(params, dict) else None
    return cast(Json, meta) if isinstance(meta, dict) else {}
