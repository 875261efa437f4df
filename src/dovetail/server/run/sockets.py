"""Unix and TCP sockets: binding them, and serving MCP clients that connect to them without HTTP.

MCP over a bare socket carries no Host and no Origin to check. A Unix socket is therefore accessible to its owner alone,
and a TCP port from this machine alone, unless configured otherwise. The server's lifespan spans all clients, and a
client that fails does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from dovetail.protocol.errors import LocalError
from dovetail.server.session import Session
from dovetail.transports.sockets import SocketChannel

from .signals import run_until_signalled
from .stdio import ConnectionRunner
from .store_options import StoreOptions, with_store

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore


logger = logging.getLogger("dovetail")

MAX_CLIENTS = 512
"""Clients served at the same time; more are rejected. Many systems allow a process 1024 open files."""

_BACKLOG = 1024
_CLOSE_SECONDS = 1.0
_PROBE_SECONDS = 1.0

Bind: TypeAlias = "Callable[[], list[socket.socket]]"
Started = Callable[["SocketServer"], None]


class CannotListen(LocalError):
    """An address cannot be bound: it is in use, or does not exist here."""


@contextlib.contextmanager
def reports_bind_errors_in_one_line() -> Generator[None]:
    """Let an uncaught `CannotListen` end the program with exit code 1 and one line instead of a traceback.

    It is an error of the environment and not of the program, which may catch it all the same.
    """
    try:
        yield
    except CannotListen:
        if not isinstance(sys.excepthook, _OneLineHook):  # a program may catch the error and try again
            sys.excepthook = _OneLineHook(sys.excepthook)
        raise


class _OneLineHook:
    """An exception hook that prints a `CannotListen` without its traceback."""

    def __init__(self, previous: Callable[..., object]) -> None:
        self._previous = previous

    def __call__(self, kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
        if isinstance(problem, CannotListen):
            sys.stderr.write(f"{problem}\n")
        else:
            self._previous(kind, problem, trace)


def unix_binder(path: str | os.PathLike[str], mode: int) -> tuple[Bind, contextlib.ExitStack]:
    """A function that binds a Unix socket, and a context that removes its file."""
    where = os.fspath(path)
    cleanup = contextlib.ExitStack()

    def bind() -> list[socket.socket]:
        if sys.platform == "win32":
            raise CannotListen("This operating system has no Unix sockets; use TCP")
        if not where or "\0" in where:
            raise CannotListen(f"A Unix socket needs a path, not {where!r}")
        _remove_stale(where)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            bound.bind(where)
            cleanup.callback(_remove, where, os.lstat(where))
            # No client can connect before `listen`, so the permissions that it had until now do not matter.
            os.chmod(where, mode)
        except OSError as problem:
            bound.close()
            raise CannotListen(f"Cannot listen at the socket {where}: {problem.strerror or problem}") from problem
        return [bound]

    return bind, cleanup


def _remove_stale(path: str) -> None:
    """Remove a socket that no process listens at; anything else at the path is an error."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise CannotListen(f"{path} exists already and is not a socket")
    if status.st_uid != os.geteuid():
        raise CannotListen(f"{path} is a socket of another user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            _remove(path, status)
            return
        except OSError:
            # It did not refuse: a process listens there, and is busy.
            pass
    raise CannotListen(f"Another server listens at {path} already")


def _remove(path: str, made: os.stat_result) -> None:
    """Remove the file if it is still the one that was made."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(path), made):
            os.unlink(path)


def address_of(bound: socket.socket) -> str:
    """The address that clients connect to."""
    if bound.family not in (socket.AF_INET, socket.AF_INET6):
        return os.fsdecode(bound.getsockname())
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tcp_binder(host: str, port: int, *, allow_remote: bool) -> Bind:
    """A function that binds every address of a host; only loopback addresses, unless remote clients are allowed."""

    def bind() -> list[socket.socket]:
        addresses = _addresses(host, port)
        if not allow_remote and (remote := [name for _, name in addresses if not _is_loopback(name[0])]):
            raise CannotListen(
                f"{host or 'Every address'} can be reached from other machines ({remote[0][0]}), and TCP has no "
                "authentication; listen at 127.0.0.1, or pass allow_remote=True"
            )
        return _bound(host, addresses)

    return bind


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    if not 0 <= port <= 0xFFFF:
        raise CannotListen(f"There is no port {port}")
    try:
        results = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as problem:
        raise CannotListen(f"There is no address {host!r} with port {port}: {problem}") from problem
    families = (socket.AF_INET, socket.AF_INET6)
    return [(family, (str(name[0]), int(name[1]))) for family, _, _, _, name in results if family in families]


def _bound(host: str, addresses: list[tuple[int, tuple[str, int]]]) -> list[socket.socket]:
    """Bind those addresses that this machine has; `localhost` often resolves to one that it does not have."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, (address, port) in dict.fromkeys(addresses):
            # With port 0 the system chooses a port for the first address, which the others share.
            same = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sockets.append(_bind_one(family, address, same))
            except OSError as problem:
                if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = problem
        if not sockets:
            raise missing or OSError("no address")
    except OSError as problem:
        for one in sockets:
            one.close()
        reason = problem.strerror or problem
        raise CannotListen(f"Cannot listen at {host} port {addresses[0][1][1]}: {reason}") from problem
    return sockets


def _bind_one(family: int, address: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # explicit, or asyncio sets no TCP_NODELAY
    try:
        bound.setblocking(False)
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


async def listen_unix(
    core: ServerCore,
    path: str | os.PathLike[str],
    *,
    grace: float = 5.0,
    mode: int = 0o600,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve the clients of a Unix socket until cancelled; `mode` are the permissions of its file.

    `started` is called when clients can connect, with the `SocketServer`, which can be stopped gracefully.
    """
    bind, cleanup = unix_binder(path, mode)
    with cleanup:
        await SocketServer(core, bind, grace, max_clients, started=started).run()


async def listen_tcp(
    core: ServerCore,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    grace: float = 5.0,
    allow_remote: bool = False,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve the clients of a TCP port of this machine until cancelled.

    There is no encryption and no authentication: `allow_remote` is for networks in which every machine is trusted.
    """
    bind = tcp_binder(host, port, allow_remote=allow_remote)
    await SocketServer(core, bind, grace, max_clients, only_json=True, started=started).run()


def run_unix(
    core: ServerCore,
    path: str | os.PathLike[str],
    grace: float,
    options: StoreOptions | None = None,
    *,
    mode: int = 0o600,
) -> None:
    """Serve at a Unix socket until a signal ends it."""
    bind, cleanup = unix_binder(path, mode)
    make = with_store(core, options or {}, grace, lambda: SocketServer(core, bind, grace, started=_announce))
    with cleanup, reports_bind_errors_in_one_line():
        run_until_signalled(make, grace)


def run_tcp(
    core: ServerCore,
    host: str,
    port: int,
    grace: float,
    options: StoreOptions | None = None,
    *,
    allow_remote: bool = False,
) -> None:
    """Serve at a TCP port until a signal ends it."""
    bind = tcp_binder(host, port, allow_remote=allow_remote)
    make = with_store(
        core, options or {}, grace, lambda: SocketServer(core, bind, grace, only_json=True, started=_announce)
    )
    with reports_bind_errors_in_one_line():
        run_until_signalled(make, grace)


class SocketServer:
    """Serves the clients that connect to some sockets."""

    def __init__(
        self,
        core: ServerCore,
        bind: Bind,
        grace: float,
        max_clients: int = MAX_CLIENTS,
        *,
        only_json: bool = False,
        started: Started | None = None,
    ) -> None:
        self._core = core
        self._bind = bind
        self._grace = grace
        self._max_clients = max_clients
        self._only_json = only_json
        self._started = started
        self._clients: dict[asyncio.Task[None], ConnectionRunner] = {}
        self._stopped = asyncio.Event()
        self._full = False
        self.running = False
        """True between start-up and shutdown."""
        self.addresses: list[str] = []
        """The addresses that clients connect to."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self._core.info.name

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._clients)

    async def run(self) -> None:
        """Serve until stopped; calls that run then are answered within the grace period.

        The lifespan is entered once, before the first client, and left after the last.
        """
        with contextlib.ExitStack() as bound:
            sockets = [bound.enter_context(contextlib.closing(one)) for one in self._bind()]
            async with self._core.attached(Session(self._core)):
                listeners = [await self._listener(one) for one in sockets]
                try:
                    await self._serve(listeners)
                finally:
                    self.running = False
                    await self._end(listeners)

    def stop(self) -> None:
        """Begin a graceful shutdown: accept no client, and end as if the connected ones had closed their side."""
        self.running = False
        self._stopped.set()
        for runner in self._clients.values():
            runner.stop()

    async def _serve(self, listeners: list[asyncio.Server]) -> None:
        self.running = True
        for listener in listeners:
            await listener.start_serving()
            self.addresses += [address_of(one) for one in listener.sockets]
        if self._started is not None:
            self._started(self)
        await self._stopped.wait()
        for listener in listeners:
            listener.close()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _end(self, listeners: list[asyncio.Server]) -> None:
        for listener in listeners:
            listener.close()
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                for listener in listeners:
                    await listener.wait_closed()

    async def _listener(self, bound: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        create = loop.create_server if bound.family in (socket.AF_INET, socket.AF_INET6) else loop.create_unix_server
        return await create(self._channel, sock=bound, backlog=_BACKLOG, start_serving=False)

    def _channel(self) -> SocketChannel:
        return SocketChannel(only_json=self._only_json, connected=self._accepted)

    def _accepted(self, channel: SocketChannel) -> None:
        if not self.running or len(self._clients) >= self._max_clients:
            if self.running and not self._full:
                # Logged once until there is room again: clients that are rejected may try again and again.
                self._full = True
                logger.warning("%s has %d clients, the maximum; more are rejected", self.name, len(self._clients))
            channel.abort()
            return
        runner = ConnectionRunner(self._core, channel, self._grace)
        task = asyncio.get_running_loop().create_task(self._serve_client(runner))
        self._clients[task] = runner
        task.add_done_callback(self._disconnected)

    async def _serve_client(self, runner: ConnectionRunner) -> None:
        try:
            await runner.run()
        except Exception:
            logger.exception("Serving a client failed")

    def _disconnected(self, task: asyncio.Task[None]) -> None:
        del self._clients[task]
        self._full = False


def _announce(sockets: SocketServer) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
        if sys.stderr.isatty():
            where = ", ".join(sockets.addresses)
            sys.stderr.write(f"{sockets.name} waits for MCP clients at {where}; Ctrl-C ends it.\n")
