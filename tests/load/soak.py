"""Mixed traffic of all revisions and transports, with cancelled calls, killed servers and clients that do not read.

    python -m tests.load.soak [--minutes 10] [--clients 12] [--seed 1]

Every answer is checked, no call may run twice, and file descriptors, tasks and memory of server and clients are printed
before and after. Exit code 1: an answer was wrong, a call ran twice, a call did not end, or something kept growing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

from dovetail import Client, DovetailError, Elicitation
from tests.load.mixed_server import Usage

PROGRAM = str(Path(__file__).with_name("mixed_server.py"))
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
WITH_QUESTIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
STUCK = 60.0
"""Seconds after which an operation counts as stuck."""


@dataclass
class Tally:
    """The counts of a run, and what went wrong."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    by_kind: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def check(self, right: bool, description: str) -> None:
        """Note an answer, and a wrong one with its description."""
        self.outcomes["answered"] += 1
        if not right:
            self.wrong.append(description)


class Servers:
    """The long-lived servers, each in a process of its own."""

    def __init__(self, folder: str) -> None:
        self.unix = f"{folder}/socket"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.tcp = f"tcp://127.0.0.1:{port}"
        self._processes = [self._start("http"), self._start("unix", self.unix), self._start("tcp", str(port))]
        self.http = self._http_address()
        _wait_until(lambda: socket.socket(socket.AF_UNIX).connect(self.unix))
        _wait_until(lambda: socket.create_connection(("127.0.0.1", port)).close())

    @staticmethod
    def _start(*mode: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, PROGRAM, *mode], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _http_address(self) -> str:
        stream = self._processes[0].stderr
        assert stream is not None
        line = stream.readline().decode()
        for process in self._processes:
            assert process.stderr is not None
            os.set_blocking(process.stderr.fileno(), False)
        if match := re.search(r"http://[\d.]+:\d+", line):
            return match[0]
        raise SystemExit(f"The server did not start: {line}")

    def drain(self) -> str:
        """Return what the servers have written to stderr, so that no pipe fills up."""
        written = b""
        for process in self._processes:
            assert process.stderr is not None
            with contextlib.suppress(BlockingIOError):
                written += process.stderr.read() or b""
        return written.decode(errors="replace")

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(20)
            if process.stderr is not None:
                process.stderr.close()


class Soak:
    """One run: clients that come and go until the time is over."""

    def __init__(self, servers: Servers, seed: int) -> None:
        self.servers = servers
        self.random = random.Random(seed)
        self.tally = Tally()
        self.ends = 0.0
        self._keys: Iterator[int] = count()
        self._repeated = 0

    def target(self) -> tuple[str, str | list[str], str]:
        """Choose a transport, its target and a revision that it can carry."""
        http = self.servers.http
        choices: list[tuple[str, str | list[str], tuple[str, ...]]] = [
            ("http", f"{http}/mcp", (*HANDSHAKE[1:], "2026-07-28")),
            ("sse", f"{http}/sse", ("2024-11-05",)),
            ("websocket", f"{http.replace('http', 'ws', 1)}/mcp/ws", (*HANDSHAKE, "2026-07-28")),
            ("unix", f"unix:{self.servers.unix}", (*HANDSHAKE, "2026-07-28")),
            ("tcp", self.servers.tcp, (*HANDSHAKE, "2026-07-28")),
            ("stdio", [sys.executable, PROGRAM, "stdio"], (*HANDSHAKE, "2026-07-28")),
        ]
        weights = (6, 2, 2, 2, 2, 1)  # starting a process costs a hundred times as much as connecting
        (transport, target, revisions) = self.random.choices(choices, weights)[0]
        return transport, target, self.random.choice(revisions)

    async def run(self, seconds: float, clients: int) -> None:
        """Run clients side by side until the time is over."""
        self.ends = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._clients())
            group.create_task(self._slow_readers())
            group.create_task(self._stderr())

    async def _clients(self) -> None:
        while time.monotonic() < self.ends:
            transport, target, revision = self.target()
            self.tally.by_kind[f"{transport} {revision}"] += 1
            try:
                async with asyncio.timeout(STUCK * 2):
                    await self._one_client(transport, target, revision)
            except TimeoutError:
                self.tally.wrong.append(f"a client over {transport} on {revision} did not end")
            except (DovetailError, OSError) as error:
                self.tally.errors[f"{type(error).__name__}: {error}"[:100]] += 1

    async def _one_client(self, transport: str, target: str | list[str], revision: str) -> None:
        async def answer(question: Elicitation) -> dict[str, int]:
            await asyncio.sleep(self.random.random() / 100)
            return {"value": len(question.message)}

        async with Client(target, revision=revision, on_elicit=answer, on_log=lambda *_: None, timeout=STUCK) as client:
            running: set[asyncio.Task[None]] = set()
            for _ in range(self.random.randint(1, 60)):
                task = asyncio.create_task(self._operation(client, revision))
                running.add(task)
                task.add_done_callback(running.discard)
                if self.random.random() < 0.3:
                    delay = self.random.random() / 20
                    asyncio.get_running_loop().call_later(delay, task.cancel)
                if len(running) > 8:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if transport == "stdio" and self.random.random() < 0.2:
                self._kill_child()
            if self.random.random() < 0.8 and running:
                await asyncio.wait(running)
            if transport == "stdio" and not running:
                with contextlib.suppress(DovetailError):
                    self._repeated += (await measure(client))["repeated"]
        if running:
            await asyncio.wait(running)

    def _kill_child(self) -> None:
        """Kill one of the servers that this process has started for a client, as a crash would."""
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        own = [pid for pid in map(int, children) if _runs_over_stdio(pid)]
        if own:
            self.tally.outcomes["killed"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(own), signal.SIGKILL)

    async def _operation(self, client: Client, revision: str) -> None:
        choices = [self._add, self._once, self._block, self._report, self._text, self._read]
        if revision in WITH_QUESTIONS:
            choices.append(self._ask)
        operation: Callable[[Client], Coroutine[Any, Any, None]] = self.random.choice(choices)
        self.tally.outcomes["sent"] += 1
        try:
            await operation(client)
        except asyncio.CancelledError:
            self.tally.outcomes["cancelled"] += 1
        except (DovetailError, OSError) as error:
            self.tally.outcomes["failed"] += 1
            self.tally.errors[f"{type(error).__name__}: {error}"[:100]] += 1
        except Exception as error:
            self.tally.wrong.append(repr(error))

    def _key(self) -> str:
        return f"{os.getpid()}-{next(self._keys)}"

    async def _add(self, client: Client) -> None:
        a, b = self.random.randint(0, 1 << 40), self.random.randint(0, 1 << 40)
        result = (await client.call("add", a=a, b=b)).data
        self.tally.check(result == a + b, f"{a} + {b} is not {result}")

    async def _once(self, client: Client) -> None:
        key = self._key()
        result = (await client.call("once", key=key, milliseconds=self.random.randint(0, 30))).data
        self.tally.check(result == key, f"{key} was answered with {result}")

    async def _block(self, client: Client) -> None:
        key = self._key()
        result = (await client.call("block", key=key, milliseconds=self.random.randint(0, 10))).data
        self.tally.check(result == key, f"{key} was answered with {result}")

    async def _ask(self, client: Client) -> None:
        key = self._key()
        result = (await client.call("ask", key=key)).data
        self.tally.check(result == 2 * len(f"A number for {key}"), f"the question of {key} gave {result}")

    async def _report(self, client: Client) -> None:
        steps = self.random.randint(1, 30)
        seen: list[float] = []
        result = (await client.call("report", {"steps": steps}, progress=lambda now, *_: seen.append(now))).data
        self.tally.check(result == steps and seen == sorted(seen), f"{steps} steps gave {result} and {seen}")

    async def _text(self, client: Client) -> None:
        length = self.random.choice((10, 1_000, 100_000, 1_000_000))
        result = (await client.call("text", characters=length)).data
        self.tally.check(len(str(result)) == length, f"{length} characters became {len(str(result))}")

    async def _read(self, client: Client) -> None:
        number = str(self.random.randint(0, 1 << 30))
        (content,) = (await client.read(f"numbers://{number}")).contents
        text = getattr(content, "text", None)
        self.tally.check(text == number, f"resource {number} is {text}")

    async def _slow_readers(self) -> None:
        """Ask for long texts and read little or nothing of them, eight connections at a time."""
        host, port = self.servers.http.removeprefix("http://").split(":")
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"characters":4000000},'
            b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientInfo":{"name":"slow","version":"1"},'
            b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
            f"mcp-method: tools/call\r\nmcp-name: text\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        while time.monotonic() < self.ends:
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(8):
                    reader = await stack.enter_async_context(_connection(host, int(port), head + body))
                    with contextlib.suppress(OSError, TimeoutError):
                        async with asyncio.timeout(1):
                            await reader.readexactly(self.random.choice((0, 1, 10_000)))
                await asyncio.sleep(self.random.random())
                self.tally.outcomes["slow readers"] += 8

    async def _stderr(self) -> None:
        while time.monotonic() < self.ends:
            if "Traceback" in (written := self.servers.drain()):
                self.tally.wrong.append(f"a server wrote a traceback: {written[-2000:]}")
            await asyncio.sleep(0.5)

    async def repeated(self) -> int:
        """Return the number of calls that ran more than once, over all servers."""
        total = self._repeated
        for target in (f"{self.servers.http}/mcp", f"unix:{self.servers.unix}", self.servers.tcp):
            async with Client(target) as client:
                total += (await measure(client))["repeated"]
        return total


def _wait_until(connect: Callable[[], None], seconds: float = 20.0) -> None:
    """Try to connect until a server accepts."""
    ends = time.monotonic() + seconds
    while True:
        try:
            return connect()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


@contextlib.asynccontextmanager
async def _connection(host: str, port: int, request: bytes) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection(host, port, limit=1024)
    try:
        writer.write(request)
        yield reader
    finally:
        writer.transport.abort()


def _runs_over_stdio(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"mixed_server.py\0stdio\0")
    return False


async def measure(client: Client) -> Usage:
    """Return what the server of a client occupies."""
    return cast("Usage", (await client.call("usage")).data)


def own_usage() -> dict[str, int]:
    """Return what this process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }


async def http_usage(servers: Servers) -> Usage:
    async with Client(f"{servers.http}/mcp", revision="2026-07-28") as client:
        return await measure(client)


async def soak(minutes: float, clients: int, seed: int) -> int:
    """Run, print the figures and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder)
        try:
            run = Soak(servers, seed)
            await run.run(min(30.0, minutes * 60 / 4), clients)  # caches fill and libraries are imported
            before = (await http_usage(servers), own_usage())
            print(f"after warming up: server {before[0]}, clients {before[1]}", flush=True)
            await run.run(minutes * 60, clients)
            await asyncio.sleep(3)  # connections that were aborted are noticed
            after = (await http_usage(servers), own_usage())
            repeated = await run.repeated()
        finally:
            servers.close()
    print(f"at the end:       server {after[0]}, clients {after[1]}")
    print(f"clients by transport and revision: {dict(sorted(run.tally.by_kind.items()))}")
    print(f"operations: {dict(run.tally.outcomes)}; wrong: {len(run.tally.wrong)}; ran twice: {repeated}")
    for text, number in run.tally.errors.most_common(12):
        print(f"  {number:6} {text}")
    for text in run.tally.wrong[:20]:
        print(f"WRONG: {text}")
    grown = [
        f"{side} {name}: {old[name]} -> {new[name]}"
        for side, old, new in zip(("server", "clients"), cast("Any", before), cast("Any", after), strict=True)
        for name, slack in (("files", 16), ("tasks", 64), ("kilobytes", 60_000))
        if new[name] > old[name] + slack
    ]
    for text in grown:
        print(f"GREW: {text}")
    return 1 if run.tally.wrong or repeated or grown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(soak(options.minutes, options.clients, options.seed))


if __name__ == "__main__":
    sys.exit(main())
