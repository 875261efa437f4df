"""Many clients at one socket: all served at once, none in the way of another, and nothing left at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dovetail import LocalError, Server
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, REVISIONS
from dovetail.server import SocketServer, listen_tcp, listen_unix
from dovetail.transports.memory import MemoryChannel
from dovetail.transports.sockets import SocketChannel, connect_tcp, connect_unix
from dovetail.types.capabilities import ClientCapabilities
from tests.support.http import free_port
from tests.support.raw import PATIENCE, eventually
from tests.support.served import Caller
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets are needed")


class Desk:
    """A server that counts what happens at it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.steps: list[str] = []
        self.server = Server("desk", lifespan=self.lifespan)
        for tool in (self.echo, self.wait, self.much):
            self.server.tool(tool)

    @contextlib.asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        self.steps.append("entered")
        yield
        self.steps.append("left")

    async def echo(self, text: str) -> str:
        self.steps.append(text)
        return text

    async def wait(self) -> str:
        self.steps.append("begun")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.steps.append("cancelled")
            raise
        return "done"

    async def much(self) -> str:
        self.steps.append("much")
        return "x" * 100_000


class Place:
    """A desk that listens, and ways to get there."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "desk.sock"
        self.desk = Desk()
        self.listening: SocketServer
        self.task: asyncio.Task[None]
        self._channels: list[SocketChannel] = []

    async def start(self, **options: Any) -> None:
        started: asyncio.Future[SocketServer] = asyncio.get_running_loop().create_future()
        options["started"] = started.set_result
        server = self.desk.server
        listen = listen_unix(server, self.path, **options) if self.kind == "unix" else listen_tcp(server, **options)
        self.task = asyncio.create_task(listen)
        await asyncio.wait({self.task, started}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            await self.task
        self.listening = started.result()

    async def end(self) -> None:
        for channel in self._channels:
            channel.abort()
        if not self.task.done():
            self.listening.stop()
        await asyncio.wait_for(self.task, PATIENCE)
        await settled()

    @property
    def port(self) -> int:
        return int(self.listening.addresses[0].rpartition(":")[2])

    async def channel(self) -> SocketChannel:
        channel = await (connect_unix(self.path) if self.kind == "unix" else connect_tcp("127.0.0.1", self.port))
        self._channels.append(channel)
        return channel

    async def caller(self, revision: str = NEWEST.name) -> Caller:
        channel = cast("MemoryChannel", await self.channel())
        caller = Caller(channel, revision, ClientCapabilities())
        await caller.open()
        return caller

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.kind == "unix":
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection("127.0.0.1", self.port)


@contextlib.asynccontextmanager
async def listening(kind: str, folder: Path, **options: Any) -> AsyncIterator[Place]:
    """A place that listens; at the end no task, descriptor or file is left of it."""
    async with nothing_left_on_the_loop():
        place = Place(kind, folder)
        await place.start(**options)
        try:
            yield place
        finally:
            await place.end()
    assert not place.path.exists()


kinds = pytest.mark.parametrize("kind", ["unix", "tcp"])


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def hello(writer: asyncio.StreamWriter, *messages: dict[str, Any]) -> None:
    """A handshake by hand, and requests after it."""
    params = {"protocolVersion": HANDSHAKE[-1], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    greeting = [{"id": 0, "method": "initialize", "params": params}, {"method": "notifications/initialized"}]
    writer.write(b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in [*greeting, *messages]))


def tool(id: int, name: str) -> dict[str, Any]:
    return {"id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}}


class TestServing:
    @kinds
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_every_revision_is_served(self, kind: str, revision: str, tmp_path: Path):
        async with listening(kind, tmp_path) as place:
            caller = await place.caller(revision)
            assert text_of(await caller.call("echo", text="hello")) == "hello"

    @kinds
    async def test_two_hundred_clients_are_served_at_once(self, kind: str, tmp_path: Path):
        async with listening(kind, tmp_path) as place:

            async def visit(n: int) -> str:
                caller = await place.caller([NEWEST.name, HANDSHAKE[-1]][n % 2])
                return text_of(await caller.call("wait"))

            visits = [asyncio.create_task(visit(n)) for n in range(200)]
            await until(lambda: place.desk.steps.count("begun") == 200)
            assert place.listening.clients == 200
            place.desk.go.set()
            assert await asyncio.gather(*visits) == ["done"] * 200

    async def test_the_lifespan_spans_all_clients(self, tmp_path: Path):
        async with listening("unix", tmp_path) as place:
            assert place.desk.steps == ["entered"]
            for n in range(3):
                caller = await place.caller()
                await caller.call("echo", text=str(n))
                await caller.channel.close()
                await until(lambda: not place.listening.clients)
        assert place.desk.steps == ["entered", "0", "1", "2", "left"]

    async def test_a_server_whose_lifespan_fails_does_not_listen(self, tmp_path: Path):
        @contextlib.asynccontextmanager
        async def broken(server: Server) -> AsyncIterator[None]:
            raise ValueError("no database")
            yield

        async with nothing_left_on_the_loop():
            with pytest.raises(ValueError, match="no database"):
                await listen_unix(Server("s", lifespan=broken), tmp_path / "s")
        assert not (tmp_path / "s").exists()

    async def test_more_clients_than_allowed_are_rejected_until_one_leaves(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        async with listening("unix", tmp_path, max_clients=2) as place:
            first, second = await place.caller(), await place.caller()
            for _ in range(3):
                reader, writer = await place.streams()
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()
            assert text_of(await second.call("echo", text="undisturbed")) == "undisturbed"
            await first.channel.close()
            await until(lambda: place.listening.clients == 1)
            assert text_of(await (await place.caller()).call("echo", text="room again")) == "room again"
        assert caplog.text.count("more are rejected") == 1

    @kinds
    async def test_calls_sent_before_a_client_closed_its_side_are_answered(self, kind: str, tmp_path: Path):
        async with listening(kind, tmp_path) as place:
            reader, writer = await place.streams()
            hello(writer, tool(1, "wait"))
            await until(lambda: "begun" in place.desk.steps)
            writer.write_eof()
            await settled()
            place.desk.go.set()
            lines = (await reader.read()).splitlines()
            assert [json.loads(line)["id"] for line in lines] == [0, 1]
            writer.close()

    async def test_calls_of_a_client_whose_connection_breaks_are_stopped(self, tmp_path: Path):
        async with listening("tcp", tmp_path, grace=PATIENCE) as place:
            _, writer = await place.streams()
            hello(writer, tool(1, "wait"))
            await until(lambda: "begun" in place.desk.steps)
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            await until(lambda: "cancelled" in place.desk.steps and not place.listening.clients)

    @kinds
    async def test_a_client_that_never_reads_is_bounded_by_backpressure(self, kind: str, tmp_path: Path):
        async with listening(kind, tmp_path, grace=0.1) as place:
            _, writer = await place.streams()
            hello(writer)
            asking = asyncio.create_task(self.ask_and_ask(writer))
            other = await place.caller()
            steps = -1
            while place.desk.steps.count("much") != steps or steps == 0:
                steps = place.desk.steps.count("much")
                await asyncio.wait({asking}, timeout=0.2)
            assert not asking.done(), "it has to wait, for it is not read either"
            assert steps * 100_000 < 64 * 1024 * 1024
            assert text_of(await other.call("echo", text="undisturbed")) == "undisturbed"
            asking.cancel()
            writer.transport.abort()

    @staticmethod
    async def ask_and_ask(writer: asyncio.StreamWriter) -> None:
        for id in range(1, 1_000_000):
            writer.write(json.dumps({"jsonrpc": "2.0", **tool(id, "much")}).encode() + b"\n")
            await writer.drain()

    async def test_a_request_of_a_browser_is_not_served_over_tcp(self, tmp_path: Path):
        async with listening("tcp", tmp_path) as place:
            reader, writer = await place.streams()
            call = {"jsonrpc": "2.0", **tool(1, "much")}
            writer.write(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n")
            hello(writer, call)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            await until(lambda: not place.listening.clients)
            assert place.desk.steps == ["entered"]
            writer.close()


class TestShutdown:
    @kinds
    async def test_running_calls_finish_and_no_new_client_is_accepted(self, kind: str, tmp_path: Path):
        async with listening(kind, tmp_path, grace=PATIENCE) as place:
            caller = await place.caller()
            id = caller.begin("tools/call", name="wait", arguments={})
            await until(lambda: "begun" in place.desk.steps)
            place.listening.stop()
            await settled()
            with pytest.raises(OSError):  # noqa: PT011  refused, or the file is gone
                await place.streams()
            assert not place.task.done()
            place.desk.go.set()
            assert text_of((await caller.answer_to(id))["result"]) == "done"
            await caller.ended.wait()
            await caller.channel.close()
            await place.task
            assert place.desk.steps[-1] == "left"

    async def test_calls_that_take_longer_than_the_grace_period_are_stopped(self, tmp_path: Path):
        async with listening("unix", tmp_path, grace=0.05) as place:
            caller = await place.caller()
            caller.begin("tools/call", name="wait", arguments={})
            await until(lambda: "begun" in place.desk.steps)
            place.listening.stop()
            await caller.ended.wait()
            await caller.channel.close()
            await place.task
            assert place.desk.steps == ["entered", "begun", "cancelled", "left"]

    @kinds
    async def test_a_cancelled_server_stops_its_handlers_and_closes_everything(self, kind: str, tmp_path: Path):
        async with listening(kind, tmp_path, grace=PATIENCE) as place:
            callers = [await place.caller() for _ in range(3)]
            for caller in callers:
                caller.begin("tools/call", name="wait", arguments={})
            await until(lambda: place.desk.steps.count("begun") == 3)
            place.task.cancel()
            for caller in callers:
                await caller.ended.wait()
                await caller.channel.close()
            with pytest.raises(asyncio.CancelledError):
                await place.task
            assert place.desk.steps[-4:] == ["cancelled"] * 3 + ["left"]
            place.task = asyncio.create_task(settled())


@contextlib.contextmanager
def bound(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        yield one


class TestSocketFile:
    async def test_a_socket_is_accessible_to_its_owner_alone_by_default(self, tmp_path: Path):
        async with listening("unix", tmp_path) as place:
            assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
        async with listening("unix", tmp_path, mode=0o660) as place:
            assert stat.S_IMODE(place.path.stat().st_mode) == 0o660

    async def test_a_stale_socket_is_replaced(self, tmp_path: Path):
        with bound(tmp_path / "desk.sock"):
            pass
        assert (tmp_path / "desk.sock").exists()
        async with listening("unix", tmp_path) as place:
            assert text_of(await (await place.caller()).call("echo", text="hello")) == "hello"

    async def test_a_socket_in_use_is_left_alone(self, tmp_path: Path):
        async with listening("unix", tmp_path) as place:
            with pytest.raises(LocalError, match=r"Another server listens at .*desk.sock already"):
                await listen_unix(Server("second"), place.path)
            assert text_of(await (await place.caller()).call("echo", text="hello")) == "hello"

    async def test_a_socket_whose_server_is_busy_is_left_alone(self, tmp_path: Path):
        path = tmp_path / "busy"
        with bound(path) as busy, contextlib.ExitStack() as waiting:
            busy.listen(0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    one = waiting.enter_context(socket.socket(socket.AF_UNIX))
                    one.setblocking(False)
                    one.connect(str(path))
            with pytest.raises(LocalError, match="Another server"):
                await listen_unix(Server("second"), path)
            assert path.exists()

    async def test_a_file_that_is_not_a_socket_is_left_alone(self, tmp_path: Path):
        path = tmp_path / "letter"
        path.write_text("dear reader")
        with pytest.raises(LocalError, match="not a socket"):
            await listen_unix(Server("s"), path)
        assert path.read_text() == "dear reader"

    async def test_a_symbolic_link_is_left_alone(self, tmp_path: Path):
        with bound(tmp_path / "real"):
            pass
        (tmp_path / "link").symlink_to(tmp_path / "real")
        with pytest.raises(LocalError, match="not a socket"):
            await listen_unix(Server("s"), tmp_path / "link")
        assert (tmp_path / "real").exists()

    async def test_a_file_that_replaced_the_socket_is_not_removed(self, tmp_path: Path):
        async with nothing_left_on_the_loop():
            place = Place("unix", tmp_path)
            await place.start()
            place.path.unlink()
            place.path.write_text("mine")
            await place.end()
        assert place.path.read_text() == "mine"

    @pytest.mark.parametrize(
        ("path", "sentence"),
        [("", "needs a path"), ("a\0b", "needs a path"), ("x" * 200, "too long"), ("none/s", "No such file")],
    )
    async def test_an_impossible_path_is_an_error_that_names_it(self, path: str, sentence: str, tmp_path: Path):
        with pytest.raises(LocalError, match=sentence):
            await listen_unix(Server("s"), f"{tmp_path}/{path}" if path not in ("", "a\0b") else path)


class TestAddress:
    @pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
    async def test_an_address_that_other_machines_can_reach_is_refused_by_default(self, host: str):
        with pytest.raises(LocalError, match="allow_remote=True"):
            await listen_tcp(Server("s"), host)

    async def test_remote_addresses_are_bound_with_allow_remote(self, tmp_path: Path):
        async with listening("tcp", tmp_path, host="0.0.0.0", allow_remote=True) as place:
            assert text_of(await (await place.caller()).call("echo", text="hello")) == "hello"

    async def test_a_name_with_several_addresses_has_one_port(self, tmp_path: Path):
        async with listening("tcp", tmp_path, host="localhost") as place:
            ports = {address.rpartition(":")[2] for address in place.listening.addresses}
            assert len(ports) == 1
            assert f"127.0.0.1:{place.port}" in place.listening.addresses

    async def test_a_port_that_is_taken_is_an_error_that_names_it(self, tmp_path: Path):
        async with listening("tcp", tmp_path) as place:
            with pytest.raises(LocalError, match=f"Cannot listen at 127.0.0.1 port {place.port}: Address already"):
                await listen_tcp(Server("second"), port=place.port)

    @pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 99999), ("192.0.2.1", 0), ("not a name", 0)])
    async def test_an_impossible_address_is_an_error_that_names_it(self, host: str, port: int):
        with pytest.raises(LocalError, match=r"There is no (address|port)|Cannot listen at 192.0.2.1"):
            await listen_tcp(Server("s"), host, port, allow_remote=True)


PROGRAM = """
import asyncio, sys
from dovetail import Server
from dovetail.server.run.sockets import run_tcp, run_unix

server = Server("s")

@server.tool
async def wait() -> str:
    print("begun", flush=True)
    await asyncio.Event().wait()

kind, where, grace = sys.argv[1:]
if kind == "unix":
    run_unix(server._core, where, float(grace))
else:
    run_tcp(server._core, "127.0.0.1", int(where), float(grace))
print("ended")
"""


class TestProcess:
    @contextlib.contextmanager
    def started(self, kind: str, folder: Path, grace: float) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
        """The program above, and a client of it."""
        where = str(folder / "s") if kind == "unix" else str(free_port())
        command = [sys.executable, "-c", PROGRAM, kind, where, str(grace)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        client = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        client.settimeout(PATIENCE)

        def connected() -> bool:
            assert process.poll() is None, process.communicate()
            return client.connect_ex(where if kind == "unix" else ("127.0.0.1", int(where))) == 0

        try:
            eventually(connected, "the server listens")
            yield process, client
        finally:
            client.close()
            process.kill()
            process.communicate()

    @kinds
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_shuts_the_process_down_gracefully(self, kind: str, number: signal.Signals, tmp_path: Path):
        with self.started(kind, tmp_path, PATIENCE) as (process, client):
            process.send_signal(number)
            assert client.recv(1) == b""
            client.close()
            output, errors = process.communicate(timeout=PATIENCE)
            assert (process.returncode, output, errors) == (0, "ended\n", "")
        assert os.listdir(tmp_path) == []

    def test_a_second_signal_ends_the_process_at_once(self, tmp_path: Path):
        with self.started("unix", tmp_path, PATIENCE) as (process, client):
            params = {"protocolVersion": HANDSHAKE[-1], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            greeting = [{"id": 0, "method": "initialize", "params": params}, {"method": "notifications/initialized"}]
            for message in [*greeting, tool(1, "wait")]:
                client.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE / 2) == 0
        assert os.listdir(tmp_path) == []
