"""Failures that are expected, from `expected.toml`."""

import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from .suite import Verdict

LIST = Path(__file__).with_name("expected.toml")


class Expected:
    """Expected failures, with a count for each entry."""

    def __init__(self) -> None:
        entries = tomllib.loads(LIST.read_text())["failure"]
        self.entries: list[tuple[str, str, str, str]] = [
            (entry["mode"], entry["scenario"], entry.get("check", "*"), entry["reason"]) for entry in entries
        ]
        self._met: Counter[tuple[str, str, str, str]] = Counter()

    def covers(self, mode: str, verdict: Verdict) -> bool:
        """Whether a failure is expected."""
        for entry in self.entries:
            of_mode, scenario, check, _ = entry
            if of_mode == mode and fnmatchcase(verdict.scenario, scenario) and fnmatchcase(verdict.check, check):
                self._met[entry] += 1
                return True
        return False

    def summary(self) -> list[str]:
        """The entries that matched a failure, with their reasons."""
        met = [entry for entry in self.entries if entry in self._met]
        return [f"{entry[0]} {entry[1]}: {self._met[entry]} expected, {entry[-1]}" for entry in met]

    def stale(self) -> list[str]:
        """Entries that matched no failure."""
        return [f"{entry[0]} {entry[1]}" for entry in self.entries if entry not in self._met]
