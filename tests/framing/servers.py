"""Servers of the framing tests: each parser, on the newest and on the lowest uvicorn that is allowed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http_process import ROOT, HttpProcess

LOWEST = ROOT / ".peers" / "lowest_http" / "bin" / "python"

PROGRAM = """
{before}
from dovetail import Context, Server

server = Server("framing", **{server!r})


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool(output_schema=None)
async def fill(size: int) -> str:
    return "x" * size


@server.tool
async def pause(seconds: float) -> str:
    import asyncio

    await asyncio.sleep(seconds)
    return "rested"


server.run("http", port=0, **{options!r})
"""

WITHOUT_HTTPTOOLS = "import sys\nsys.modules['httptools'] = None\n"
PARSERS = {"httptools": "", "h11": WITHOUT_HTTPTOOLS}


@contextlib.contextmanager
def serving(
    parser: str = "httptools", uvicorn: str = "newest", *, before: str = "", **options: object
) -> Iterator[HttpProcess]:
    """Run a server whose requests are read by this parser."""
    python = Path(sys.executable)
    if uvicorn == "lowest":
        python = LOWEST
        if not python.exists():
            pytest.skip("the lowest versions of the dependencies are not installed; `make peers` does it")
    program = PROGRAM.format(before=PARSERS[parser] + before, server={}, options=options)
    with HttpProcess("", command=[python, "-c", program]) as process:
        yield process
