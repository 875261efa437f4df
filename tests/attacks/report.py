"""Runs the regression tests of all attacks that once got through, and prints which entry is held by which tests.

    python -m tests.attacks.report [pytest arguments]

The entries are those of docs/attacks.md. Exit code 1: a test failed or was skipped, or an entry has no test.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([HML]\d+) \| (.+?) \| .+ \| .+ \|$", re.MULTILINE)


def documented() -> dict[str, str]:
    """Return the entries of docs/attacks.md with their titles."""
    return dict(ROW.findall((ROOT / "docs" / "attacks.md").read_text()))


class EntryResults:
    """A pytest plugin that collects the outcome of each test by the attacks that it is marked with."""

    def __init__(self) -> None:
        self.tests: defaultdict[str, set[str]] = defaultdict(set)
        self.bad: defaultdict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.partition("[")[0]
        for key, entry in report.user_properties:
            if key == "attack":
                self.tests[str(entry)].add(name)
                if not report.passed:
                    self.bad[str(entry)].add(name)

    def table(self) -> tuple[list[str], bool]:
        """Return the lines of the table, and whether every entry is held."""
        lines: list[str] = []
        held = True
        for entry, title in documented().items():
            tests, bad = sorted(self.tests[entry]), self.bad[entry]
            result = "NO TEST" if not tests else f"{len(bad)} NOT PASSED" if bad else "held"
            held = held and result == "held"
            lines.append(f"{entry:4} {result:13} {title}")
            lines += [f"{'':18} {'x' if name in bad else '·'} {name}" for name in tests]
        return lines, held


def main(arguments: Sequence[str]) -> int:
    """Run the tests and print the table."""
    results = EntryResults()
    code = pytest.main(["-q", "-m", "attack", *arguments, str(ROOT / "tests")], plugins=[results])
    lines, held = results.table()
    print("\n".join(["", *lines]))
    return 0 if code == 0 and held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
