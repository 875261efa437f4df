"""One process on one port serves a client of 2024-11-05, one of 2025-06-18 and one of 2026-07-28 at the same time."""

import asyncio

import pytest

from dovetail import Client, Context, Server
from tests.interop.peers import ENVELOPE, HANDSHAKE, node_program, python_program
from tests.support.http import serving

pytestmark = pytest.mark.interop

PATHS = {HANDSHAKE[0]: "/sse", HANDSHAKE[2]: "/mcp", ENVELOPE: "/mcp"}


def build() -> Server:
    """A call of `meet` ends when three calls are there, so none can end unless all are served at once."""
    server = Server("meeting")
    table = asyncio.Barrier(len(PATHS))
    there: list[str] = []

    @server.tool
    async def meet(ctx: Context) -> str:
        there.append(ctx.revision)
        await table.wait()
        return " ".join(sorted(there))

    return server


async def test_clients_of_other_sdks_of_three_eras_share_one_server() -> None:
    async def visit(revision: str, url: str) -> str:
        known = node_program("typescript_meet.mjs") if revision == ENVELOPE else python_program("mcp1", "mcp1_meet.py")
        command = [*known, revision, url + PATHS[revision]]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        assert process.returncode == 0
        return printed.decode().strip()

    async with serving(build().asgi()) as url:
        said = await asyncio.gather(*(visit(revision, url) for revision in PATHS))
    assert said == [f"{revision} {' '.join(PATHS)}" for revision in PATHS]


async def test_our_clients_of_three_eras_share_one_server() -> None:
    async def visit(revision: str, url: str) -> str:
        async with Client(url + PATHS[revision], revision=revision) as client:
            return f"{client.revision} {(await client.call('meet')).text}"

    async with serving(build().asgi()) as url:
        said = await asyncio.gather(*(visit(revision, url) for revision in PATHS))
    assert said == [f"{revision} {' '.join(PATHS)}" for revision in PATHS]
