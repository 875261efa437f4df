"""Files below the roots that the client names, and no others.

    dovetail call examples/files.py list_files --root .

A path is resolved first, links and dots and all, and compared with the roots afterwards, component by
component: `/home/ann-old` is not inside `/home/ann`, and a link that leads out of a root leads nowhere.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import url2pathname

from dovetail import Context, Param, Server, ToolError

MAX_BYTES = 1_000_000
MAX_ENTRIES = 1_000

server = Server("files", version="1.0.0", instructions="Paths are relative to a root of the client, or absolute.")


@dataclass
class Entry:
    """A file or a folder."""

    name: str
    folder: bool
    size: int


def _inside(path: str, uris: list[str]) -> Path:
    """The real place of a path, if it is inside a root."""
    roots = [Path(url2pathname(urlsplit(uri).path)).resolve() for uri in uris]
    if "\0" not in path:
        for root in roots:
            try:
                real = (root / path).resolve(strict=True)
            except (OSError, RuntimeError):  # it is not there, or its links go round in a circle
                continue
            if any(real.is_relative_to(allowed) for allowed in roots):
                return real
    # Whether something exists outside of the roots is nobody's business, so both cases get the same words.
    raise ToolError(f"There is no {path!r} inside the roots: {', '.join(map(str, roots)) or 'there are none'}.")


def _list(path: str, uris: list[str]) -> list[Entry]:
    folder = _inside(path, uris)
    if not folder.is_dir():
        raise ToolError(f"{path!r} is a file; read_file reads it.")
    with os.scandir(folder) as entries:
        found = [
            Entry(entry.name, entry.is_dir(follow_symlinks=False), entry.stat(follow_symlinks=False).st_size)
            for entry in itertools.islice(entries, MAX_ENTRIES)
        ]
    return sorted(found, key=lambda entry: (not entry.folder, entry.name))


def _read(path: str, uris: list[str]) -> str:
    file = _inside(path, uris)
    if not file.is_file():
        raise ToolError(f"{path!r} is no file; list_files lists a folder.")
    # The path is real, so its last part is no link; if it has become one since then, it is not followed.
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolError(f"{path!r} is larger than {MAX_BYTES} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path!r} is not text.") from None


async def _roots(ctx: Context) -> list[str]:
    """The roots; asked for at each call, for they may change."""
    return [root.uri for root in await ctx.roots()]


@server.tool(read_only=True)
async def list_files(ctx: Context, path: str = ".") -> list[Entry]:
    """List a folder.

    Args:
        path: The folder; the first root if nothing is said.
    """
    # Questions need `async def`; the disk may be slow, so it is looked at in a thread.
    return await asyncio.to_thread(_list, path, await _roots(ctx))


@server.tool(read_only=True)
async def read_file(path: Annotated[str, Param("The file", min_length=1)], ctx: Context) -> str:
    """Read a text file."""
    return await asyncio.to_thread(_read, path, await _roots(ctx))


if __name__ == "__main__":
    server.run()
