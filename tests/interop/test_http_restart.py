"""Sessions kept in SQLite outlive the process: it is killed and started anew on the same port, and clients go on."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from dovetail import Client
from tests.interop.peers import HANDSHAKE, PROGRAMS, python_program
from tests.interop.test_http_nginx import events, opened, request
from tests.support.http import Program, serving_program

pytestmark = pytest.mark.interop


class Restarted:
    """Our server on one port with one file, in one process after the other."""

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._arguments = ["--http", "--store", str(folder / "sessions.db")]
        self.program = self._start(0)
        self.url = f"{self.program.url}/mcp"

    def _start(self, port: int) -> Program:
        command = [PROGRAMS / "dovetail_server.py", *self._arguments, "--port", str(port)]
        return self._stack.enter_context(serving_program(*command))

    async def killed(self) -> None:
        """Kill the process and start another, while the loop goes on and sees the connections break."""
        self.program.kill()
        self.program = await asyncio.to_thread(self._start, self.program.port)
        assert f"{self.program.url}/mcp" == self.url

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarted]:
    restarted = Restarted(tmp_path)
    yield restarted
    restarted.close()


@pytest.mark.parametrize("revision", HANDSHAKE[1:])
async def test_the_next_call_of_our_client_works(server: Restarted, revision: str) -> None:
    """Without a new handshake: the trace shows only one."""
    sent: list[bytes] = []

    def trace(direction: str, line: bytes) -> None:
        if direction == "sent":
            sent.append(line)

    async with Client(server.url, revision=revision, trace=trace) as client:
        assert (await client.call("add", a=1, b=2)).text == "3"
        await server.killed()
        assert (await client.call("add", a=2, b=3)).text == "5"
    assert sum(b'"initialize"' in line for line in sent) == 1


async def test_events_that_did_not_arrive_come_from_the_new_process(server: Restarted) -> None:
    """First from the old one, so that they are known to be written; the client that lost them knows only the first."""
    async with aiohttp.ClientSession() as http:
        headers = await opened(http, server.url)
        call = request(2, "tools/call", name="pause", arguments={}, _meta={"progressToken": 7})
        async with http.post(server.url, json=call, headers=headers) as response:
            last, message = await anext(events(response))
            assert message["params"]["message"] == "before"
        assert last is not None
        back = {**headers, "Last-Event-ID": last}
        async with Client(server.url) as other:
            await other.call("release")
        rests = []
        for _ in range(2):
            async with http.get(server.url, headers=back) as response:
                rests.append([event async for event in events(response)])
            await server.killed()
    assert rests[1] == rests[0]
    progress, answer = [message for _, message in rests[1]]
    assert progress["params"]["message"] == "after"
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "rested")


async def test_the_official_client_goes_on_and_still_hears_what_it_subscribed_to(server: Restarted) -> None:
    command = [*python_program("mcp", "mcp_waiting.py"), server.url]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"3\n"
    await server.killed()
    process.stdin.write(b"go on\n")
    assert await process.stdout.readline() == b"3\n"
    heard = asyncio.create_task(process.stdout.readline())
    async with Client(server.url) as other:
        while not heard.done():
            await other.call("touch", uri="note://static")
            await asyncio.wait((heard,), timeout=0.05)
    assert await heard == b"note://static\n"
    await process.communicate()
    assert process.returncode == 0


async def test_a_session_that_was_ended_stays_ended(server: Restarted) -> None:
    async with aiohttp.ClientSession() as http:
        headers = await opened(http, server.url)
        async with http.delete(server.url, headers=headers) as response:
            assert response.status in (200, 204)
        await server.killed()
        async with http.post(server.url, json=request(2, "ping"), headers=headers) as response:
            assert response.status == 404
