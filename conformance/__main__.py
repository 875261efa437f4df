"""Runs the official conformance suite on every revision, in both modes, and prints one table of verdicts.

python -m conformance                 everything
python -m conformance 2026-07-28      one revision, and the set of requirements frozen for it
"""

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from . import suite
from .expected_failures import Expected
from .suite import ROOT, Verdict

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
FROZEN = ("2025-11-25", "2026-07-28")
RESULTS = ROOT / "build" / "conformance"
MODES = ("server", "client")


class Run(NamedTuple):
    """A selection of scenarios."""

    name: str
    options: tuple[str, ...]


class Outcome(NamedTuple):
    """The result of a run in one mode."""

    run: str
    mode: str
    verdicts: list[Verdict]


def runs(only: str | None) -> list[Run]:
    """All selections: every revision, every frozen set of requirements, and the default of the suite."""
    found = [Run(name, ("--spec-version", name)) for name in REVISIONS]
    found += [Run(f"{name} required", ("--requirements", name)) for name in FROZEN]
    found.append(Run("all", ()))
    return [run for run in found if only is None or run.name.startswith(only)]


async def outcome(run: Run, mode: str, turns: asyncio.Semaphore) -> Outcome:
    """Run a selection of scenarios in one mode."""
    folder = RESULTS / mode / run.name.replace(" ", "-")
    if mode == "server":
        async with turns:
            return Outcome(run.name, mode, await suite.server_verdicts(folder, *run.options))
    names = await suite.scenarios("client", *run.options)
    # A scenario by itself is not part of a set: it is run on the revision that the set is for.
    options = ("--spec-version", run.options[1], "--force") if "--requirements" in run.options else run.options

    async def one(name: str) -> list[Verdict]:
        async with turns:
            return await suite.client_verdicts(folder / name.replace("/", "_"), name, *options)

    return Outcome(run.name, mode, list(chain(*await asyncio.gather(*map(one, names)))))


def table(outcomes: list[Outcome], expected: Expected) -> tuple[list[str], list[str]]:
    """The table, and a list of unexpected failures."""
    titles = ("scenarios", "passed", "failed", "warned", "unchecked", "expected")
    lines = [f"{'revision':<20}{'mode':<6}" + "".join(f"{title:>11}" for title in titles)]
    problems: list[str] = []
    for run, mode, verdicts in outcomes:
        counts = Counter(verdict.status for verdict in verdicts)
        amiss = [verdict for verdict in verdicts if verdict.status != "SUCCESS"]
        surprises = [verdict for verdict in amiss if not expected.covers(mode, verdict)]
        problems += [f"{run} {mode} {one.scenario}:{one.check} {one.status}: {one.message}" for one in surprises]
        kinds = [counts[status] for status in ("SUCCESS", "FAILURE", "WARNING", "UNCHECKED")]
        numbers = [len({one.scenario for one in verdicts}), *kinds, len(amiss) - len(surprises)]
        lines.append(f"{run:<20}{mode:<6}" + "".join(f"{number:>11}" for number in numbers))
    return lines, problems


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the results folder, so that two runs do not mix their results."""
    import fcntl  # the suite is run where there is one

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "conformance.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("Another run writes to build/conformance: wait for its end") from None
        yield


async def main() -> int:
    """Run the selected scenarios; exit code 1 for unexpected failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", choices=[*REVISIONS, "all"])
    parser.add_argument("--mode", choices=MODES, help="test only the server, or only the client")
    chosen = parser.parse_args()
    began = time.monotonic()
    shutil.rmtree(RESULTS, ignore_errors=True)
    turns = asyncio.Semaphore(os.cpu_count() or 2)
    modes = [chosen.mode] if chosen.mode else MODES
    wanted = [outcome(run, mode, turns) for run in runs(chosen.revision) for mode in modes]
    expected = Expected()
    lines, problems = table(await asyncio.gather(*wanted), expected)
    print(*lines, "", *expected.summary(), sep="\n")
    if chosen.revision is None and chosen.mode is None:
        problems += [
            f"{entry} is expected to fail, and nothing does: take it off the list" for entry in expected.stale()
        ]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{time.monotonic() - began:.0f} s; the results are in {RESULTS.relative_to(ROOT)}")
    return 1 if problems else 0


if __name__ == "__main__":
    with alone(RESULTS.parent):
        sys.exit(asyncio.run(main()))
