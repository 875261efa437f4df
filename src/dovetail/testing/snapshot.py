"""Snapshots: the interface of a server in a file, to compare the server with."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dovetail.protocol.errors import LocalError

from .interface_diff import changes, report
from .interface_reader import Interface
from .message_diff import pretty


class SnapshotDiffers(AssertionError):
    """The interface of a server differs from its snapshot."""


def save_snapshot(current: Interface, path: str | os.PathLike[str]) -> None:
    """Write an interface to a file, sorted for readable diffs."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(pretty(current) + "\n", encoding="utf-8")


def load_snapshot(path: str | os.PathLike[str]) -> Interface:
    """Read an interface from a file."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Interface)
    except FileNotFoundError:
        raise LocalError(f"There is no snapshot {os.fspath(path)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise LocalError(f"{os.fspath(path)} is no snapshot: {problem}") from None


def check_snapshot(current: Interface, path: str | os.PathLike[str]) -> None:
    """Fail with a description of the changes if an interface differs from the file."""
    different = changes(load_snapshot(path), current)
    if different:
        raise SnapshotDiffers(f"The server differs from {os.fspath(path)}:\n{report(different)}")
