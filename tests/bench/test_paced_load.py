"""Calls at a fixed rate: their times, and what a slow answer does to the others."""

import contextlib
import itertools
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.driver import ENVELOPE
from bench.http_load import HttpServer, connected
from bench.paced_load import Pace, PacedLoad, send_times
from bench.processes import DriverError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the load generator uses epoll")

STALL = 0.2
PATIENCE = 20

Stall = Callable[[int], None]
"""Is called with the number of a request before it is answered."""


@contextlib.contextmanager
def served(stall: Stall) -> Iterator[HttpServer]:
    """A server that answers every request with the same result, on a thread a connection."""
    numbers = itertools.count()
    connections: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        # A run that has ended in the middle of a call resets its connection.
        with connection, contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" in (request := connection.recv(1 << 16)):
                id = re.search(rb'"id":(\d+)', request)
                assert id is not None
                stall(next(numbers))
                body = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[]}}' % id[1]
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                connection.sendall(head + body)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connections.append(listener.accept()[0])
                threads.append(threading.Thread(target=answer, args=(connections[-1],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield cast("HttpServer", SimpleNamespace(port=listener.getsockname()[1]))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(PATIENCE)


@contextlib.contextmanager
def load_on(server: HttpServer, number: int) -> Iterator[PacedLoad]:
    with connected(server, ENVELOPE, number) as connections:
        for connection in connections:
            connection.aim("tools/call", {"name": "echo"})
        yield PacedLoad(connections, check)


def check(result: dict[str, Any], before: list[bytes]) -> None:
    if result != {"content": []}:
        raise DriverError(f"wrong result: {result}")


def test_calls_come_at_random_times_at_exactly_the_rate() -> None:
    times = send_times(Pace(200, 100), seed=1)
    assert len(times) == 100
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] == pytest.approx(100 / 200)
    assert len({round(after - before, 9) for before, after in itertools.pairwise(times)}) > 90


def test_the_times_of_a_seed_are_always_the_same() -> None:
    assert send_times(Pace(15, 60), seed=3) == send_times(Pace(15, 60), seed=3)
    assert send_times(Pace(15, 60), seed=3) != send_times(Pace(15, 60), seed=4)


def test_every_call_is_made_once_and_not_before_its_time() -> None:
    begun, came = time.perf_counter(), list[float]()
    times = [0.01, 0.02, 0.02, 0.05]
    with served(lambda _: came.append(time.perf_counter() - begun)) as server, load_on(server, 2) as load:
        paced = load.run_at(times)
    assert (len(paced.latencies), len(paced.late), len(came)) == (4, 4, 4)
    assert all(after >= wanted for after, wanted in zip(sorted(came), times, strict=True))
    assert all(late >= 0 for late in paced.late)
    assert paced.backlog > 0


def test_latency_counts_from_the_time_that_a_call_was_to_be_sent() -> None:
    def stall(number: int) -> None:
        if number == 0:
            time.sleep(STALL)

    with served(stall) as server, load_on(server, 1) as load:
        paced = load.run_at([0.0, 0.05, 0.1])
    # The two that could not be sent in the meantime have waited as well.
    assert [latency >= least for latency, least in zip(paced.latencies, (STALL, 0.15, 0.1), strict=True)] == [True] * 3
    assert paced.late[1] >= 0.15


def test_a_slow_answer_delays_no_other_call() -> None:
    others = threading.Semaphore(0)
    waited: list[bool] = []

    def stall(number: int) -> None:
        if number == 0:
            waited.extend(others.acquire(timeout=PATIENCE) for _ in range(3))
        else:
            others.release()

    with served(stall) as server, load_on(server, 2) as load:
        paced = load.run_at([0.0, 0.01, 0.02, 0.03])
    assert waited == [True] * 3
    assert max(paced.latencies) >= 0.03  # the first call, which was answered after the last one had come


def test_a_wrong_answer_ends_the_run() -> None:
    with served(lambda _: None) as server, load_on(server, 1) as load:
        load.check = refuse
        with pytest.raises(DriverError, match="not this"):
            load.run_at([0.0])


def refuse(result: dict[str, Any], before: list[bytes]) -> None:
    raise DriverError("not this")


def test_a_server_that_does_not_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.paced_load.PATIENCE_MS", 50)
    ended = threading.Event()
    with served(lambda _: cast("None", ended.wait(PATIENCE))) as server, load_on(server, 1) as load:
        try:
            with pytest.raises(DriverError, match="1 calls had no answer"):
                load.run_at([0.0, 0.01])
        finally:
            ended.set()
