"""A whole process that serves over HTTP: on uvicorn, until a signal says to end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from dovetail.protocol.errors import LocalError
from dovetail.server.http.asgi_app import Endpoint
from dovetail.server.http.options import AsgiOptions, Settings
from dovetail.server.run.signals import run_to_the_end
from dovetail.server.run.sockets import at_path, at_port
from dovetail.types.errors import missing_extra

if TYPE_CHECKING:
    import uvicorn

    from dovetail.server.app import Server

    from .session_relay import Relay

logger = logging.getLogger("dovetail")

KEEP_ALIVE_SECONDS = 75
"""How long a connection may be idle: longer than proxies keep theirs, so that it is never us who closes first."""

PING_SECONDS = 20.0
"""How often a WebSocket is pinged, and how long a pong may take."""

_BACKLOG = 2048


class RunOptions(AsgiOptions, total=False):
    """The options of `Server.run`: those of `Server.asgi`, and where to listen.

    For `unix`, the path is that of the socket.
    """

    host: str
    port: int
    workers: int
    """Processes that share the port."""
    uds: str | None
    """A Unix socket to listen at, in place of a port."""


class CannotListen(LocalError, SystemExit):
    """There is no listening there. A program that does not catch it ends with its one line, not with a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = message


def run_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    grace: float = 5.0,
    uds: str | None = None,
    **options: Unpack[AsgiOptions],
) -> None:
    """Serve over HTTP until a signal says to end; calls that run then have the grace period to finish."""
    require_uvicorn()
    settings = Settings.of(options)
    bind, removed = at_path(uds, 0o600) if uds is not None else (at_port(host, port, allow_remote=True), None)
    with removed or contextlib.nullcontext():
        try:
            sockets = bind()
        except LocalError as problem:
            raise CannotListen(str(problem)) from problem
        with contextlib.ExitStack() as bound:
            for one in sockets:
                bound.enter_context(contextlib.closing(one))
            if uds is None:
                _warn_if_open(server, host, settings)
            announce = _announcement(server, sockets[0], uds, settings.path, always=port == 0)
            if workers > 1:
                from .workers import run_workers

                run_workers(server, settings, host, sockets, workers, grace, announce)
            else:
                serve_here(Endpoint(server, settings, host), settings, sockets, grace, announce)


def serve_here(
    endpoint: Endpoint,
    settings: Settings,
    sockets: list[socket.socket],
    grace: float,
    started: Callable[[], None],
    relay: Relay | None = None,
    tether: Tether | None = None,
) -> None:
    """Serve in this process; with a `tether`, also until somebody lets go of its other end."""
    silenced = logging.root.manager.disable
    try:
        run_to_the_end(
            lambda: HttpServing(endpoint, settings, sockets, grace, started, relay, tether), grace, _loop_factory()
        )
    finally:
        logging.disable(silenced)


def require_uvicorn() -> None:
    """LocalError, if there is nothing to run an ASGI application on."""
    try:
        import uvicorn  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as problem:
        raise missing_extra("http", "Serving over HTTP") from problem


class Tether(NamedTuple):
    """Two pipes whose other ends are held by the process that started this one."""

    end: int
    """Closed when all is to end gracefully."""
    at_once: int
    """Closed when nothing is to be waited for any more."""


class HttpServing:
    """An endpoint on uvicorn."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        sockets: list[socket.socket],
        grace: float,
        started: Callable[[], None],
        relay: Relay | None = None,
        tether: Tether | None = None,
    ) -> None:
        from .uvicorn_server import GracefulUvicorn

        self._endpoint = endpoint
        self._grace = grace
        self._sockets = sockets
        self._started = started
        self._relay = relay
        self._tether = tether
        self._uvicorn = GracefulUvicorn(
            _configured(endpoint, settings), endpoint, grace, relay is not None, self._begun
        )
        self.running = False
        """Not still starting, and not ending already."""

    async def run(self) -> None:
        """Serve until stopped; whoever is connected then gets the answers that are due within the grace period."""
        with self._tethered():
            try:
                if self._relay is not None:
                    await self._relay.open(self._endpoint)
                await self._uvicorn.serve(self._sockets)
            except asyncio.CancelledError:
                # At once, as was asked for: what that breaks is nobody's error.
                logging.disable()
                self._uvicorn.cut_off()
                raise
            finally:
                self.running = False
                if self._relay is not None:
                    await self._relay.close()

    def stop(self) -> None:
        """Take nothing new and come to an end."""
        self.running = False
        self._wind_down()

    def _wind_down(self) -> None:
        self._endpoint.stop(self._grace)
        self._uvicorn.end()

    def _begun(self) -> None:
        self.running = True
        self._started()

    @contextlib.contextmanager
    def _tethered(self) -> Generator[None]:
        if self._tether is None:
            yield
            return
        loop, tether, task = asyncio.get_running_loop(), self._tether, asyncio.current_task()
        assert task is not None

        def end() -> None:
            loop.remove_reader(tether.end)
            if self._uvicorn.started:
                # It still counts as running: a signal, which may come to all of us, is the first one.
                self._wind_down()
            else:
                task.cancel()

        def end_at_once() -> None:
            loop.remove_reader(tether.at_once)
            task.cancel()

        loop.add_reader(tether.end, end)
        loop.add_reader(tether.at_once, end_at_once)
        try:
            yield
        finally:
            for pipe in tether:
                loop.remove_reader(pipe)


def _configured(endpoint: Endpoint, settings: Settings) -> uvicorn.Config:
    import uvicorn

    try:
        from .uvicorn_protocol import BoundedHttp
    except ImportError:
        http: Any = "h11"
    else:
        http = BoundedHttp
    websocket = settings.websocket and importlib.util.find_spec("websockets") is not None
    config = uvicorn.Config(
        endpoint,
        http=http,
        ws=_websocket if websocket else "none",  # type: ignore[arg-type]
        ws_max_size=settings.max_body,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # costs more CPU and memory than it is worth between programs
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level=_uvicorn_level(),
        access_log=False,
        proxy_headers=False,  # the endpoint looks for itself, and needs one of them only
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=65_536,
    )
    config.load()
    return config


def _uvicorn_level() -> int | None:
    """Only what goes wrong, unless somebody has chosen: its other lines tell of its own doings."""
    chosen = any(logging.getLogger(name).level for name in ("uvicorn", "uvicorn.error"))
    return None if chosen else logging.WARNING


def _websocket(**arguments: Any) -> asyncio.Protocol:
    """The protocol of a connection that becomes a WebSocket; its library takes 50 ms to import."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**arguments)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _warn_if_open(server: Server, host: str, settings: Settings) -> None:
    """Say who is let in where other machines can come, unless somebody has thought of that."""
    if _only_here(host) or settings.allowed_hosts:
        return
    named = "localhost" if _is_everywhere(host) else f"localhost or {host}"
    known = "" if server.auth is not None else ", without asking who they are"
    logger.warning(
        "Other machines can reach %s. Requests that name %s as their host are let in%s; "
        "let in other names with allowed_hosts (--allow-host).",
        host or "every address of this one",
        named,
        known,
    )


def _only_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_everywhere(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _announcement(
    server: Server, sock: socket.socket, uds: str | None, path: str, *, always: bool
) -> Callable[[], None]:
    """What tells the person at the terminal where the server is; nobody else could know a port that was not chosen."""

    def announce() -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
            if always or sys.stderr.isatty():
                sys.stderr.write(f"{server.info.name} serves MCP at {where}; Ctrl-C ends it.\n")
                sys.stderr.flush()

    if uds is not None:
        where = f"{path} of the socket {os.fspath(uds)}"
    else:
        host, port = sock.getsockname()[:2]
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    return announce
