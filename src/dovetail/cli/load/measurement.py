"""Latencies and errors of a load test, and their summary."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

PERCENTILES = (50, 90, 99)


class LoadMeasurement:
    """Outcomes of calls; latencies are in seconds."""

    def __init__(self) -> None:
        self.latencies = array("d")
        """Of the calls that succeeded."""
        self.errors: dict[str, int] = {}
        """The number of failed calls of each kind."""
        self.examples: dict[str, str] = {}
        """The first error of each kind."""
        self.seconds = 0.0
        """Duration of the test so far."""

    @property
    def calls(self) -> int:
        """The number of calls that ended."""
        return len(self.latencies) + self.failed

    @property
    def failed(self) -> int:
        """The number of calls that failed."""
        return sum(self.errors.values())

    def add_success(self, latency: float) -> None:
        """Count a call with a result."""
        self.latencies.append(latency)

    def add_error(self, kind: str, message: str) -> None:
        """Count a call that failed."""
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.examples.setdefault(kind, message)

    def per_second(self) -> float:
        """The throughput of successful calls."""
        return len(self.latencies) / self.seconds if self.seconds > 0 else 0.0

    def milliseconds(self) -> dict[str, float]:
        """Percentiles, maximum and mean of the latencies; empty without any."""
        if not self.latencies:
            return {}
        ordered = sorted(self.latencies)
        found = {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
        found["max"] = ordered[-1]
        found["mean"] = math.fsum(ordered) / len(ordered)
        return {name: round(value * 1000, 3) for name, value in found.items()}

    def as_json(self) -> dict[str, Any]:
        """The summary for scripts."""
        return {
            "calls": self.calls,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "callsPerSecond": round(self.per_second(), 1),
            "milliseconds": self.milliseconds(),
            "errors": dict(self.errors),
        }

    def lines(self, tool: str, concurrency: int) -> list[str]:
        """The summary for users."""
        lines = [
            f"{self.calls} calls of {tool} in {self.seconds:.2f} s, {concurrency} at a time: "
            f"{self.per_second():.0f} calls/s"
        ]
        if times := self.milliseconds():
            lines.append("  ms      " + "  ".join(f"{name} {value:.2f}" for name, value in times.items()))
        lines.append(f"  errors  {self.failed}")
        for kind, count in sorted(self.errors.items(), key=lambda entry: -entry[1]):
            message = " ".join(self.examples[kind].split())
            lines.append(f"    {count} {kind}: {message}")
        return lines


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the sorted values that at least `percent` of them do not exceed (nearest rank)."""
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
