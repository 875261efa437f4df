"""Calls at a fixed rate, whose times are set in advance: a slow answer delays no later call.

The latency of a call counts from the time that it was to be sent, not from the time that it was: calls that would
have met a server that stands still are in the figures as well ("coordinated omission").
"""

import random
import select
import time
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from bench.driver import PATIENCE_MS
from bench.http_load import Load
from bench.processes import DriverError

SPIN = 0.000_2
"""Seconds before a call in which the generator does not sleep, since the system wakes it too late."""

BACKLOG = 0.5
"""Seconds that the last answer may come after the last call; with more, the rate is not sustained."""


class Pace(NamedTuple):
    """A rate, and the calls of a round."""

    rate: int
    """Calls a second."""
    calls: int


class Paced(NamedTuple):
    """What calls at a fixed rate took."""

    latencies: list[float]
    """Seconds from the time that a call was to be sent to its answer, in the order of the answers."""
    late: list[float]
    """Seconds that calls were sent late: the generator was, or there was no idle connection."""
    backlog: float
    """Seconds from the time of the last call to the last answer."""


def send_times(pace: Pace, seed: int) -> list[float]:
    """Seconds from the start at which the calls are to be sent, the same for the same seed.

    Callers that know nothing of each other come at random (a Poisson process); the rate of the whole is exact.
    """
    source = random.Random(seed)
    gaps = [source.expovariate(1) for _ in range(pace.calls)]
    scale = pace.calls / pace.rate / sum(gaps)
    return list(accumulate(gap * scale for gap in gaps))


class PacedLoad(Load):
    """Several connections that send one request at given times, each with one call at a time."""

    def run_at(self, times: Sequence[float]) -> Paced:
        """Make one call at each of the times, in seconds from now; waits for the answer of each."""
        idle, due = deque(self.connections.values()), dict[int, float]()
        paced, sent = Paced([], [], 0), 0
        begun = time.perf_counter()
        while len(paced.latencies) < len(times):
            timeout = PATIENCE_MS / 1000
            while sent < len(times) and idle:
                wanted = begun + times[sent]
                wait = wanted - time.perf_counter()
                if wait > 0:
                    timeout = max(wait - SPIN, 0)
                    break
                connection = idle.popleft()
                due[connection.socket.fileno()] = wanted
                paced.late.append(-wait)
                connection.fire()
                sent += 1
            # `poll` itself sleeps for whole milliseconds.
            if not select.select([self.poll], [], [], timeout)[0]:
                if timeout == PATIENCE_MS / 1000:
                    raise DriverError(f"{len(due)} calls had no answer for {PATIENCE_MS // 1000} s")
                continue
            for fd, _ in self.poll.poll(0):
                connection = self.connections[fd]
                if connection.read():
                    paced.latencies.append(time.perf_counter() - due.pop(fd))
                    self._answered(connection)
                    idle.append(connection)
        return paced._replace(backlog=time.perf_counter() - begun - times[-1])
