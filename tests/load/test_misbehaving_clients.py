"""While a thousand clients at one address misbehave, every limit holds, and other clients are served as before."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.server.http.options import Settings
from tests.load.misbehave import KINDS, SESSIONS
from tests.load.mixed_server import MAX_STREAMS_EACH
from tests.support.http_process import ROOT, HttpProcess

PROGRAM = Path(__file__).with_name("mixed_server.py")
LIMITS = Settings()
CALLS = 150
ROUNDS = 5


@pytest.fixture
def server() -> Iterator[HttpProcess]:
    with HttpProcess("", command=[sys.executable, PROGRAM, "http"]) as process:
        yield process


def megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


async def latency(client: Client) -> float:
    """Return the median seconds of a call: the best of some rounds, since the machine has other work too."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        times: list[float] = []
        for number in range(CALLS):
            before = time.perf_counter()
            assert (await client.call("add", a=number, b=1)).data == number + 1
            times.append(time.perf_counter() - before)
        rounds.append(statistics.median(times))
    return min(rounds)


@pytest.mark.slow
@pytest.mark.attack("M7", "M10")
async def test_a_thousand_misbehaving_clients_do_not_slow_down_another_address(server: HttpProcess) -> None:
    async with Client(f"{server.url}/mcp", timeout=20) as client:
        normal = await latency(client)
        memory = megabytes(server.process.pid)
        flood = subprocess.Popen(
            [sys.executable, "-m", "tests.load.misbehave", str(server.port), "127.0.0.2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            assert flood.stdout is not None
            outcomes: dict[str, dict[str, Any]] = json.loads(flood.stdout.readline())
            under_attack = await latency(client)
            grown = megabytes(server.process.pid) - memory
            for revision in ("2025-06-18", "2026-07-28"):  # newcomers are served too
                async with Client(f"{server.url}/mcp", revision=revision, timeout=20) as newcomer:
                    assert (await newcomer.call("add", a=1, b=2)).data == 3
        finally:
            flood.communicate(timeout=20)
        assert under_attack <= 2 * normal, f"{normal * 1e3:.2f} ms became {under_attack * 1e3:.2f} ms"
    assert sum(KINDS.values()) == 1000
    connections = outcomes["websocket"]["accepted"] + outcomes["http+sse"]["accepted"]
    assert connections == LIMITS.max_connections_each < KINDS["websocket"] + KINDS["http+sse"]
    assert outcomes["session"]["accepted"] == LIMITS.max_sessions_each < SESSIONS
    assert outcomes["subscription"]["accepted"] == MAX_STREAMS_EACH < KINDS["subscription"]
    # 128 MB may wait for clients that do not read; a response is in memory more than once while it is made, and not
    # all that was freed is returned to the system. All 200 responses would be 1,600 MB.
    assert grown < 700, f"the server grew by {grown:.0f} MB"
