"""Serving the many clients that arrive at a Unix or TCP socket.

The lifespan of the server spans them all, and one that fails takes no other with it.

Sockets to listen at: a path, or a port of this machine.

What speaks over them carries no Host and no Origin to check. A Unix socket is therefore for its owner
alone, and a TCP port for this machine alone, unless said otherwise.
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
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from dovetail.protocol.errors import LocalError
from dovetail.server.session import ServerSession
from dovetail.transports.sockets import SocketChannel

from .signals import run_to_the_end
from .stdio import Serving

if TYPE_CHECKING:
    from dovetail.server.app import Server


_PROBE_SECONDS = 1.0

Bind: TypeAlias = "Callable[[], list[socket.socket]]"


def at_path(path: str | os.PathLike[str], mode: int) -> tuple[Bind, contextlib.ExitStack]:
    """How to bind a Unix socket, and what takes its file away again."""
    where = os.fspath(path)
    removed = contextlib.ExitStack()

    def bind() -> list[socket.socket]:
        if sys.platform == "win32":
            raise LocalError("Unix sockets need an operating system that has them; there is TCP")
        if not where or "\0" in where:
            raise LocalError(f"A Unix socket needs a path, not {where!r}")
        _clear(where)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            bound.bind(where)
            removed.callback(_remove, where, os.lstat(where))
            # Nobody can connect before `listen`, so nobody gets in by the rights that it had until now.
            os.chmod(where, mode)
        except OSError as problem:
            bound.close()
            raise LocalError(f"Cannot listen at the socket {where}: {problem.strerror or problem}") from problem
        return [bound]

    return bind, removed


def _clear(path: str) -> None:
    """Take away a socket that nobody listens at any more; refuse to touch anything else."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise LocalError(f"{path} is there already, and is no socket")
    if found.st_uid != os.geteuid():
        raise LocalError(f"{path} is a socket that belongs to somebody else")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            _remove(path, found)
            return
        except OSError:
            # It did not refuse: whoever listens is busy.
            pass
    raise LocalError(f"Another server listens at {path} already")


def _remove(path: str, made: os.stat_result) -> None:
    """Remove the file if it is still the same."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(path), made):
            os.unlink(path)


def address_of(bound: socket.socket) -> str:
    """What a client is told to connect to."""
    if bound.family not in (socket.AF_INET, socket.AF_INET6):
        return os.fsdecode(bound.getsockname())
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def at_port(host: str, port: int, *, allow_remote: bool) -> Bind:
    """How to bind every address of a host, which must be this machine's alone unless others may come."""

    def bind() -> list[socket.socket]:
        addresses = _addresses(host, port)
        if not allow_remote and (open_to := [name for _, name in addresses if not _is_loopback(name[0])]):
            raise LocalError(
                f"{host or 'Every address'} can be reached from other machines ({open_to[0][0]}), and TCP asks nobody "
                "who they are; listen at 127.0.0.1, or say allow_remote=True"
            )
        return _bound(host, addresses)

    return bind


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    if not 0 <= port <= 0xFFFF:
        raise LocalError(f"There is no port {port}")
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as problem:
        raise LocalError(f"There is no address {host!r} with port {port}: {problem}") from problem
    families = (socket.AF_INET, socket.AF_INET6)
    return [(family, (str(name[0]), int(name[1]))) for family, _, _, _, name in found if family in families]


def _bound(host: str, addresses: list[tuple[int, tuple[str, int]]]) -> list[socket.socket]:
    """Sockets for those addresses that this machine has; `localhost` often names one that it has not."""
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, (address, port) in dict.fromkeys(addresses):
            # With port 0 the system chooses, once for all addresses.
            same = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sockets.append(_bind_one(family, address, same))
            except OSError as problem:
                if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                absent = problem
        if not sockets:
            raise absent or OSError("no address")
    except OSError as problem:
        for one in sockets:
            one.close()
        reason = problem.strerror or problem
        raise LocalError(f"Cannot listen at {host} port {addresses[0][1][1]}: {reason}") from problem
    return sockets


def _bind_one(family: int, address: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said, for asyncio to set TCP_NODELAY
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


logger = logging.getLogger("dovetail")

MAX_CLIENTS = 512
"""Clients served at once; who comes then is turned away. Many systems allow a process 1024 open files."""

_BACKLOG = 1024
_END_SECONDS = 1.0

Started = Callable[["Listening"], None]


async def listen_unix(
    server: Server,
    path: str | os.PathLike[str],
    *,
    grace: float = 5.0,
    mode: int = 0o600,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve whoever connects to a Unix socket, until cancelled; `mode` are the rights of its file.

    `started` is called when clients can connect, with what can be stopped gracefully.
    """
    bind, removed = at_path(path, mode)
    with removed:
        await Listening(server, bind, grace, max_clients, started=started).run()


async def listen_tcp(
    server: Server,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    grace: float = 5.0,
    allow_remote: bool = False,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve whoever connects to a TCP port of this machine, until cancelled.

    There is no encryption and nobody is asked who they are: `allow_remote` is for networks where all may come.
    """
    bind = at_port(host, port, allow_remote=allow_remote)
    await Listening(server, bind, grace, max_clients, only_json=True, started=started).run()


def run_unix(server: Server, path: str | os.PathLike[str], grace: float, *, mode: int = 0o600) -> None:
    """Serve at a Unix socket until a signal says to end."""
    bind, removed = at_path(path, mode)
    with removed:
        run_to_the_end(lambda: Listening(server, bind, grace, started=_announce), grace)


def run_tcp(server: Server, host: str, port: int, grace: float, *, allow_remote: bool = False) -> None:
    """Serve at a TCP port until a signal says to end."""
    bind = at_port(host, port, allow_remote=allow_remote)
    run_to_the_end(lambda: Listening(server, bind, grace, only_json=True, started=_announce), grace)


class Listening:
    """A server and all who come to its sockets."""

    def __init__(
        self,
        server: Server,
        bind: Bind,
        grace: float,
        max_clients: int = MAX_CLIENTS,
        *,
        only_json: bool = False,
        started: Started | None = None,
    ) -> None:
        self._server = server
        self._bind = bind
        self._grace = grace
        self._max_clients = max_clients
        self._only_json = only_json
        self._started = started
        self._clients: dict[asyncio.Task[None], Serving] = {}
        self._stopped = asyncio.Event()
        self._full = False
        self.running = False
        """Not still starting, and not ending already."""
        self.addresses: list[str] = []
        """Where clients connect to."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self._server.info.name

    @property
    def clients(self) -> int:
        """How many are served now."""
        return len(self._clients)

    async def run(self) -> None:
        """Serve until stopped; whoever is connected then has the grace period to get the answers that are due.

        The lifespan is entered once, before the first client, and left after the last.
        """
        with contextlib.ExitStack() as bound:
            sockets = [bound.enter_context(contextlib.closing(one)) for one in self._bind()]
            async with self._server.joined(ServerSession(self._server)):
                listeners = [await self._listener(one) for one in sockets]
                try:
                    await self._serve(listeners)
                finally:
                    self.running = False
                    await self._end(listeners)

    def stop(self) -> None:
        """Take no new client, and end as if those who are here had ended their side."""
        self.running = False
        self._stopped.set()
        for serving in self._clients.values():
            serving.stop()

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
            async with asyncio.timeout(_END_SECONDS):
                for listener in listeners:
                    await listener.wait_closed()

    async def _listener(self, bound: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        create = loop.create_server if bound.family in (socket.AF_INET, socket.AF_INET6) else loop.create_unix_server
        return await create(self._channel, sock=bound, backlog=_BACKLOG, start_serving=False)

    def _channel(self) -> SocketChannel:
        return SocketChannel(only_json=self._only_json, connected=self._arrived)

    def _arrived(self, channel: SocketChannel) -> None:
        if not self.running or len(self._clients) >= self._max_clients:
            if self.running and not self._full:
                # Said once until there is room again: who is turned away may come again and again.
                self._full = True
                logger.warning("%s has %d clients; more are turned away", self.name, len(self._clients))
            channel.abort()
            return
        serving = Serving(self._server, channel, self._grace)
        task = asyncio.get_running_loop().create_task(self._serve_one(serving))
        self._clients[task] = serving
        task.add_done_callback(self._left)

    async def _serve_one(self, serving: Serving) -> None:
        try:
            await serving.run()
        except Exception:
            logger.exception("Serving a client failed")

    def _left(self, task: asyncio.Task[None]) -> None:
        del self._clients[task]
        self._full = False


def _announce(listening: Listening) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
        if sys.stderr.isatty():
            where = ", ".join(listening.addresses)
            sys.stderr.write(f"{listening.name} waits for MCP clients at {where}; Ctrl-C ends it.\n")
