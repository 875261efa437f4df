"""Reloading proxy of `dovetail run --reload`: the client stays connected while the server process is replaced.

The server runs in a process of its own, because only a new process is sure to run the new code. Calls that
are in progress when a file changes may finish within a grace period.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import check_file
from dovetail.transports.process import ProcessChannel
from dovetail.transports.stdio import StdioChannel, replace_closed_standard_streams
from dovetail.wire.lines import TooLong

from .session_state import Message, ReloadedSession
from .source_changes import SourceWatch, log

GRACE_SECONDS = 5.0

_RELOADED = "The server was reloaded before it could answer"


def serve_and_reload(path: str, name: str | None, folders: Sequence[str] = (), arguments: Sequence[str] = ()) -> int:
    """Serve until the client disconnects, restarting the server when its code changes.

    By default the folder of the file is watched. The server gets the arguments.
    """
    check_file(path)
    replace_closed_standard_streams()
    asyncio.run(_Reloader(path, name, folders, arguments).run())
    return OK


class _Reloader:
    """Forwards messages between the client and the current server process."""

    def __init__(self, path: str, name: str | None, folders: Sequence[str], arguments: Sequence[str]) -> None:
        self._path = os.path.abspath(path)
        self._folders = folders or [os.path.dirname(self._path)]
        word = self._path if name is None else f"{self._path}:{name}"
        self._command = [sys.executable, "-P", "-m", "dovetail.cli", "run", word, "--", *arguments]
        self._state = ReloadedSession()
        self._client = StdioChannel()
        self._server: ProcessChannel | None = None
        self._exited: str | None = None
        self._restarting = False
        self._queued: list[bytes] = []
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until the client disconnects or a signal arrives."""
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._stopped.set)
        # Scan before starting, so that a change in between is noticed. Start before reading, so that there is a
        # process to forward to.
        watcher = asyncio.create_task(self._watch(await asyncio.to_thread(SourceWatch, self._folders)))
        try:
            self._start()
            self._client.open(_ProxyReceiver(self._from_client, lambda _: self._stopped.set()))
            await self._stopped.wait()
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            await self._idle()
        finally:
            watcher.cancel()
            for task in self._tasks:
                task.cancel()
            if self._server is not None:
                await self._server.close()
            await self._client.close()

    async def _watch(self, watch: SourceWatch) -> None:
        async for change in watch.changes():
            if change.problem is not None:
                log(f"not reloaded: {change.problem}")
            else:
                log(f"{', '.join(change.names)} changed: reloading")
                await self._restart()

    async def _restart(self) -> None:
        self._restarting = True
        self._client.pause()
        try:
            await self._idle()
            if self._server is not None:
                await self._server.close()
            self._send_to_client(self._state.process_exited(_RELOADED))
            self._start()
            self._send_to_client(self._state.change_notifications())
        finally:
            self._restarting = False
            queued, self._queued = self._queued, []
            for line in queued:
                self._from_client(line)
            self._client.resume()

    def _start(self) -> None:
        self._exited = None
        # Python takes a .pyc for fresh when source and .pyc share size and second: an edit could go unseen.
        process = self._server = ProcessChannel(self._command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        process.open(_ProxyReceiver(self._from_server, lambda reason: self._on_exit(process, reason)))
        for message in self._state.replay_messages():
            process.send(msgspec.json.encode(message))

    async def _idle(self) -> None:
        """Wait until no request of the client is pending, within the grace period."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                while self._state.has_pending and self._exited is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _from_client(self, line: bytes) -> None:
        if self._restarting:
            self._queued.append(line)
            return
        if self._exited is not None:
            reason = self._exited
            for message in _messages(line):
                if (answer := self._state.error_response(message, reason)) is not None:
                    self._send_to_client([answer])
            return
        server = self._server
        forwarded = _rewritten(line, self._state.from_client)
        if server is not None and forwarded is not None:
            server.send(forwarded)
            if server.congested:
                self._client.pause()
                self._after(server.drained, self._client.resume)

    def _from_server(self, line: bytes) -> None:
        server, forwarded = self._server, _rewritten(line, self._state.from_server)
        self._changed.set()
        if forwarded is not None:
            self._client.send(forwarded)
            if self._client.congested and server is not None:
                server.pause()
                self._after(self._client.drained, server.resume)

    def _on_exit(self, process: ProcessChannel, reason: str | None) -> None:
        """After a process exits by itself, restart it only when a file changes."""
        if process is self._server and not self._restarting:
            self._exited = f"The server exited and restarts when its code changes: {reason}"
            log("the server exited; it restarts when a file changes")
            self._send_to_client(self._state.process_exited(self._exited))
        self._changed.set()

    def _send_to_client(self, messages: list[Message]) -> None:
        for message in messages:
            self._client.send(msgspec.json.encode(message))

    def _after(self, wait: Callable[[], Any], then: Callable[[], None]) -> None:
        async def work() -> None:
            await wait()
            then()

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _ProxyReceiver:
    """Receiver of one side of the proxy."""

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end

    def received(self, line: bytes) -> None:
        """Forward a line."""
        self._on_line(line)

    def failed(self, id: Any, problem: Exception) -> None:
        """Never called: pipes do not lose single messages."""

    def disconnected(self, reason: str | None) -> None:
        """Report the end of the connection."""
        self._on_end(reason)

    def overlong(self, line: TooLong) -> None:
        """Print a warning; the proxy drops overlong messages."""
        log(f"a message of {line.size} bytes is too long and was dropped")


def _rewritten(line: bytes, rewrite: Callable[[Message], Message | None]) -> bytes | None:
    """Rewrite the messages of a line; the bytes stay as they are if nothing changes, or if it is not JSON."""
    messages = _messages(line)
    kept = [(message, rewrite(message)) for message in messages]
    if all(after is before for before, after in kept):
        return line
    left = [after for _, after in kept if after is not None]
    if not left:
        return None
    return msgspec.json.encode(left[0] if len(messages) == 1 else left)


def _messages(line: bytes) -> list[Message]:
    """The messages of a line: one, or a batch."""
    try:
        read: list[Message] | Message = msgspec.json.decode(line, type=list[dict[str, Any]] | dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return read if isinstance(read, list) else [read]
