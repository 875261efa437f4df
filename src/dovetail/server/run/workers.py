"""Several processes that serve at one port, and the one that looks after them.

They are forked, since a server cannot be sent to another process; so they share what it was given, its keys too.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail.protocol.errors import LocalError
from dovetail.server.http.asgi_app import Endpoint
from dovetail.server.http.options import Settings

if TYPE_CHECKING:
    from dovetail.server.app import Server

logger = logging.getLogger("dovetail")

MAX_WORKERS = 256

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_COULD_NOT_START = 3
_BACKLOG = 2048
_CALM_SECONDS = 1.0
"""A worker that ends sooner is not started anew before that."""

_TEARDOWN_SECONDS = 7.0
"""What workers may take beyond the grace period, in which they would have ended themselves by force."""


def run_workers(
    server: Server,
    settings: Settings,
    host: str,
    sockets: list[socket.socket],
    count: int,
    grace: float,
    announce: Callable[[], None],
) -> None:
    """Serve with several processes until a signal says to end."""
    from .http import Tether, serve_here
    from .session_relay import Relay

    if not hasattr(os, "fork"):
        raise LocalError("Several workers need an operating system that can fork; run one, or several servers")
    if count > MAX_WORKERS:
        raise LocalError(f"More than {MAX_WORKERS} workers are too many: {count}")
    _ = server.desk  # a cached property: its sealing key is made before the fork, so that all workers share it
    shares = _shares(sockets, count)
    folder = tempfile.mkdtemp(prefix="dovetail-")

    def work(index: int, pipes: list[int]) -> None:
        _close([one for share in shares for one in share if one not in shares[index]])
        relay = Relay(folder, index, count)
        endpoint = Endpoint(server, settings, host, relay)
        serve_here(endpoint, settings, shares[index], grace, _nothing, relay, Tether(*pipes))

    try:
        announce()
        # When the end begins nobody may hold a socket that still takes connections.
        Crew(count, work, grace, lambda: _close([one for share in shares for one in share])).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Crew:
    """The workers: one that ends by itself is started anew, and all end together."""

    def __init__(
        self, count: int, work: Callable[[int, list[int]], None], grace: float, at_end: Callable[[], None]
    ) -> None:
        self._count = count
        self._at_end = at_end
        self._work = work
        self._grace = grace
        self._workers: dict[int, tuple[int, float]] = {}
        """By process id: which one it is, and when it was started."""
        self._pipes, self._held = map(list, zip(os.pipe(), os.pipe(), strict=True))
        """What the workers watch, and the other ends, which are here alone: each means something when it is closed."""
        self._ending = False
        self._failed = False

    def run(self) -> None:
        """Serve until a signal says to end."""
        gc.freeze()  # also keeps the collector from touching, and so copying, what is shared
        handlers: dict[int, Any] = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._kill)
        try:
            for index in range(self._count):
                self._start(index)
            self._look_after()
        finally:
            self._end()
            signal.alarm(0)
            for end in [*self._pipes, *self._held]:
                os.close(end)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if self._failed:
            raise LocalError("A worker could not start; its log says why")

    def _look_after(self) -> None:
        while self._workers:
            pid, status = os.wait()
            index, started = self._workers.pop(pid, (-1, 0.0))
            if index < 0 or self._ending:
                continue
            code = os.waitstatus_to_exitcode(status)
            if code == _COULD_NOT_START:
                self._failed = True
                self._end()
                continue
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            logger.warning("Worker %d ended %s and is started anew", index, how)
            if (rest := started + _CALM_SECONDS - time.monotonic()) > 0:
                time.sleep(rest)
            self._start(index)

    def _start(self, index: int) -> None:
        # A signal between fork and book-keeping would miss the new worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            if not self._ending:
                sys.stdout.flush()
                pid = os.fork()
                if pid == 0:
                    self._be_worker(index)
                self._workers[pid] = index, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _be_worker(self, index: int) -> NoReturn:
        """Serve, and never go back to what the parent would do next."""
        code = _COULD_NOT_START
        try:
            for end in self._held:
                os.close(end)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work(index, self._pipes)
            code = 0
        except LocalError as problem:
            _say(str(problem))
        except BaseException:
            logger.exception("Worker %d failed", index)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _on_signal(self, number: int, frame: object) -> None:
        """At the first signal all end gracefully, at the second one at once."""
        if not self._ending:
            self._end()
        elif self._held:
            os.close(self._held.pop())
            signal.alarm(math.ceil(_TEARDOWN_SECONDS))

    def _end(self) -> None:
        # A pipe and no signal: who sends us one may send it to the workers too, and two mean "at once".
        if not self._ending:
            self._ending = True
            os.close(self._held.pop(0))
            self._at_end()
            signal.alarm(math.ceil(self._grace + _TEARDOWN_SECONDS))

    def _kill(self, number: int, frame: object) -> None:
        for pid in list(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _shares(sockets: list[socket.socket], count: int) -> list[list[socket.socket]]:
    """The sockets of each worker.

    Linux spreads connections over sockets that share a port, and the parent keeps them all, so that none is lost
    with a worker. Elsewhere all listen at the same one, and whoever is quicker gets the connection.
    """
    if not sys.platform.startswith("linux") or sockets[0].family == socket.AF_UNIX:
        for one in sockets:
            one.listen(_BACKLOG)
        return [sockets] * count
    names = [(one.family, one.getsockname()) for one in sockets]
    for one in sockets:
        one.close()  # it was bound to see that the port is free, which sockets that share do not tell
    return [[_shared(family, name) for family, name in names] for _ in range(count)]


def _shared(family: int, name: Any) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said, for asyncio to set TCP_NODELAY
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


def _nothing() -> None:
    """The parent has said where it serves."""


def _say(text: str) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):
        sys.stderr.write(f"{text}\n")
