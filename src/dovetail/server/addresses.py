"""Sockets to listen at: a path, or a port of this machine.

What speaks over them carries no Host and no Origin to check. A Unix socket is therefore for its owner
alone, and a TCP port for this machine alone, unless said otherwise.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import TypeAlias

from dovetail.protocol.errors import LocalError

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
