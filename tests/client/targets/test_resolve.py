"""Where a client connects to: what a user may give, and what it becomes."""

import asyncio
import contextlib
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.targets.command import CommandTarget
from dovetail.client.targets.http import HttpTarget, WebSocketTarget
from dovetail.client.targets.memory import ChannelTarget, MemoryTarget
from dovetail.client.targets.resolve import resolve_target
from dovetail.client.targets.sockets import TcpTarget, UnixTarget
from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.transports.base import Channel
from dovetail.transports.memory import MemoryChannel, memory_pair
from dovetail.transports.process import ProcessChannel
from tests.support.peer import Peer
from tests.support.waiting import until


class TestFinding:
    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("python server.py", ("python", "server.py")),
            ('  python "my server.py" --x=1', ("python", "my server.py", "--x=1")),
            (["python", "my server.py"], ("python", "my server.py")),
            (("python",), ("python",)),
            ([Path("/usr/bin/python"), "-m", "x"], ("/usr/bin/python", "-m", "x")),
        ],
    )
    def test_a_command_is_a_string_or_a_list_of_words(self, target: Any, words: tuple[str, ...]):
        found = resolve_target(target, None, None)
        assert isinstance(found, CommandTarget)
        assert found.key == (words, "")

    def test_the_same_command_elsewhere_is_another_server(self):
        here, there = (resolve_target("python server.py", None, cwd) for cwd in (None, "/tmp"))
        assert here.key != there.key

    def test_a_server_object_is_reached_in_memory(self):
        class Anything:
            async def serve(self, channel: Channel) -> None: ...

        found = resolve_target(Anything(), None, None)
        assert isinstance(found, MemoryTarget)
        assert found.key is None

    @pytest.mark.parametrize("target", ["", "   ", [], ()])
    def test_an_empty_command_is_refused(self, target: Any):
        with pytest.raises(LocalError, match="The command to run is empty"):
            resolve_target(target, None, None)

    def test_a_command_that_cannot_be_read_says_why(self):
        with pytest.raises(LocalError, match=r'The command .python "x. cannot be read: No closing quotation'):
            resolve_target('python "x', None, None)

    @pytest.mark.parametrize(
        ("target", "kind", "key"),
        [
            ("https://example.com/mcp", HttpTarget, ("url", "https://example.com/mcp")),
            ("HTTP://h:8/mcp?a=b#c", HttpTarget, ("url", "HTTP://h:8/mcp?a=b")),
            ("ws://localhost:1/x", WebSocketTarget, ("url", "ws://localhost:1/x")),
            ("wss://h/x", WebSocketTarget, ("url", "wss://h/x")),
            ("tcp://127.0.0.1:9000", TcpTarget, ("tcp", "127.0.0.1", 9000)),
            ("tcp://[::1]:9000", TcpTarget, ("tcp", "::1", 9000)),
            ("unix:/tmp/x.sock", UnixTarget, ("unix", "/tmp/x.sock")),
            ("unix:///tmp/x%20y.sock", UnixTarget, ("unix", "/tmp/x y.sock")),
        ],
    )
    def test_an_address(self, target: str, kind: type, key: object):
        found = resolve_target(target)
        assert type(found) is kind
        assert found.key == key

    def test_the_path_of_a_socket_that_is_there(self, tmp_path: Path):
        path = str(tmp_path / "s.sock")
        assert isinstance(resolve_target(path), CommandTarget)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)
            assert isinstance(resolve_target(path), UnixTarget)

    @pytest.mark.parametrize("target", ["tcp://h", "tcp://:1", "tcp://h:x", "tcp://h:99999"])
    def test_a_port_needs_a_host_and_a_number(self, target: str):
        with pytest.raises(LocalError, match="A TCP server is reached as tcp://host:port"):
            resolve_target(target)

    def test_a_socket_needs_a_path(self):
        with pytest.raises(LocalError, match="The path of the socket is missing"):
            resolve_target("unix:")

    async def test_a_channel_of_the_users_own_can_be_used_once(self):
        ours, _ = memory_pair()
        found = resolve_target(ours)
        assert isinstance(found, ChannelTarget)
        assert found.key is None
        assert await found.connect() is ours
        with pytest.raises(ConnectionLost, match="used already"):
            await found.connect()

    def test_a_url_may_be_an_argument(self):
        assert isinstance(resolve_target("fetch https://example.com", None, None), CommandTarget)

    @pytest.mark.parametrize("target", [5, None, b"python", {"command": "python"}, ["python", 5], Path("x.py")])
    def test_anything_else_is_refused(self, target: Any):
        with pytest.raises(LocalError, match="A client connects to a command"):
            resolve_target(target, None, None)


class TestMemory:
    async def test_what_is_sent_reaches_the_server_and_back(self):
        class Echo:
            async def serve(self, channel: Channel) -> None:
                assert isinstance(channel, MemoryChannel)
                peer = Peer(channel)
                peer.send({"echo": await peer.next()})
                await peer.ended.wait()

        target = MemoryTarget(Echo())
        channel = await target.connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        peer.send({"hello": 1})
        assert await peer.next() == {"echo": {"hello": 1}}
        await channel.close()
        await target.release()

    async def test_a_closing_client_waits_until_the_server_has_let_go(self):
        steps: list[str] = []

        class Slow:
            async def serve(self, channel: Channel) -> None:
                assert isinstance(channel, MemoryChannel)
                await Peer(channel).ended.wait()
                await asyncio.sleep(0.01)
                steps.append("let go")

        target = MemoryTarget(Slow())
        channel = await target.connect()
        await asyncio.sleep(0)
        await channel.close()
        await target.release()
        assert steps == ["let go"]

    async def test_a_server_that_fails_breaks_off_with_the_reason(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)

        class Broken:
            async def serve(self, channel: Channel) -> None:
                raise ValueError("no database")

        channel = await MemoryTarget(Broken()).connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        await peer.ended.wait()
        assert peer.reason == "the server failed: ValueError: no database"
        assert "The server failed" in caplog.text

    async def test_a_server_that_just_ends_closes_its_end(self):
        class Brief:
            async def serve(self, channel: Channel) -> None: ...

        channel = await MemoryTarget(Brief()).connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        await peer.ended.wait()
        assert peer.reason == "the peer closed the connection"


class TestCommand:
    async def test_a_process_starts_when_its_channel_is_opened(self, tmp_path: Path):
        mark = tmp_path / "started"
        code = f"import os, pathlib; pathlib.Path({str(mark)!r}).write_text(os.environ['WHO'] + os.getcwd())"
        target = CommandTarget([sys.executable, "-c", code], {"WHO": "me in "}, tmp_path)
        channel = await target.connect()
        assert isinstance(channel, ProcessChannel)
        assert channel.pid is None
        assert not mark.exists()

        class Nobody:
            def received(self, line: bytes) -> None: ...
            def overlong(self, line: object) -> None: ...
            def failed(self, id: object, problem: Exception) -> None: ...
            def disconnected(self, reason: str | None) -> None: ...

        channel.open(Nobody())
        try:
            await until(lambda: mark.exists() and mark.read_text())
            assert mark.read_text() == f"me in {tmp_path}"
        finally:
            await channel.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await target.release()

    def test_a_client_takes_it_as_it_is(self):
        target = CommandTarget([sys.executable], inherited={}, on_stderr=print)
        assert resolve_target(target) is target
