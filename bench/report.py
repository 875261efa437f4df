"""Turns the rounds into medians, ratios and verdicts, as text and as JSON."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.measures import Figures
from bench.rows import SCALE, Row

OURS = "dovetail"
MISSING = "–"

Rounds = dict[str, list[Figures]]


class Figure(NamedTuple):
    """Median of the rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float


class Verdict(NamedTuple):
    """What Dovetail is held to, how it stands, and whether it keeps the bound."""

    claim: str
    value: float
    bound: float
    met: bool


def figure_of(taken: Sequence[Figures], name: str) -> Figure | None:
    """Median and spread of one figure over the rounds that have it."""
    values = [figures[name] for figures in taken if name in figures]
    return Figure(statistics.median(values), min(values), max(values)) if values else None


def ratio(rounds: Rounds, peer: str, figure: str, of: str = "") -> float | None:
    """Dovetail's share of a peer's figure: the median over rounds, each taken within one round."""
    of = of or figure
    pairs = zip(rounds.get(OURS, ()), rounds.get(peer, ()), strict=False)
    shares = [ours[figure] / theirs[of] for ours, theirs in pairs if figure in ours and of in theirs]
    return statistics.median(shares) if shares else None


def verdicts(row: Row, rounds: Rounds) -> list[Verdict]:
    """How Dovetail stands against each bound of a row; none where a figure is missing."""
    found: list[Verdict] = []
    for peer, bound in row.bounds:
        if (share := ratio(rounds, peer, row.figure)) is not None:
            limit = f"{bound:g}" if bound >= 1 else f"1/{round(1 / bound)}"
            found.append(Verdict(f"≤ {limit} of {peer}", share, bound, share <= bound))
    if row.most is not None and (ours := figure_of(rounds.get(OURS, ()), row.figure)):
        value = ours.median * SCALE[row.unit]
        found.append(Verdict(f"≤ {row.most:g} {row.unit}", value, row.most, value <= row.most))
    if row.beside is not None:
        other, called, bound = row.beside
        if (share := ratio(rounds, OURS, row.figure, other)) is not None:
            sign, met = ("≥", share >= bound) if bound < 1 else ("≤", share <= bound)
            found.append(Verdict(f"{sign} {bound:g} of {called} ({share:.2f})", share, bound, met))
    return found


def table(rows: Sequence[Row], shown: Sequence[str], rounds: Rounds, versions: dict[str, str]) -> str:
    """One part of the result as a Markdown table that is readable in a terminal too."""
    others = [peer for peer in shown if peer != OURS] if OURS in shown else []
    head = ["what", "unit", *(f"{peer} {versions[peer]}" for peer in shown)]
    head += [*(f"to {peer}" for peer in others), "bound"]
    body: list[list[str]] = []
    for row in rows:
        cells = [row.title, row.unit]
        cells += [in_unit(figure_of(rounds[peer], row.figure), row.unit) for peer in shown]
        cells += [_share(ratio(rounds, peer, row.figure)) for peer in others]
        judged = [f"{v.claim}: {'met' if v.met else 'MISSED'}" for v in verdicts(row, rounds)]
        if len(judged) < len(row.bounds) + (row.most is not None) + (row.beside is not None):
            judged.append("NOT MEASURED")
        body.append([*cells, "; ".join(judged)])
    return aligned(head, body)


def aligned(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of equal width."""
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [head, ["-" * width for width in widths], *body]
    )


def in_unit(figure: Figure | None, unit: str) -> str:
    """A figure with its spread."""
    if figure is None:
        return MISSING
    median, low, high = (_round(value * SCALE[unit]) for value in figure)
    return f"{median} ({low}–{high})"


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _share(ratio: float | None) -> str:
    if ratio is None or ratio <= 0:
        return MISSING
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.2f}"
