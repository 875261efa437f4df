"""Transcripts: the messages of a connection in a file, one per line."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from dovetail.protocol.errors import LocalError

from .message_diff import HIDDEN

SECRETS = frozenset(
    {
        *("authorization", "password", "passwd", "secret", "client_secret", "token", "access_token", "refresh_token"),
        *("api_key", "apikey"),
    }
)
"""Lower-case names of members whose values a transcript hides."""


class Line(msgspec.Struct, frozen=True):
    """One message."""

    sender: Literal["client", "server"] = msgspec.field(name="from")
    message: dict[str, Any]


class Transcript:
    """Records a connection: `Client(target, trace=transcript)`, then `transcript.save(path)`."""

    def __init__(self, lines: Iterable[Line] = (), *, hide: Collection[str] = SECRETS) -> None:
        """`hide` names the members of messages whose values are secret; they are never stored."""
        self.lines = list(lines)
        self._hide = frozenset(name.lower() for name in hide)

    def __call__(self, direction: Literal["sent", "received"], line: bytes) -> None:
        """Record a message; the `trace` callback of a client. Messages of a batch are recorded one by one."""
        try:
            message = self._hidden(msgspec.json.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # not a message: something that a server printed
        sender = "client" if direction == "sent" else "server"
        members = cast("list[Any]", message) if isinstance(message, list) else [message]
        self.lines += [Line(sender, cast("dict[str, Any]", one)) for one in members if isinstance(one, dict)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transcript to a file."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        encode = msgspec.json.Encoder().encode
        file.write_bytes(b"".join(encode(line) + b"\n" for line in self.lines))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Transcript:
        """Read a transcript from a file."""
        try:
            text = Path(path).read_bytes()
        except FileNotFoundError:
            raise LocalError(f"There is no transcript {os.fspath(path)}") from None
        decode = msgspec.json.Decoder(Line).decode
        lines: list[Line] = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                lines.append(decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
                raise LocalError(f"{os.fspath(path)}:{number} is no line of a transcript: {problem}") from None
        return cls(lines)

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {
                name: HIDDEN if isinstance(item, str) and name.lower() in self._hide else self._hidden(item)
                for name, item in members.items()
            }
        if isinstance(value, list):
            return [self._hidden(item) for item in cast("list[Any]", value)]
        return value
