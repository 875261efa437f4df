"""Results of visits as files in build/compat, and the comparison with what is expected."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from .entries import Expected
from .install import ROOT

RESULTS = ROOT / "build" / "compat"


@dataclass
class Visit:
    """The checks of one connection: each name with its error, which is empty for a check that passed."""

    transport: str
    mode: str = ""
    revision: str | None = None
    checks: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Result:
    """All visits of one client or server."""

    kind: str
    slug: str
    visits: list[Visit] = field(default_factory=list)
    problem: str = ""
    """The reason why there was no visit at all."""

    @property
    def counts(self) -> tuple[int, int]:
        """Checks that passed, and all checks."""
        errors = [error for visit in self.visits for error in visit.checks.values()]
        return sum(not error for error in errors), len(errors)

    @property
    def revisions(self) -> list[str]:
        return sorted({visit.revision for visit in self.visits if visit.revision}, reverse=True)

    def failures(self) -> Iterator[tuple[Visit, str, str]]:
        """Each failed check with its visit and its error."""
        for visit in self.visits:
            yield from ((visit, check, error) for check, error in visit.checks.items() if error)

    def save(self) -> None:
        folder = RESULTS / self.kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.slug}.json").write_text(json.dumps(asdict(self), indent=1))


def load(kind: str, slug: str) -> Result | None:
    """The result of the last run, if there is one."""
    path = RESULTS / kind / f"{slug}.json"
    if not path.exists():
        return None
    saved = json.loads(path.read_text())
    return Result(kind, slug, [Visit(**visit) for visit in saved["visits"]], saved["problem"])


def covers(entry: Expected, visit: Visit, check: str) -> bool:
    """Whether an expected failure is about a check of a visit."""
    return fnmatchcase(check, entry.check) and _is_visited(entry, visit)


def _is_visited(entry: Expected, visit: Visit) -> bool:
    """Whether an expected failure is about a visit."""
    of_revision = not entry.revisions or visit.revision in entry.revisions
    of_mode = not entry.modes or visit.mode in entry.modes
    return visit.transport in entry.transports and of_revision and of_mode


def judge(result: Result, expected: Iterable[Expected]) -> list[str]:
    """The unexpected failures of a result, and the expected failures that did not occur."""
    entries = [entry for entry in expected if any(_is_visited(entry, visit) for visit in result.visits)]
    problems = [f"{result.slug}: {result.problem}"] if result.problem else []
    for visit, check, error in result.failures():
        if not any(covers(entry, visit, check) for entry in entries):
            where = f"{visit.transport} {visit.mode}".strip()
            problems.append(f"{result.slug} over {where}: {check}: {error}")
    for entry in entries:
        matched = [
            (visit, check, error)
            for visit in result.visits
            for check, error in visit.checks.items()
            if covers(entry, visit, check)
        ]
        passed = [f"{check} over {visit.transport}" for visit, check, error in matched if not error]
        if not matched or (passed and not entry.sometimes):
            what = passed[0] if passed else entry.check
            problems.append(f"{result.slug}: {what} is expected to fail ({entry.reason}), and does not")
    return problems
