"""Turns the rounds into medians, ratios and verdicts, as text and as JSON."""

import statistics
from typing import NamedTuple

from bench.measures import Figures

Rounds = dict[str, list[Figures]]


class Row(NamedTuple):
    """One line of the table; a bound is the greatest allowed share of a peer's figure."""

    figure: str
    title: str
    unit: str
    bounds: tuple[tuple[str, float], ...] = ()


ROWS = (
    Row("start", "spawn to first tools/list, 105 tools: CPU", "ms", (("mcp", 1 / 8),)),
    Row("start wall", "spawn to first tools/list: wall", "ms"),
    Row("import", "a process that imports the package: CPU", "ms", (("mcp", 1 / 10),)),
    Row("bare", "a process that imports nothing: CPU", "ms"),
    Row("memory", "memory after the first list", "MB", (("mcp", 1 / 2),)),
    Row(
        "echo64 async",
        "echo, 64 outstanding, async tool: CPU a call",
        "µs",
        (("mcp", 1 / 40), ("typescript", 1)),
    ),
    Row("echo64 async wall", "echo, 64 outstanding, async tool: wall a call", "µs"),
    Row("echo64 sync", "echo, 64 outstanding, plain function: CPU a call", "µs", (("typescript", 1),)),
    Row("echo1 async", "echo, one by one, async tool: CPU a call", "µs", (("mcp", 1 / 8),)),
    Row("echo1 async wall", "echo, one by one, async tool: latency", "µs"),
    Row("echo1 sync", "echo, one by one, plain function: CPU a call", "µs"),
    Row("megabyte wall", "echo of 1 MB: latency", "ms", (("mcp", 1),)),
    Row("megabyte", "echo of 1 MB: CPU", "ms"),
    Row("list", "tools/list, 105 tools: CPU", "µs", (("mcp", 1 / 40),)),
    Row("progress", "1,000 progress messages in a call: CPU a message", "µs", (("mcp", 1 / 50),)),
    Row("start 2026", "2026-07-28: spawn to first tools/list: CPU", "ms"),
    Row("echo64 async 2026", "2026-07-28: echo, 64 outstanding, async tool: CPU a call", "µs"),
    Row("echo64 sync 2026", "2026-07-28: echo, 64 outstanding, plain function: CPU a call", "µs"),
    Row("echo1 async 2026", "2026-07-28: echo, one by one, async tool: CPU a call", "µs"),
)
SCALE = {"ms": 1e3, "µs": 1e6, "MB": 1e-6}


class Figure(NamedTuple):
    """Median of the rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float


class Verdict(NamedTuple):
    """Dovetail's share of a peer's figure, and whether it keeps the bound."""

    peer: str
    ratio: float
    bound: float
    met: bool


def summarize(rounds: Rounds) -> dict[str, dict[str, Figure]]:
    """peer -> figure name -> median and spread over the rounds."""
    return {
        peer: {
            name: Figure(statistics.median(values), min(values), max(values))
            for name in taken[0]
            for values in [[figures[name] for figures in taken]]
        }
        for peer, taken in rounds.items()
    }


def ratio(rounds: Rounds, peer: str, figure: str) -> float:
    """Dovetail's share of a peer's figure: the median over rounds, each taken within one round."""
    pairs = zip(rounds["dovetail"], rounds[peer], strict=True)
    return statistics.median(ours[figure] / theirs[figure] for ours, theirs in pairs)


def verdict(row: Row, rounds: Rounds) -> list[Verdict]:
    """How Dovetail stands against each bound of a row."""
    return [
        Verdict(peer, share, bound, share <= bound)
        for peer, bound in row.bounds
        if peer in rounds and "dovetail" in rounds
        for share in [ratio(rounds, peer, row.figure)]
    ]


def table(rounds: Rounds, versions: dict[str, str]) -> str:
    """The whole result as a Markdown table that is readable in a terminal too."""
    summary = summarize(rounds)
    head = ["what", "unit", *(f"{peer} {versions[peer]}" for peer in rounds)]
    others = [peer for peer in rounds if peer != "dovetail"] if "dovetail" in rounds else []
    head += [f"to {peer}" for peer in others] + (["bound"] if others else [])
    body: list[list[str]] = []
    for row in ROWS:
        cells = [row.title, row.unit]
        cells += [_number(figures[row.figure], row.unit) for figures in summary.values()]
        cells += [_share(ratio(rounds, peer, row.figure)) for peer in others]
        body.append(cells + (["; ".join(map(_judged, verdict(row, rounds)))] if others else []))
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [head, ["-" * width for width in widths], *body]
    )


def _judged(judged: Verdict) -> str:
    limit = "1" if judged.bound == 1 else f"1/{round(1 / judged.bound)}"
    return f"≤ {limit} of {judged.peer}: {'met' if judged.met else 'MISSED'}"


def _number(figure: Figure, unit: str) -> str:
    median, low, high = (_round(value * SCALE[unit]) for value in figure)
    return f"{median} ({low}–{high})"


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _share(ratio: float) -> str:
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.2f}"
