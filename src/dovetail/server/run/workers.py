"""Worker processes that share one port, and the parent that starts, restarts and stops them.

They are forked, since a server cannot be sent to another process; so they share what it was given, its keys too. To
each other they are replicas: they share the store that was given, or one in a file that is removed at the end.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from dovetail.middleware.telemetry import flush_telemetry
from dovetail.protocol.errors import LocalError
from dovetail.server.http.application import application_of
from dovetail.server.http.options import Settings
from dovetail.storage.sqlite import SqliteStore

from .signals import ShutdownPipes
from .uvicorn_server import serve_in_this_process
from .worker_folder import WorkerFolder

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

logger = logging.getLogger("dovetail")

MAX_WORKERS = 256

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
FAILED = 3
"""The exit code of a worker that failed."""

_FLUSH_SECONDS = 2.0
"""Seconds that a worker has at its end to export telemetry."""

_INDEX_BYTES = 2

_BACKLOG = 2048
_RESTART_SECONDS = 1.0
"""The least time between two starts of the same worker."""

_TEARDOWN_SECONDS = 7.0
"""The time after the grace period, in which workers end themselves by force, before the parent kills them."""


def run_workers(
    core: ServerCore,
    settings: Settings,
    host: str,
    sockets: list[socket.socket],
    count: int,
    grace: float,
    announce: Callable[[], None],
) -> None:
    """Serve with several processes until a signal ends them."""
    if not hasattr(os, "fork"):
        raise LocalError("Several workers need an operating system that can fork; run one worker, or several servers")
    if count > MAX_WORKERS:
        raise LocalError(f"workers={count} is more than {MAX_WORKERS}, the maximum")
    if settings.store is not None and not settings.store.shared:
        raise LocalError("Workers cannot share a store in memory; give a file or Redis, or no store at all")
    per_worker = _sockets_per_worker(sockets, count)
    every = [one for share in per_worker for one in share]
    folder = WorkerFolder()
    ephemeral = settings.store is None
    if ephemeral:
        # Not used before the fork, so that each worker opens it for itself; of no use after a power failure.
        settings = msgspec.structs.replace(settings, store=SqliteStore(Path(folder.path, "store"), durable=False))

    def work(index: int, pipes: ShutdownPipes, on_started: Callable[[], None]) -> None:
        _close([one for one in every if one not in per_worker[index]])
        endpoint = application_of(core, settings, host, ephemeral=ephemeral)
        try:
            serve_in_this_process(endpoint, settings, per_worker[index], grace, on_started, pipes)
        finally:
            folder.remove_if_orphaned()

    try:
        announce()
        # During the shutdown no process may hold a socket that still accepts connections.
        WorkerPool(count, work, grace, lambda: _close(every)).run()
    finally:
        folder.remove()


class WorkerPool:
    """Forked workers: one that ends by itself is restarted, and all end together."""

    def __init__(
        self,
        count: int,
        work: Callable[[int, ShutdownPipes, Callable[[], None]], None],
        grace: float,
        on_shutdown: Callable[[], None],
    ) -> None:
        """`work` serves in a worker until one of the pipes is closed, and calls its last argument when it has started.

        `on_shutdown` is called in the parent.
        """
        self._count = count
        self._work = work
        self._grace = grace
        self._on_shutdown = on_shutdown
        self._workers: dict[int, tuple[int, float]] = {}
        """By process id: the worker's index, and the time of its start."""
        self._pipes = ShutdownPipes()
        self._started_read, self._started_write = os.pipe()
        """Workers write their index here when they have started."""
        os.set_blocking(self._started_read, False)
        self._has_started: set[int] = set()
        self._shutting_down = False
        self._startup_failed = False

    def run(self) -> None:
        """Serve until a signal begins the shutdown, and wait until all workers have ended."""
        gc.freeze()  # also keeps the garbage collector from touching, and so copying, memory that is shared
        previous: dict[int, Any] = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._kill_workers)
        try:
            try:
                for index in range(self._count):
                    self._start(index)
                self._reap()
            finally:
                self._shut_down()
                self._reap()
        finally:
            signal.alarm(0)
            gc.unfreeze()
            self._pipes.close()
            os.close(self._started_read)
            os.close(self._started_write)
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self._startup_failed:
            raise LocalError("A worker could not start; its log says why")

    def _reap(self) -> None:
        """Wait for workers to end, and restart those that should not have, until none is left."""
        while self._workers:
            pid, status = os.wait()
            index, started = self._workers.pop(pid, (-1, 0.0))
            if index < 0 or self._shutting_down:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._read_started()
            if code == FAILED and index not in self._has_started:
                # It has never worked, so that it would not now; what fails later may be temporary.
                self._startup_failed = True
                self._shut_down()
                continue
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            logger.warning("Worker %d ended %s and is restarted", index, how)
            if (rest := started + _RESTART_SECONDS - time.monotonic()) > 0:
                time.sleep(rest)
            self._start(index)

    def _read_started(self) -> None:
        """Note the workers that have started since the last time."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._started_read, 4096 * _INDEX_BYTES):
                ends = range(0, len(data), _INDEX_BYTES)
                self._has_started.update(int.from_bytes(data[at : at + _INDEX_BYTES], "big") for at in ends)

    def _start(self, index: int) -> None:
        # A signal between the fork and the entry in the table would miss the new worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            if not self._shutting_down:
                sys.stdout.flush()
                pid = os.fork()
                if pid == 0:
                    self._run_worker(index)
                self._workers[pid] = index, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _run_worker(self, index: int) -> NoReturn:
        """Serve in the child process, and never return to what the parent does next."""
        code = FAILED

        def started() -> None:
            os.write(self._started_write, index.to_bytes(_INDEX_BYTES, "big"))

        try:
            self._pipes.close_write_ends()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work(index, self._pipes, started)
            code = 0
        except LocalError as problem:
            _write_stderr(str(problem))
        except BaseException:
            logger.exception("Worker %d failed", index)
        finally:
            with contextlib.suppress(Exception):
                flush_telemetry(_FLUSH_SECONDS)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _on_signal(self, number: int, frame: object) -> None:
        """Shut down gracefully at the first signal, and at once at the second."""
        if not self._shutting_down:
            self._shut_down()
        else:
            self._pipes.now.close_write_end()
            signal.alarm(math.ceil(_TEARDOWN_SECONDS))

    def _shut_down(self) -> None:
        if not self._shutting_down:
            self._shutting_down = True
            self._pipes.graceful.close_write_end()
            self._on_shutdown()
            signal.alarm(math.ceil(self._grace + _TEARDOWN_SECONDS))

    def _kill_workers(self, number: int, frame: object) -> None:
        for pid in list(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _sockets_per_worker(sockets: list[socket.socket], count: int) -> list[list[socket.socket]]:
    """The listening sockets of each worker.

    Linux spreads connections over sockets that share a port; the parent keeps them open too, so that no connection is
    lost with a worker. Elsewhere all workers listen at the same sockets, and the quickest accepts the connection.
    """
    if not sys.platform.startswith("linux") or sockets[0].family == socket.AF_UNIX:
        for one in sockets:
            one.listen(_BACKLOG)
        return [sockets] * count
    names = [(one.family, one.getsockname()) for one in sockets]
    for one in sockets:
        one.close()  # it was bound to find out whether the port is free, which SO_REUSEPORT would hide
    return [[_reuseport_socket(family, name) for family, name in names] for _ in range(count)]


def _reuseport_socket(family: int, name: Any) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # explicit, or asyncio sets no TCP_NODELAY
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind(name)
    one.listen(_BACKLOG)
    return one


def _close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def _write_stderr(text: str) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):
        sys.stderr.write(f"{text}\n")
