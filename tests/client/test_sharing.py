"""Processes that share one login: it is renewed once each time, and outlives those who die while they renew it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import default_tokens
from tests.client.protected import BACK
from tests.client.rotating import Rotating

PROGRAM = Path(__file__).with_name("sharing_process.py")
EXPIRIES = 10


def surroundings(folder: Path) -> dict[str, str]:
    """A user of our own, who is not there."""
    mine = {"XDG_CONFIG_HOME": str(folder), "DOVETAIL_LOGIN": "never", "DOVETAIL_KEYRING": "off"}
    return {**os.environ, **mine}


async def log_in(server: Rotating, folder: Path) -> None:
    store = default_tokens(environ=surroundings(folder))
    await OAuth(open_page=server.consent, redirect_uri=BACK, store=store).login_again(server.url)


class Sharer:
    """One of the processes."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.process = process

    def ask(self) -> None:
        self._in.write(b"ask\n")

    async def said(self) -> str:
        async with asyncio.timeout(30):
            return (await self._out.readline()).decode().strip()


@contextlib.asynccontextmanager
async def sharing(server: Rotating, folder: Path) -> AsyncGenerator[tuple[Sharer, Sharer]]:
    await log_in(server, folder)
    start = [
        asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), server.url, stdin=PIPE, stdout=PIPE, env=surroundings(folder)
        )
        for _ in range(2)
    ]
    processes = await asyncio.gather(*start)
    try:
        one, other = map(Sharer, processes)
        assert [await one.said(), await other.said()] == ["ready", "ready"]
        yield one, other
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def test_ten_expiries_and_one_refresh_for_each(tmp_path: Path) -> None:
    async with Rotating() as server, sharing(server, tmp_path) as both:
        assert server.refreshes == 0
        for number in range(EXPIRIES):
            server.expire()
            for each in both:
                each.ask()
            assert [await each.said() for each in both] == ["served", "served"]
            assert server.refreshes == number + 1
        assert (len(server.logins), server.reused) == (1, [])


async def test_tokens_that_are_short_of_life_are_renewed_ahead_of_time_and_once(tmp_path: Path) -> None:
    async with Rotating() as server:
        server.lifetimes = [0, 3600]
        async with sharing(server, tmp_path) as both:
            for each in both:
                each.ask()
            assert [await each.said() for each in both] == ["served", "served"]
            assert (server.refreshes, len(server.logins), server.reused) == (1, 1, [])


@pytest.mark.parametrize(("lenient", "outcome"), [(True, "served"), (False, "LoginNeeded")])
async def test_one_that_is_killed_while_it_renews_stands_in_nobodys_way(
    lenient: bool, outcome: str, tmp_path: Path
) -> None:
    async with Rotating() as server, sharing(server, tmp_path) as (one, other):
        server.lenient, server.swallowing = lenient, True
        server.expire()
        one.ask()
        await server.swallowed.wait()
        other.ask()
        server.swallowing = False
        one.process.kill()
        # The answer went down with it: whether its refresh token may be used again is the server's to say.
        assert await other.said() == outcome
        assert (len(server.logins), bool(server.reused)) == (1, not lenient)


async def test_one_that_is_killed_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    async with Rotating() as server, sharing(server, tmp_path) as (one, other):
        store = default_tokens(environ=surroundings(tmp_path))
        server.expire()
        async with store.held(server.url):
            one.ask()
            other.ask()
            refused = len(server.asked)
            while len(server.asked) == refused:
                await asyncio.sleep(0.001)
            one.process.kill()
            await one.process.wait()
        assert await other.said() == "served"
        assert (server.refreshes, server.reused) == (1, [])
