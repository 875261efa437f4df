"""Turns latencies at equal throughput into percentiles of a whole run, as text and as JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.measures import Figures
from bench.report import MISSING, Figure, Verdict, aligned, figure_of, in_unit
from bench.rows import SCALE, PacedRow

Latencies = dict[str, list[list[float]]]
"""Name of a figure to the seconds that its calls took, round after round."""

UNIT = "ms"
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
ADDED = ("p50", "p99")


class Percentile(NamedTuple):
    """A percentile of all calls of a run, with the lowest and the highest of its rounds.

    It is not the median of the rounds: in a round alone, the 99th is little else than the slowest call.
    """

    whole: float
    low: float
    high: float


def percentile(taken: Sequence[float], share: float) -> float:
    """The least value that at least this share of the values does not exceed."""
    ordered = sorted(taken)
    # Rounded up: of 100 values, the 99th is the 99th percentile.
    return ordered[max(-int(-len(ordered) * share // 1), 1) - 1]


def percentile_of(rounds: Sequence[Sequence[float]], share: float) -> Percentile:
    """One percentile of the calls of a run; there is at least one round."""
    each = [percentile(taken, share) for taken in rounds]
    return Percentile(percentile([value for taken in rounds for value in taken], share), min(each), max(each))


def added(row: PacedRow, share: float, latencies: Latencies) -> float | None:
    """A percentile less that of direct calls at the same rate; None where there is nothing to compare."""
    through, direct = latencies.get(row.figure), latencies.get(row.direct)
    if not through or not direct:
        return None
    return percentile_of(through, share).whole - percentile_of(direct, share).whole


def paced_verdicts(row: PacedRow, latencies: Latencies) -> list[Verdict]:
    """How the median that is added stands against its bound."""
    value = added(row, 0.5, latencies)
    if row.most is None or value is None:
        return []
    value *= SCALE[UNIT]
    return [Verdict(f"p50 added ≤ {row.most:g} {UNIT}", value, row.most, value <= row.most)]


def latency_table(rows: Sequence[PacedRow], latencies: Latencies, figures: Sequence[Figures]) -> str:
    """The latencies at one rate as a Markdown table; `figures` has what else was found meanwhile."""
    head = ["what", "calls", "of a core, %", *(f"{name}, {UNIT}" for name in SHARES)]
    head += [*(f"{name} added, {UNIT}" for name in ADDED), f"sent late p99, {UNIT}", "bound"]
    body: list[list[str]] = []
    for row in rows:
        rounds = latencies.get(row.figure, [])
        cells = [row.title, str(sum(map(len, rounds))), in_unit(figure_of(figures, f"{row.figure} core"), "%")]
        found = [Figure(*percentile_of(rounds, share)) if rounds else None for share in SHARES.values()]
        cells += [in_unit(one, UNIT) for one in found]
        for name in ADDED:
            value = added(row, SHARES[name], latencies)
            cells.append(MISSING if value is None else f"{value * SCALE[UNIT]:.2f}")
        cells.append(in_unit(figure_of(figures, f"{row.figure} late"), UNIT))
        judged = [f"{v.claim}: {'met' if v.met else 'MISSED'}" for v in paced_verdicts(row, latencies)]
        if row.most is not None and not judged:
            judged.append("NOT MEASURED")
        body.append([*cells, "; ".join(judged)])
    return aligned(head, body)


def percentiles_as_json(latencies: Latencies) -> dict[str, Any]:
    """The percentiles of each figure, of the whole run and of its rounds."""
    return {
        figure: {
            "calls": [len(taken) for taken in rounds],
            **{name: percentile_of(rounds, share)._asdict() for name, share in SHARES.items()},
        }
        for figure, rounds in latencies.items()
        if rounds
    }
