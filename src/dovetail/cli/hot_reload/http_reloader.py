"""`dovetail serve --reload`: the server process is replaced while clients keep their address and their sessions.

This process binds the sockets and never serves itself. When a file changes, it starts a new process on the same
sockets; once that serves, the old one finishes its calls and ends. If the new one does not start, the old one goes on.
Sessions and events are in a store that both use, so that a client continues in the new process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.server.run.handover import VARIABLE, Handover

from .source_changes import SourceWatch, log

_BACKLOG = 2048
_TEARDOWN_SECONDS = 6.0
"""The time after the grace period in which a process ends by itself, before it is killed."""
_SETTLE_SECONDS = 1.0
_DOWN = "The server does not start, and is started again when its code changes; its log says why"


class HttpReloader:
    """Runs one server process after the other on the same sockets."""

    def __init__(
        self, command: Sequence[str], sockets: Sequence[socket.socket], folders: Sequence[str], grace: float
    ) -> None:
        """`command` serves over HTTP on the sockets that are handed over to it."""
        self._command = list(command)
        self._sockets = sockets
        self._folders = folders
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0
        self._stopped = asyncio.Event()
        self._retiring: set[asyncio.Task[None]] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._stand_in = _StandIn(sockets)

    async def run(self) -> None:
        """Serve until a signal arrives; a second one ends the server at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        for one in self._sockets:
            one.listen(_BACKLOG)
        watch = await asyncio.to_thread(SourceWatch, self._folders)
        working, stopped = asyncio.ensure_future(self._work(watch)), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            for one in self._sockets:
                one.close()
            await self._stand_in.close()
            self._retire()
            await asyncio.gather(*self._retiring, *self._watching)

    def _on_signal(self) -> None:
        if self._stopped.is_set() and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        self._stopped.set()

    async def _work(self, watch: SourceWatch) -> None:
        await self._replace()
        async for change in watch.changes():
            if change.problem is not None:
                log(f"not reloaded: {change.problem}")
                continue
            log(f"{', '.join(change.names)} changed: reloading")
            await self._replace()

    async def _replace(self) -> None:
        """Start a process, and end the previous one when it serves."""
        process, serves = await self._start()
        if not serves:
            alive = self._process is not None and self._process.returncode is None
            log("not reloaded: the previous version goes on" if alive else "waiting for a change")
            if not alive:
                await self._stand_in.open()
            return
        await self._stand_in.close()
        self._retire()
        self._process = process
        if self._retiring:
            # Connections that are kept alive belong to the old process until it ends, which running calls delay.
            await asyncio.wait(self._retiring, timeout=_SETTLE_SECONDS)
        if self._starts > 1:
            log("reloaded")

    async def _start(self) -> tuple[asyncio.subprocess.Process, bool]:
        """Start a process and wait until it serves, or has ended."""
        started_read, started_write = os.pipe()
        parent_read, parent_write = os.pipe()
        sockets = [one.fileno() for one in self._sockets]
        again = self._starts > 0 and self._process is not None
        handed = Handover(sockets, started_write, parent_read, again)
        # Python takes a .pyc for fresh when source and .pyc share size and second: an edit could go unseen.
        env = {**os.environ, VARIABLE: handed.encode(), "PYTHONDONTWRITEBYTECODE": "1"}
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=env,
            stdin=subprocess.DEVNULL,
            pass_fds=[*sockets, started_write, parent_read],
            start_new_session=True,
        )
        os.close(started_write)
        os.close(parent_read)
        self._starts += 1
        try:
            serves = await _read_byte(started_read)
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        finally:
            os.close(started_read)
            # Kept open until the process has ended: it ends when this end is closed, also by our own end.
            watching = asyncio.ensure_future(_close_after(process, parent_write))
            self._watching.add(watching)
            watching.add_done_callback(self._watching.discard)
        if not serves:
            await process.wait()
        return process, serves

    def _retire(self) -> None:
        """Let the current process finish its calls and end."""
        process, self._process = self._process, None
        if process is not None:
            task = asyncio.ensure_future(_end(process, self._grace + _TEARDOWN_SECONDS))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)


class _StandIn:
    """Answers 503 with the reason while no server runs, so that clients do not wait for one."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": _DOWN}}
        body = json.dumps(error).encode()
        head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
        self._response = f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def open(self) -> None:
        """Begin to answer."""
        if not self._servers:
            self._servers = [await asyncio.start_server(self._answer, sock=one.dup()) for one in self._sockets]

    async def close(self) -> None:
        """Stop answering."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response)
                await writer.drain()
                writer.write_eof()
                # Unread input would reset the connection, and the client might lose the response.
                while await reader.read(65_536):
                    pass
        writer.close()


async def _read_byte(descriptor: int) -> bool:
    """Wait for a byte; False if the pipe is closed first."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return bool(os.read(descriptor, 1))


async def _close_after(process: asyncio.subprocess.Process, descriptor: int) -> None:
    try:
        await process.wait()
    finally:
        os.close(descriptor)


async def _end(process: asyncio.subprocess.Process, seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def reload_is_supported() -> bool:
    """True if sockets can be handed over to child processes."""
    return sys.platform != "win32"
