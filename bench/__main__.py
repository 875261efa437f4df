"""Compares Dovetail with other implementations over stdio and HTTP, all of them in one interleaved run."""

import argparse
import json
import os
import platform
import sys
import time

from bench import client_measures, gateway_measures, http_measures, measures, redis_measures, tasks_measures
from bench.latencies import Latencies, latency_table, paced_verdicts, percentiles_as_json
from bench.measures import FULL, QUICK, STEPS, Effort, Figures
from bench.peers import ROOT, Peer, find_peers
from bench.processes import DriverError
from bench.profiling import profile
from bench.report import OURS, Rounds, figure_of, table, verdicts
from bench.rows import PACED_TABLES, ROWS, TABLES

PARTS = tuple(TABLES)
SEEN = ("progress seen", "http progress 2026 seen", "http progress seen")


def main() -> int:
    """Run the benchmark; a missed bound or a peer that fails is reported and never fails the run."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--rounds", type=int, help="how often every peer is measured")
    parser.add_argument("--only", default="", help=f"parts ({', '.join(PARTS)}) and peers, separated by commas")
    parser.add_argument(
        "--profile", metavar="ITEM", help="show where one HTTP item spends Dovetail's time; '?' lists them"
    )
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = effort._replace(rounds=options.rounds)
    if options.profile:
        return profile(options.profile, effort)
    peers = find_peers()
    wanted = {name for name in options.only.split(",") if name}
    if unknown := wanted - {*PARTS, *(peer.name for peer in peers)}:
        parser.error(f"no such part or peer: {', '.join(sorted(unknown))}")
    parts = [part for part in PARTS if part in wanted] or list(PARTS)
    peers = [peer for peer in peers if peer.name in wanted] or peers

    rounds: Rounds = {peer.name: [] for peer in peers}
    problems: list[str] = []
    latencies: Latencies = {}
    for number in range(effort.rounds):
        show(f"round {number + 1} of {effort.rounds}")
        first = number % len(peers)
        for name, figures in run_round(parts, peers[first:] + peers[:first], effort, problems, latencies).items():
            rounds[name].append(figures)
    show("")
    report(parts, rounds, peers, problems, latencies)
    return 0


def run_round(
    parts: list[str], peers: list[Peer], effort: Effort, problems: list[str], latencies: Latencies
) -> dict[str, Figures]:
    """Every item of the parts once for every peer, in the order given."""
    taken: dict[str, Figures] = {peer.name: {} for peer in peers}
    for part in parts:
        try:
            chosen = [peer for peer in peers if measured(part, peer)]
            if part == "stdio":
                found = measures.run_round(chosen, effort)
            elif part == "http":
                found = http_measures.run_round(chosen, effort, problems)
            elif part == "redis":
                found = redis_measures.run_round(chosen, effort, problems)
            elif part == "tasks":
                found = tasks_measures.run_round(chosen, effort, problems)
            elif part == "gateway":
                found = gateway_measures.run_round(chosen, effort, problems, latencies)
            else:
                found = client_measures.run_round(chosen, effort, problems)
        except DriverError as error:
            problems.append(f"{part}: {error}")
            continue
        for name, figures in found.items():
            taken[name] |= figures
    return taken


def measured(part: str, peer: Peer) -> bool:
    """Whether a peer has what a part measures."""
    if part == "redis":
        return peer.name == OURS and redis_measures.REDIS is not None
    if part in {"tasks", "gateway"}:
        return peer.name == OURS
    return bool({"stdio": peer.server, "http": peer.http, "clients": peer.client}[part])


def show(progress: str) -> None:
    """Say on a terminal what is going on, on one line."""
    if sys.stderr.isatty():
        print(f"\r{progress:40}\r", end="", file=sys.stderr, flush=True)


def report(parts: list[str], rounds: Rounds, peers: list[Peer], problems: list[str], latencies: Latencies) -> None:
    """Print the tables, and leave them and the raw figures in bench/results/."""
    versions = {peer.name: peer.version for peer in peers}
    python = platform.python_version()
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {python}"
    taken = len(next(iter(rounds.values())))
    text = f"Medians of {taken} interleaved rounds (lowest–highest), ratios within a round; {where}.\n"
    for part in parts:
        title, rows = TABLES[part]
        shown = [peer.name for peer in peers if measured(part, peer)]
        text += f"\n{title}\n\n{table(rows, shown, rounds, versions)}\n"
        if part == "gateway" and OURS in shown:
            for title, paced in PACED_TABLES:
                text += f"\n{title}\n\n{latency_table(paced, latencies, rounds[OURS])}\n"
    for name, figures in rounds.items():
        for figure in SEEN:
            seen = figure_of(figures, figure)
            if seen and seen.median != STEPS:
                text += f"\n{name} merged progress messages: {seen.median:.0f} of {STEPS} arrived ({figure}).\n"
    brief = [in_brief(problem) for problem in problems]
    text += "".join(f"\nFAILED {brief.count(problem)} times: {problem}\n" for problem in dict.fromkeys(brief))
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    (folder / f"{stamp}.md").write_text(text)
    raw = {
        "machine": where,
        "versions": versions,
        "rounds": rounds,
        "verdicts": {row.figure: [v._asdict() for v in verdicts(row, rounds)] for row in ROWS},
        "latencies": percentiles_as_json(latencies),
        "latency verdicts": {
            row.figure: [v._asdict() for v in paced_verdicts(row, latencies)]
            for _, rows in PACED_TABLES
            for row in rows
        },
        "problems": problems,
    }
    (folder / f"{stamp}.json").write_text(json.dumps(raw, indent=1))
    print(text)
    print(f"written to bench/results/{stamp}.md and .json")


def in_brief(problem: str) -> str:
    """The first line, which says where, and the last, which says what; the whole is in the JSON."""
    first, *rest = problem.strip().splitlines()
    return f"{first} … {rest[-1]}" if rest else first


if __name__ == "__main__":
    sys.exit(main())
