"""Serving one connection from beginning to end, and a whole process over stdio."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from dovetail.server.connection import ConnectionRunner
from dovetail.transports.memory import MemoryChannel, memory_pair
from dovetail.types.capabilities import ClientCapabilities
from tests.support.peer import Peer, nothing_left
from tests.support.served import Caller

PATIENCE = 30


class Ending:
    """A server with one tool that waits, and a client in the middle of a call of it."""

    def __init__(self, grace: float) -> None:
        self.go = asyncio.Event()
        self.steps: list[str] = []
        server = Server("s")
        server.tool(self.wait)
        ours, theirs = memory_pair()
        self.channel: MemoryChannel = theirs
        self.serving = ConnectionRunner(server._core, theirs, grace)
        self.running = asyncio.create_task(self.serving.run())
        self.caller = Caller(ours, HANDSHAKE[-1], ClientCapabilities())

    async def wait(self) -> str:
        self.steps.append("begun")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.steps.append("cancelled")
            raise
        return "done"

    async def begin(self) -> int:
        await self.caller.open()
        id = self.caller.begin("tools/call", name="wait", arguments={})
        await self.caller.result("ping")
        assert self.steps == ["begun"]
        return id


class TestServing:
    async def test_calls_that_were_received_are_answered_when_the_client_closes_its_side(self):
        ending = Ending(PATIENCE)
        id = await ending.begin()
        ending.serving.stop()
        ending.go.set()
        assert (await ending.caller.answer_to(id))["result"]["content"][0]["text"] == "done"
        await ending.running

    async def test_calls_that_take_longer_than_the_grace_period_are_stopped(self):
        ending = Ending(0.01)
        await ending.begin()
        ending.serving.stop()
        await ending.running
        assert ending.steps == ["begun", "cancelled"]
        await ending.caller.ended.wait()
        assert ending.caller.unread == 0

    async def test_a_client_whose_connection_broke_is_not_waited_for(self):
        ending = Ending(PATIENCE)
        await ending.begin()
        await ending.caller.channel.close()
        await ending.running
        assert ending.steps == ["begun", "cancelled"]

    async def test_a_served_connection_leaves_no_task_behind(self):
        before = asyncio.all_tasks()
        ending = Ending(PATIENCE)
        await ending.begin()
        await ending.caller.channel.close()
        await ending.running
        await nothing_left(before)

    async def test_a_lifespan_that_fails_closes_the_channel(self):
        class Broken:
            async def __aenter__(self) -> None:
                raise ValueError("no database")

            async def __aexit__(self, *_: object) -> None: ...

        ours, theirs = memory_pair()
        peer = Peer(ours)
        with pytest.raises(ValueError, match="no database"):
            await Server("s", lifespan=lambda server: Broken()).serve(theirs)
        await peer.ended.wait()

    async def test_a_cancelled_connection_stops_its_handlers_and_closes(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)
        ending = Ending(PATIENCE)
        await ending.begin()
        ending.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending.running
        assert ending.steps == ["begun", "cancelled"]
        await ending.caller.ended.wait()
        assert caplog.text == ""


NOTE = "note: server.py:8 prints to stdout, which carries messages; prints go to stderr."
SERVER = """
import asyncio, sys
from contextlib import asynccontextmanager
from dovetail import Server

@asynccontextmanager
async def lifespan(server):
    print("entered")
    try:
        yield
    finally:
        print("left")

server = Server("s", lifespan=lifespan)

@server.tool
async def echo(text: str) -> str:
    print("echoing")
    return text

@server.tool
async def wait() -> str:
    await asyncio.Event().wait()

server.run(grace=float(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


class Process:
    """The program above, driven line by line."""

    def __init__(self, program: Path, grace: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def open(self) -> None:
        hello = {"protocolVersion": HANDSHAKE[-1], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        self.send({"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"})
        assert self.read()["result"]["protocolVersion"] == HANDSHAKE[-1]

    def call(self, id: int, tool: str, **arguments: Any) -> None:
        self.send({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors


class TestProcess:
    def test_a_process_serves_until_its_input_ends(self, program: Path):
        process = Process(program, PATIENCE)
        process.open()
        process.call(1, "echo", text="hello")
        assert process.read()["result"]["content"][0]["text"] == "hello"
        code, output, errors = process.end()
        assert (code, output) == (0, "")
        assert errors.splitlines() == [NOTE, "entered", "echoing", "left"]

    def test_requests_received_before_the_end_of_input_are_answered(self, program: Path):
        process = Process(program, PATIENCE)
        process.open()
        for id in range(1, 4):
            process.call(id, "echo", text=str(id))
        code, output, _ = process.end()
        assert code == 0
        assert [json.loads(line)["id"] for line in output.splitlines()] == [1, 2, 3]

    def test_a_process_stops_calls_that_outlast_the_grace_period(self, program: Path):
        process = Process(program, 0.05)
        process.open()
        process.call(1, "wait")
        code, output, errors = process.end()
        assert (code, output) == (0, "")
        assert "1 call was still running after 0.05 s and was stopped" in errors
        assert errors.splitlines()[-1] == "left"

    @pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX are needed")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_shuts_the_process_down_gracefully(self, program: Path, number: signal.Signals):
        process = Process(program, PATIENCE)
        process.open()
        process.process.send_signal(number)
        assert process.process.wait(PATIENCE) == 0
        _, output, errors = process.end()
        assert output == ""
        assert errors.splitlines() == [NOTE, "entered", "left"]

    @pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX are needed")
    def test_a_second_signal_ends_the_process_at_once(self, program: Path):
        process = Process(program, PATIENCE)
        process.open()
        process.call(1, "wait")
        process.send({"id": 2, "method": "ping"})
        assert process.read()["id"] == 2
        process.process.send_signal(signal.SIGTERM)
        # Graceful would be to wait for the call; the second one does not.
        with pytest.raises(subprocess.TimeoutExpired):
            process.process.wait(0.3)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(PATIENCE / 2) == 0
        process.end()


def test_every_revision_is_served():
    assert list(Server("s")._core.served) == list(REVISIONS)
