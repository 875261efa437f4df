"""The ASGI application on uvicorn, with a bounded graceful shutdown: finish calls, close streams, then abort."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import socket
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from dovetail.protocol.errors import LocalError

from .connection_limits import MAX_HEAD_BYTES
from .descriptors import DescriptorCheck
from .protocol_check import ServerConfig, choose_http_protocol
from .signals import ShutdownPipes, run_until_signalled
from .write_watch import WriteWatch

if TYPE_CHECKING:
    from dovetail.server.http.application import Application


KEEP_ALIVE_SECONDS = 75
"""Seconds that a connection may be idle: longer than with proxies, so that the server never closes it first."""

PING_SECONDS = 20.0
"""Seconds between pings on a WebSocket, and within which the pong must arrive."""

FLUSH_SECONDS = 1.0
"""Seconds that clients have to read what was written to them, once every call has ended."""

_TICK_SECONDS = 1.0
"""Seconds between two updates of uvicorn's Date header."""

_POLL_SECONDS = 0.01
_BACKLOG = 2048


class HttpLimits(Protocol):
    """The settings that concern uvicorn."""

    @property
    def websocket(self) -> bool:
        """True if WebSockets are served."""
        ...

    @property
    def max_body(self) -> int:
        """The longest message of a WebSocket."""
        ...


def serve_in_this_process(
    application: Application,
    limits: HttpLimits,
    sockets: list[socket.socket],
    grace: float,
    on_started: Callable[[], None],
    pipes: ShutdownPipes | None = None,
) -> None:
    """Serve until a signal, or in a worker one of the parent's pipes, says to shut down."""
    disabled = logging.root.manager.disable
    try:
        run_until_signalled(
            lambda: UvicornRunner(application, limits, sockets, grace, on_started, pipes),
            grace,
            _loop_factory(),
        )
    finally:
        logging.disable(disabled)


class UvicornServer(uvicorn.Server):
    """uvicorn that serves until `end` is called; it reports when it has started, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Shut down."""
        self._ended.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing: signals are handled elsewhere, and uvicorn would raise them again at the end."""
        yield

    async def main_loop(self) -> None:
        """Wait for `end`."""
        await self.on_tick(0)
        self._on_started()
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._ended.wait()
            await self.on_tick(0)


class GracefulUvicorn(UvicornServer):
    """uvicorn that ends calls, streams and WebSockets in order, within bounds."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        grace: float,
        on_started: Callable[[], None],
    ) -> None:
        super().__init__(config, on_started)
        self._application = application
        self._grace = grace
        self._descriptors = DescriptorCheck()

    async def on_tick(self, counter: int) -> bool:
        """Do what is due once a second."""
        self._descriptors.run()
        return await super().on_tick(counter)

    def end(self) -> None:
        """Close the listening sockets and shut down."""
        for listener in self.servers:
            listener.close()
        super().end()

    def abort_connections(self) -> None:
        """Drop every connection."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; a lifespan that fails is a LocalError, where uvicorn would exit the process."""
        try:
            await super().startup(sockets)
        except SystemExit:
            raise LocalError("The server could not start; its log says why") from None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let calls finish, close streams and WebSockets, and drop clients that do not read what is left."""
        self.end()
        for one in sockets or ():
            one.close()
        self._close_idle_connections()
        await self._application.close(self._grace)
        await self._wait_for_connections(FLUSH_SECONDS)
        self.abort_connections()
        await self._wait_for_connections(FLUSH_SECONDS)
        await self.lifespan.shutdown()

    def _close_idle_connections(self) -> None:
        """Close idle connections now and the others after their response; WebSockets are closed by the application."""
        kind = self.config.http_protocol_class
        for connection in list(self.server_state.connections):
            if isinstance(connection, kind):
                connection.shutdown()

    async def _wait_for_connections(self, seconds: float) -> None:
        # uvicorn reports neither the end of a connection nor that one has become idle, so this polls.
        state = self.server_state
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while state.connections or state.tasks:
                    if state.tasks:
                        await asyncio.wait(state.tasks, timeout=_POLL_SECONDS)
                    else:
                        await asyncio.sleep(_POLL_SECONDS)
                    self._close_idle_connections()


class UvicornRunner:
    """One process that serves an application on uvicorn."""

    def __init__(
        self,
        application: Application,
        limits: HttpLimits,
        sockets: list[socket.socket],
        grace: float,
        on_started: Callable[[], None],
        pipes: ShutdownPipes | None = None,
    ) -> None:
        self._application = application
        self._grace = grace
        self._sockets = sockets
        self._on_started = on_started
        self._pipes = pipes
        self._uvicorn = GracefulUvicorn(_configure(application, limits), application, grace, self._started)
        self.running = False
        """True between start-up and shutdown."""

    async def run(self) -> None:
        """Serve until stopped; responses that are due then are sent within the grace period."""
        with self._watch_pipes():
            try:
                await self._uvicorn.serve(self._sockets)
            except asyncio.CancelledError:
                # An immediate shutdown was requested: the errors that it causes in handlers are not worth a log entry.
                logging.disable()
                self._uvicorn.abort_connections()
                raise
            finally:
                self.running = False

    def stop(self) -> None:
        """Begin a graceful shutdown."""
        self.running = False
        self._shut_down()

    def _shut_down(self) -> None:
        self._application.stop(self._grace)
        self._uvicorn.end()

    def _started(self) -> None:
        # What the lifespan made lives as long as the process too. The thresholds stay as they are: calls leave no
        # reference cycles, and raising them only made the pauses longer where handlers do (docs/adr/0025).
        gc.collect()
        gc.freeze()
        self.running = True
        self._on_started()

    @contextlib.contextmanager
    def _watch_pipes(self) -> Generator[None]:
        """Shut down when the parent process closes a pipe, or dies."""
        if self._pipes is None:
            yield
            return
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        graceful, now = self._pipes.graceful.read_end, self._pipes.now.read_end

        def shut_down() -> None:
            loop.remove_reader(graceful)
            if self._uvicorn.started:
                # `running` stays True: a signal that was sent to the whole process group counts as the first one here.
                self._shut_down()
            else:
                task.cancel()

        def cancel() -> None:
            loop.remove_reader(now)
            task.cancel()

        loop.add_reader(graceful, shut_down)
        loop.add_reader(now, cancel)
        try:
            yield
        finally:
            loop.remove_reader(graceful)
            loop.remove_reader(now)


def _configure(application: Application, limits: HttpLimits) -> uvicorn.Config:
    websocket = limits.websocket and importlib.util.find_spec("websockets") is not None
    config = ServerConfig(
        application,
        http=asyncio.Protocol,  # chosen below, when there is a configuration to try it with
        ws=_websocket_protocol if websocket else "none",  # type: ignore[arg-type]
        ws_max_size=limits.max_body,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # costs more CPU and memory than it is worth between programs
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level=_log_level(),
        access_log=False,
        proxy_headers=False,  # the application reads them itself, and needs only one
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    config.write_watch = WriteWatch()
    config.load()
    config.http_protocol_class = choose_http_protocol(config)
    return config


def _log_level() -> int | None:
    """WARNING, unless the program has chosen a level: uvicorn's other lines are about itself."""
    chosen = any(logging.getLogger(name).level for name in ("uvicorn", "uvicorn.error"))
    return None if chosen else logging.WARNING


def _websocket_protocol(**arguments: Any) -> asyncio.Protocol:
    """The protocol of a connection that becomes a WebSocket; its library is imported now, because that takes 50 ms."""
    from .websocket_protocol import BoundedWebSocket

    return BoundedWebSocket(**arguments)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
