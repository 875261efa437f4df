"""What is measured of clients: each in a process of its own, all against the same hand-written server."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.driver import ENVELOPE
from bench.http_load import HttpServer
from bench.measures import Effort, Figures
from bench.peers import SERVERS, Peer
from bench.processes import DriverError, clean_environment

NEUTRAL = [sys.executable, str(SERVERS / "neutral_server.py")]
OPENS = 15
PATIENCE = 60


def run_round(peers: Sequence[Peer], effort: Effort, problems: list[str]) -> dict[str, Figures]:
    """One round: every client once over HTTP and once over stdio, and the host; what fails is listed in `problems`."""
    taken: dict[str, Figures] = {peer.name: {} for peer in peers}
    server = HttpServer([*NEUTRAL, "http"])
    try:
        url = f"http://127.0.0.1:{server.port}/mcp"
        for transport, target, opens in (("http", [url], OPENS), ("stdio", NEUTRAL, 0)):
            for peer in peers:
                try:
                    taken[peer.name] |= _run(peer, transport, target, opens, effort)
                except DriverError as error:
                    problems.append(f"{peer.name}, client over {transport}: {error}")
    finally:
        server.close()
    for peer in peers:
        if peer.host:
            try:
                taken[peer.name] |= _run_host(peer, effort)
            except DriverError as error:
                problems.append(f"{peer.name}, host: {error}")
    return taken


def _run(peer: Peer, transport: str, target: Sequence[str], opens: int, effort: Effort) -> Figures:
    found = figures_of([*peer.client, str(effort.warm / 2), str(effort.measure), str(opens), *target])
    if found["revision"] != ENVELOPE:
        raise DriverError(f"settled on {found['revision']} instead of {ENVELOPE}")
    figures: Figures = {f"client {transport}": found["call"], f"client {transport} first": found["first"]}
    if found["opens"]:
        figures[f"client {transport} open"] = statistics.median(found["opens"])
    return figures


def _run_host(peer: Peer, effort: Effort) -> Figures:
    """CPU that `Host.call` adds to `Client.call`, on the peer's own server over stdio."""
    found = figures_of([*peer.host, str(effort.warm), str(effort.measure), *peer.server])
    return {
        "host call": found["host"] - found["client"],
        "host call alone": found["host alone"] - found["client alone"],
    }


def figures_of(argv: Sequence[str]) -> dict[str, Any]:
    """The figures that a program writes as one line of JSON."""
    try:
        run = subprocess.run(
            argv, capture_output=True, text=True, check=True, env=clean_environment(), timeout=PATIENCE
        )
    except subprocess.CalledProcessError as error:
        raise DriverError(error.stderr[-2000:]) from error
    except subprocess.TimeoutExpired as error:
        raise DriverError(f"not done after {PATIENCE} s") from error
    return json.loads(run.stdout)
