"""Compares Dovetail with other implementations over stdio, all of them in one interleaved run."""

import argparse
import json
import os
import platform
import sys
import time

from bench.driver import DriverError
from bench.measures import FULL, QUICK, STEPS, run_round
from bench.peers import ROOT, Peer, find_peers
from bench.report import ROWS, Rounds, summarize, table, verdict


def main() -> int:
    """Run the benchmark; a missed bound is reported and never fails the run."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--rounds", type=int, help="how often every peer is measured")
    parser.add_argument("--only", help="peers to measure, separated by commas")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = effort._replace(rounds=options.rounds)
    peers = find_peers()
    if options.only:
        peers = [peer for peer in peers if peer.name in options.only.split(",")]

    rounds: Rounds = {peer.name: [] for peer in peers}
    try:
        for number in range(effort.rounds):
            show(f"round {number + 1} of {effort.rounds}")
            first = number % len(peers)
            for name, figures in run_round(peers[first:] + peers[:first], effort).items():
                rounds[name].append(figures)
    except DriverError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    show("")
    report(rounds, peers)
    return 0


def show(progress: str) -> None:
    """Say on a terminal what is going on, on one line."""
    if sys.stderr.isatty():
        print(f"\r{progress:40}\r", end="", file=sys.stderr, flush=True)


def report(rounds: Rounds, peers: list[Peer]) -> None:
    """Print the table, and leave it and the raw figures in bench/results/."""
    summary = summarize(rounds)
    versions = {peer.name: peer.version for peer in peers}
    python = platform.python_version()
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {python}"
    taken = len(next(iter(rounds.values())))
    text = (
        f"Medians of {taken} interleaved rounds (lowest–highest), ratios within a round, stdio, "
        f"revision 2025-11-25 unless the line says otherwise; {where}.\n\n{table(rounds, versions)}\n"
    )
    for name, figures in summary.items():
        seen = figures["progress seen"].median
        if seen != STEPS:
            text += f"\n{name} merged progress messages: {seen:.0f} of {STEPS} arrived.\n"
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    (folder / f"{stamp}.md").write_text(text)
    raw = {
        "machine": where,
        "versions": versions,
        "rounds": rounds,
        "verdicts": {row.figure: [v._asdict() for v in verdict(row, rounds)] for row in ROWS},
    }
    (folder / f"{stamp}.json").write_text(json.dumps(raw, indent=1))
    print(text)
    print(f"written to bench/results/{stamp}.md and .json")


if __name__ == "__main__":
    sys.exit(main())
