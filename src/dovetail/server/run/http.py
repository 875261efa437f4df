"""`server.run("http")`: a process, or several, that serve over HTTP until a signal ends them."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Unpack

from dovetail.server.http.application import application_of
from dovetail.server.http.options import AsgiOptions, Settings
from dovetail.server.run.handover import Handover
from dovetail.server.run.sockets import reports_bind_errors_in_one_line, tcp_binder, unix_binder
from dovetail.types.errors import missing_extra

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

logger = logging.getLogger("dovetail")


class RunOptions(AsgiOptions, total=False):
    """The options of `Server.run`: those of `Server.asgi`, and the address to listen at.

    For `unix`, the path is that of the socket.
    """

    host: str
    port: int
    workers: int
    """Processes that share the port."""
    uds: str | None
    """A Unix socket to listen at, in place of a port."""


def run_http(core: ServerCore, *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None:
    """Serve over HTTP until a signal ends it; calls that run then have the grace period to finish."""
    require_uvicorn()
    workers = options.pop("workers", 1)
    with listening(core, options) as (settings, host, sockets, announce):
        if workers > 1:
            from .workers import run_workers

            run_workers(core, settings, host, sockets, workers, grace, announce)
        else:
            from .uvicorn_server import serve_in_this_process

            serve_in_this_process(application_of(core, settings, host), settings, sockets, grace, announce)


@contextlib.contextmanager
def listening(
    core: ServerCore, options: RunOptions
) -> Generator[tuple[Settings, str, list[socket.socket], Callable[[], None]]]:
    """The settings, the host, its bound sockets, and the function that announces the address; closed at the end."""
    host, port, uds = options.pop("host", "127.0.0.1"), options.pop("port", 8000), options.pop("uds", None)
    settings = Settings.of(options)
    if (handover := Handover.take()) is not None:
        with contextlib.ExitStack() as opened:
            sockets = [opened.enter_context(contextlib.closing(one)) for one in handover.open_sockets()]
            if uds is None and not handover.again:
                _warn_if_reachable(core, host, settings)
            tell = _announcement(core, sockets[0], uds, settings.path)
            core.replaces_another = handover.again
            yield settings, host, sockets, lambda: _report_started(handover, tell)
        return
    bind, cleanup = unix_binder(uds, 0o600) if uds is not None else (tcp_binder(host, port, allow_remote=True), None)
    with cleanup or contextlib.nullcontext():
        with reports_bind_errors_in_one_line():
            sockets = bind()
        with contextlib.ExitStack() as bound:
            for one in sockets:
                bound.enter_context(contextlib.closing(one))
            if uds is None:
                _warn_if_reachable(core, host, settings)
            yield settings, host, sockets, _announcement(core, sockets[0], uds, settings.path)


def _report_started(handover: Handover, announce: Callable[[], None]) -> None:
    if not handover.again:
        announce()
    handover.report_started()


def require_uvicorn() -> None:
    """Raise a LocalError if the extra `http` is not installed."""
    try:
        import uvicorn  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as problem:
        raise missing_extra("http", "Serving over HTTP") from problem


def _warn_if_reachable(core: ServerCore, host: str, settings: Settings) -> None:
    """Warn that other machines can connect, unless the server's host names were configured."""
    if _is_loopback(host) or settings.allowed_hosts:
        return
    accepted = "localhost" if _is_unspecified(host) else f"localhost or {host}"
    logger.warning(
        "Other machines can reach %s%s. Requests with the host %s are accepted; "
        "accept other hosts with allowed_hosts (--allow-host).",
        host or "every address of this one",
        "" if core.auth is not None else ", without authentication",
        accepted,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_unspecified(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _announcement(core: ServerCore, sock: socket.socket, uds: str | None, path: str) -> Callable[[], None]:
    """A function that writes the address of the server to stderr, at a terminal or not: logs keep it too."""

    def announce() -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
            sys.stderr.write(f"{core.info.name} serves MCP at {where}; Ctrl-C ends it.\n")
            sys.stderr.flush()

    if uds is not None:
        where = f"{path} of the socket {os.fspath(uds)}"
    else:
        host, port = sock.getsockname()[:2]
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    return announce
