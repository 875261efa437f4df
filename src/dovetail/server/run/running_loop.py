"""`await server.run_async(…)`: serving on the event loop of a program that does other things too."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from typing import TYPE_CHECKING, Unpack

from dovetail.protocol.errors import LocalError

from .loop_watchdog import watching_loop
from .signals import Runner
from .store_options import with_store

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

    from .http import RunOptions
    from .transport_names import Transport


async def serve_on_running_loop(
    core: ServerCore, transport: Transport, grace: float, **options: Unpack[RunOptions]
) -> None:
    """Serve until the client goes, or until cancelled, which is a graceful shutdown."""
    if transport == "http":
        await _serve_http(core, grace, **options)
    elif transport == "stdio":
        from dovetail.server.connection import ConnectionRunner
        from dovetail.transports.stdio import StdioChannel

        from .stdio import prepare_standard_streams

        make = with_store(core, options, grace, lambda: ConnectionRunner(core, StdioChannel(), grace))
        prepare_standard_streams(core)
        await _run(make())
    else:
        from .sockets import SocketServer, tcp_binder, unix_binder

        if transport == "unix":
            bind, cleanup = unix_binder(options.get("path", ""), 0o600)
        else:
            cleanup = contextlib.ExitStack()
            bind = tcp_binder(options.get("host", "127.0.0.1"), options.get("port", 0), allow_remote=False)
        make = with_store(core, options, grace, lambda: SocketServer(core, bind, grace, only_json=transport == "tcp"))
        with cleanup:
            await _run(make())


async def _serve_http(core: ServerCore, grace: float, **options: Unpack[RunOptions]) -> None:
    from dovetail.server.http.application import application_of

    from .http import listening, require_uvicorn

    require_uvicorn()
    if options.pop("workers", 1) > 1:
        raise LocalError("run_async serves in this process, so that it has no workers; use server.run")
    from .uvicorn_server import UvicornRunner

    disabled = logging.root.manager.disable
    with listening(core, options) as (settings, host, sockets, announce):
        try:
            await _run(UvicornRunner(application_of(core, settings, host), settings, sockets, grace, announce))
        finally:
            logging.disable(disabled)
            gc.unfreeze()


async def _run(runner: Runner) -> None:
    """Run until it ends; the first cancellation stops it gracefully, and a second one ends it at once."""
    task = asyncio.get_running_loop().create_task(_run_watched(runner))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if runner.running:
            runner.stop()
        else:
            task.cancel()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
        raise


async def _run_watched(runner: Runner) -> None:
    with watching_loop():
        await runner.run()
