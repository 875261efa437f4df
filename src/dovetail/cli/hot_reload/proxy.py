"""`dovetail run --reload`: the client keeps its connection while the server's process is replaced.

The server runs in a process of its own, since new code is only sure to be used by a new process. Calls
that run when a file changes are waited for, within a bound.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import check_file
from dovetail.transports.process import ProcessChannel
from dovetail.transports.stdio import StdioChannel, mend_standard_streams
from dovetail.wire.lines import TooLong

from . import file_watch
from .session_state import Continuity, Message

LOOK_SECONDS = 0.3
GRACE_SECONDS = 5.0

_RELOADED = "The server was reloaded before it could answer"


def serve_and_reload(path: str, name: str | None) -> int:
    """Serve until the client goes, always with the newest code."""
    check_file(path)
    mend_standard_streams()
    asyncio.run(_Reloader(path, name).run())
    return OK


class _Reloader:
    """Passes messages on between the client and the process that serves now."""

    def __init__(self, path: str, name: str | None) -> None:
        self._path = os.path.abspath(path)
        word = self._path if name is None else f"{self._path}:{name}"
        self._command = [sys.executable, "-P", "-m", "dovetail.cli", "run", word]
        self._continuity = Continuity()
        self._front = StdioChannel()
        self._back: ProcessChannel | None = None
        self._down: str | None = None
        self._replacing = False
        self._held: list[bytes] = []
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the client or a signal says to end."""
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._gone.set)
        # First look, then start: what changes in between is a change. And nothing is read before there is
        # somebody to pass it on to.
        folder = os.path.dirname(self._path)
        watching = asyncio.create_task(self._watch(folder, await asyncio.to_thread(file_watch.look, folder)))
        try:
            self._start()
            self._front.open(_End(self._from_client, lambda _: self._gone.set()))
            await self._gone.wait()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._answered()
        finally:
            watching.cancel()
            for task in self._tasks:
                task.cancel()
            if self._back is not None:
                await self._back.close()
            await self._front.close()

    async def _watch(self, folder: str, before: file_watch.State) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await asyncio.to_thread(file_watch.look, folder)
            if not (found := file_watch.changed(before, now)):
                continue
            if problem := file_watch.broken(found):
                _say(f"not reloaded: {problem}")
            else:
                _say(f"{', '.join(path[len(folder) + 1 :] for path in found)} changed: reloading")
                await self._replace()
            before = now

    async def _replace(self) -> None:
        self._replacing = True
        self._front.pause()
        try:
            await self._answered()
            if self._back is not None:
                await self._back.close()
            self._tell(self._continuity.ended(_RELOADED))
            self._start()
            self._tell(self._continuity.news())
        finally:
            self._replacing = False
            held, self._held = self._held, []
            for line in held:
                self._from_client(line)
            self._front.resume()

    def _start(self) -> None:
        self._down = None
        # Python takes a .pyc for fresh when source and .pyc share size and second: an edit could go unseen.
        back = self._back = ProcessChannel(self._command, env={"PYTHONDONTWRITEBYTECODE": "1"})
        back.open(_End(self._from_server, lambda reason: self._ended(back, reason)))
        for message in self._continuity.greeting():
            back.send(msgspec.json.encode(message))

    async def _answered(self) -> None:
        """Wait until nobody waits for an answer, within the grace period."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                while self._continuity.waiting and self._down is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass

    def _from_client(self, line: bytes) -> None:
        if self._replacing:
            self._held.append(line)
            return
        if self._down is not None:
            reason = self._down
            for message in _messages(line):
                if (answer := self._continuity.refused(message, reason)) is not None:
                    self._tell([answer])
            return
        back = self._back
        passed = _passed(line, self._continuity.from_client)
        if back is not None and passed is not None:
            back.send(passed)
            if back.congested:
                self._front.pause()
                self._later(back.drained, self._front.resume)

    def _from_server(self, line: bytes) -> None:
        back, passed = self._back, _passed(line, self._continuity.from_server)
        self._news.set()
        if passed is not None:
            self._front.send(passed)
            if self._front.congested and back is not None:
                back.pause()
                self._later(self._front.drained, back.resume)

    def _ended(self, back: ProcessChannel, reason: str | None) -> None:
        """A process that ends by itself is not started again before a file changes."""
        if back is self._back and not self._replacing:
            self._down = f"The server ended, and waits for a change of its code: {reason}"
            _say("the server ended; it starts again when a file changes")
            self._tell(self._continuity.ended(self._down))
        self._news.set()

    def _tell(self, messages: list[Message]) -> None:
        for message in messages:
            self._front.send(msgspec.json.encode(message))

    def _later(self, wait: Callable[[], Any], then: Callable[[], None]) -> None:
        async def work() -> None:
            await wait()
            then()

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _End:
    """One end's receiver."""

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end

    def received(self, line: bytes) -> None:
        """Take a line."""
        self._on_line(line)

    def failed(self, id: Any, problem: Exception) -> None:
        """A process loses no single message."""

    def disconnected(self, reason: str | None) -> None:
        """Take the end."""
        self._on_end(reason)

    def overlong(self, line: TooLong) -> None:
        """Say so; a message that long is beyond what a server in development needs."""
        _say(f"a message of {line.size} bytes is too long and was dropped")


def _passed(line: bytes, through: Callable[[Message], Message | None]) -> bytes | None:
    """A line as it goes on: untouched where nothing in it changes, also when it is no message at all."""
    messages = _messages(line)
    kept = [(message, through(message)) for message in messages]
    if all(after is before for before, after in kept):
        return line
    left = [after for _, after in kept if after is not None]
    if not left:
        return None
    return msgspec.json.encode(left[0] if len(messages) == 1 else left)


def _messages(line: bytes) -> list[Message]:
    """The messages of a line: one, or those of a batch."""
    try:
        read: list[Message] | Message = msgspec.json.decode(line, type=list[dict[str, Any]] | dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return read if isinstance(read, list) else [read]


def _say(text: str) -> None:
    print(f"dovetail: {text}", file=sys.stderr, flush=True)
