"""An application on a real uvicorn on a free loopback port: on the loop of a test, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from tests.support.raw import PATIENCE, written_to

ROOT = Path(__file__).resolve().parents[2]
Asgi = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Coroutine[Any, Any, MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Coroutine[Any, Any, None]],
    ],
    Coroutine[Any, Any, None],
]


def listening(port: int = 0) -> socket.socket:
    """A socket that listens already, so that nobody can come too early or take the port away."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said, for asyncio to set TCP_NODELAY
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(2048)
    return sock


def url_of(sock: socket.socket) -> str:
    """The address of what listens there, without a path."""
    host, port = sock.getsockname()
    return f"http://{host}:{port}"


def free_port() -> int:
    """A port on which nobody listens now; where it can be, use `listening()`."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class _Prompt(uvicorn.Server):
    """A uvicorn that says when it is ready, ends when it is told (not at the next 0.1 s) and takes no signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.end = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self.ready.set()
        await self.end.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: Asgi, sock: socket.socket | None = None, **uvicorn_options: Any) -> AsyncIterator[str]:
    """Serve an application on the running loop; yields its address, such as http://127.0.0.1:4711.

    What is still open at the end has `timeout_graceful_shutdown` (here 2 s) to end by itself. An application that
    must know its address gets a socket that was bound before, which is closed in the end.
    """
    given: dict[str, Any] = {"log_level": "critical", "timeout_graceful_shutdown": 2, "ws": "websockets-sansio"}
    sock = sock or listening()
    server = _Prompt(uvicorn.Config(app, **{**given, **uvicorn_options}))
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        ready = asyncio.create_task(server.ready.wait())
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            await task
            raise AssertionError("uvicorn ended before it began")
        yield url_of(sock)
    finally:
        server.end.set()
        try:
            await task
        finally:
            sock.close()


def announce_and_serve(app: Asgi, port: int = 0, **uvicorn_options: Any) -> None:
    """For programs: print the address as the first line of stdout, then serve until a signal comes."""
    sock = listening(port)
    print(url_of(sock), flush=True)
    given: dict[str, Any] = {"log_level": "warning", "timeout_graceful_shutdown": 2}
    uvicorn.Server(uvicorn.Config(app, **{**given, **uvicorn_options})).run(sockets=[sock])


class Program:
    """A server in a process of its own, which printed its address as its first line; it can import from `tests`."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            self.kill()
            raise AssertionError(f"{command} printed {self.url!r} and not its address\n{self.stderr}")

    @property
    def port(self) -> int:
        return int(self.url.split("/")[2].rsplit(":")[-1])

    @property
    def stderr(self) -> str:
        """What the process has written to stderr so far."""
        return written_to(self._errors).decode(errors="replace")

    def kill(self) -> None:
        """End it at once, without a farewell."""
        self.process.kill()
        self.process.wait()

    def stop(self, patience: float = PATIENCE) -> int:
        """Ask it to end, and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience)

    def close(self) -> None:
        """Leave nothing of it."""
        self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()


@contextlib.contextmanager
def serving_command(command: Sequence[str | Path]) -> Iterator[Program]:
    """Any program that serves HTTP and prints its address as its first line."""
    program = Program(command)
    try:
        yield program
    finally:
        program.close()


def serving_program(path: str | Path, *arguments: str | Path) -> contextlib.AbstractContextManager[Program]:
    """A program in Python that serves HTTP and prints its address as its first line."""
    return serving_command([sys.executable, path, *arguments])
