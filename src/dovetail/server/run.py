"""Serving one connection from beginning to end, and a whole process over stdio."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from dovetail.runtime.connection import Connection
from dovetail.transports.base import Channel

from .session import ServerSession

if TYPE_CHECKING:
    from .app import Server


_TEARDOWN_SECONDS = 5.0
"""What the end of a process may take beyond the grace period before it is forced."""

_AT_ONCE_SECONDS = 2.0
"""The same when nothing is waited for any more."""


class Serving:
    """A server and one client of it."""

    def __init__(self, server: Server, channel: Channel, grace: float) -> None:
        self._server = server
        self._channel = channel
        self._grace = grace
        self._session = ServerSession(server)
        self._connection = Connection(channel, self._session)
        self._session.attach(self._connection)
        self.running = False
        """Not still starting, and not ending already."""

    async def run(self) -> None:
        """Serve until the client goes; calls that were read are answered within the grace period."""
        try:
            async with self._server.joined(self._session):
                await self._serve()
        finally:
            # Also when the lifespan fails, and not before it is left: what it prints is not for the client.
            await self._connection.close()

    async def _serve(self) -> None:
        self._connection.open()
        self.running = True
        try:
            broken = await self._session.ended
            self.running = False
            self._session.subscriptions.end()
            # A client that only ended its side still reads; one that broke off does not.
            await self._connection.finish_calls(self._grace if broken is None else 0)
        finally:
            await self._connection.stop()

    def stop(self) -> None:
        """Take nothing new and end as if the client had gone."""
        self.running = False
        self._channel.pause()
        self._connection.disconnected(None)


def run_stdio(server: Server, grace: float) -> None:
    """Serve over stdin and stdout until the client closes them or a signal says to end."""
    from dovetail.transports.stdio import StdioChannel, mend_standard_streams

    mend_standard_streams()
    last_resort = _LastResort()
    if os.isatty(0):
        with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
            sys.stderr.write(f"{server.info.name} waits for an MCP client on stdin; Ctrl-C ends it.\n")

    async def main() -> None:
        serving = Serving(server, StdioChannel(), grace)
        task = asyncio.current_task()
        assert task is not None
        _on_signals(serving, task, last_resort, grace)
        # What set-up made lives as long as the process: the collector need not look at it again.
        gc.freeze()
        with contextlib.suppress(asyncio.CancelledError):
            await serving.run()
        if len(asyncio.all_tasks()) > 1:
            last_resort.in_seconds(_AT_ONCE_SECONDS)

    try:
        asyncio.run(main())
    finally:
        last_resort.stand_down()


class _LastResort:
    """Ends the process when its orderly end does not come.

    A handler may hold the loop, so that no signal is seen, or take no notice of being cancelled.
    """

    def __init__(self) -> None:
        self._ended = threading.Event()

    def in_seconds(self, seconds: float) -> None:
        """Wait that long for the orderly end, then end the process."""
        # A bare thread, because threading.Thread takes locks that a frame interrupted by a signal may hold.
        _thread.start_new_thread(self._wait, (seconds,))

    def stand_down(self) -> None:
        """The orderly end has come."""
        self._ended.set()

    def _wait(self, seconds: float) -> None:
        if not self._ended.wait(seconds):
            with contextlib.suppress(OSError):
                os.write(2, b"A handler does not stop; the server ends without it.\n")
            os._exit(0)


def _on_signals(serving: Serving, task: asyncio.Task[None], last_resort: _LastResort, grace: float) -> None:
    """The first signal ends gracefully; one that comes when the end has begun already ends at once."""
    loop = asyncio.get_running_loop()
    asked = False

    def end() -> None:
        if serving.running:
            serving.stop()
        else:
            task.cancel()

    def insist(number: int, frame: object) -> None:
        nonlocal asked
        last_resort.in_seconds(_AT_ONCE_SECONDS if asked else grace + _TEARDOWN_SECONDS)
        asked = True
        if sys.platform == "win32":
            loop.call_soon_threadsafe(end)

    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform != "win32":
            loop.add_signal_handler(number, end)
        signal.signal(number, insist)
        if sys.platform != "win32":
            signal.siginterrupt(number, False)
