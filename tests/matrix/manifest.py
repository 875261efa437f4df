"""The requirement manifest: every MUST of the five revisions, and what proves that Dovetail keeps to it.

`requirements/*.toml` hold one table a requirement. `where` says on which pages it stands: the page and its section,
and for each revision which of the page's key words (MUST, SHALL, REQUIRED), counted from 1, say it.
`requirements/pages.toml` has the number of key words of every page, so it can be seen that none is forgotten.

`python -m tests.matrix.manifest` writes the table in docs/conformance.md. With DOVETAIL_PAGES, a folder that holds
<revision>/**.mdx, it first compares the manifest with the pages themselves.
"""

import ast
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dovetail.protocol.revisions import REVISIONS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "requirements"
COUNTS = FOLDER / "pages.toml"
DOCUMENT = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- requirements: written by tests/matrix/manifest.py -->", "<!-- end of requirements -->"
KEY_WORD = re.compile(r"\b(?:MUST|SHALL|REQUIRED)\b")
HEADING = re.compile(r"#{1,6}\s+(.*)")

AREAS = ("base", "lifecycle", "transports", "headers", "patterns", "server", "client", "tasks", "authorization")
"""The files of requirements, in the order in which the tables show them."""

KINDS = {
    "application": "binds the program that is written with Dovetail",
    "person": "binds a user interface",
    "model": "binds a language model",
    "intermediary": "binds what is between client and server",
    "authority": "binds an authorization server",
    "later": "belongs to a feature that is not built yet",
    "definition": "requires nothing",
}
"""Why a requirement may go without a test, or what a test does not reach."""


class Place(NamedTuple):
    """One key word on one page."""

    revision: str
    page: str
    number: int
    section: str


class Requirement(NamedTuple):
    """One rule, wherever it stands."""

    id: str
    area: str
    level: str
    says: str
    places: tuple[Place, ...]
    tests: tuple[str, ...] = ()
    because: str | None = None
    reason: str | None = None

    @property
    def revisions(self) -> list[str]:
        return [name for name in REVISIONS if any(place.revision == name for place in self.places)]

    @property
    def pages(self) -> list[str]:
        return list(dict.fromkeys(place.page for place in self.places))


@cache
def requirements() -> tuple[Requirement, ...]:
    """All of them, in the order in which they are written down."""
    found: list[Requirement] = []
    for area in AREAS:
        path = FOLDER / f"{area}.toml"
        for id, table in tomllib.loads(path.read_text()).items():
            places = tuple(_places(table.pop("where")))
            tests = tuple(table.pop("tests", ()))
            found.append(Requirement(id=id, area=area, places=places, tests=tests, **table))
    return tuple(found)


def _places(where: dict[str, dict[str, list[int]]]) -> Iterator[Place]:
    for place, revisions in where.items():
        page, _, section = place.partition("#")
        for revision, numbers in revisions.items():
            for number in numbers:
                yield Place(revision, page, number, section)


@cache
def key_words_per_page() -> dict[tuple[str, str], int]:
    """How many key words each page has, by revision and page."""
    counts = tomllib.loads(COUNTS.read_text())
    return {(revision, page): count for revision, pages in counts.items() for page, count in pages.items()}


def unaccounted() -> list[str]:
    """Key words that no requirement names, and places that there are not."""
    named = Counter(place[:3] for each in requirements() for place in each.places)
    there = {(*page, number) for page, count in key_words_per_page().items() for number in range(1, count + 1)}
    missing = [f"no requirement names {place}" for place in sorted(there - named.keys())]
    return missing + [f"there is no {place}" for place in sorted(named.keys() - there)]


def unknown_tests() -> list[str]:
    """Tests that are named and do not exist."""
    named = {test for each in requirements() for test in each.tests}
    return sorted(test for test in named if not _exists(test))


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not name or name in _tests_in(path))


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """The names of the tests in a file and of the classes that hold some, as pytest writes them."""
    return frozenset(_names(ast.parse(path.read_text()).body, ""))


def _names(body: list[ast.stmt], before: str) -> Iterator[str]:
    for each in body:
        if isinstance(each, ast.ClassDef) and each.name.startswith("Test"):
            inside = list(_names(each.body, f"{before}{each.name}::"))
            yield from [f"{before}{each.name}", *inside] if inside else []
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test"):
            yield f"{before}{each.name}"


def differences(pages: Path) -> list[str]:
    """Where the manifest differs from the pages themselves."""
    found: list[str] = []
    sections: dict[tuple[str, str], list[str]] = {}
    for revision in REVISIONS:
        for path in sorted((pages / revision).rglob("*.mdx")):
            page = path.relative_to(pages / revision).with_suffix("").as_posix()
            sections[revision, page] = list(sections_of_key_words(path.read_text()))
    counts = {page: len(found) for page, found in sections.items() if found}
    # Extensions are specified elsewhere: their pages are compared if they lie beside the others.
    known = {
        page: count for page, count in key_words_per_page().items() if page in counts or not _is_extension(page[1])
    }
    if counts != known:
        found.append(f"key words per page: {sorted(counts.items() ^ known.items())}")
    for each in requirements():
        for place in each.places:
            if _is_extension(place.page) and place[:2] not in counts:
                continue
            there = sections.get((place.revision, place.page), [])[place.number - 1 : place.number]
            if there != [place.section]:
                found.append(f"{each.id}: {place} is in {there}")
    return found


def _is_extension(page: str) -> bool:
    return page.startswith("extensions/")


def sections_of_key_words(text: str) -> Iterator[str]:
    """The section of every key word of a page, in order."""
    section, code = "", False
    for line in text.splitlines():
        if line.strip().startswith("```"):
            code = not code
        heading = None if code else HEADING.match(line)
        if heading is not None:
            section = heading[1].strip().replace("`", "")
        for _ in KEY_WORD.finditer(line):
            yield section


def written() -> str:
    """The tables for docs/conformance.md."""
    lines = ["| revision | MUSTs on its pages | with a test | with a reason | requirements |", "|---|---|---|---|---|"]
    for revision in REVISIONS:
        tested = _key_words(revision, tested=True)
        other = _key_words(revision, tested=False)
        count = sum(revision in each.revisions for each in requirements())
        lines.append(f"| {revision} | {tested + other} | {tested} | {other} | {count} |")
    for area in dict.fromkeys(each.area for each in requirements()):
        lines += [
            "",
            f"### {area.capitalize()}",
            "",
            "| requirement | revisions | pages | proof |",
            "|---|---|---|---|",
        ]
        lines += [_row(each) for each in requirements() if each.area == area]
    return "\n".join(lines)


def _key_words(revision: str, *, tested: bool) -> int:
    return len(
        {
            place
            for each in requirements()
            for place in each.places
            if place.revision == revision and bool(each.tests) == tested
        }
    )


def _row(each: Requirement) -> str:
    proof = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in each.tests)
    if each.reason is not None:
        assert each.because is not None
        proof += f"{'<br>' if proof else ''}{KINDS[each.because].capitalize()}. {each.reason}"
    revisions = "all" if each.revisions == list(REVISIONS) else "<br>".join(each.revisions)
    pages = "<br>".join(each.pages)
    says = each.says.replace("|", "\\|")
    return f"| **{each.id}** ({each.level})<br>{says} | {revisions} | {pages} | {proof} |"


def document(text: str) -> str:
    """A page with its tables renewed."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{DOCUMENT.name} lacks the lines {BEGIN!r} and {END!r}"
    return f"{before}{BEGIN}\n\n{written()}\n\n{END}{after}"


def pages_folder() -> Path | None:
    """The folder of official pages, if there is one to compare with."""
    folder = os.environ.get("DOVETAIL_PAGES")
    return Path(folder) if folder else None


def main() -> int:
    pages = pages_folder()
    if pages is None:
        print("Not compared with the pages themselves: DOVETAIL_PAGES names no folder with <revision>/**.mdx.")
    wrong = [*unaccounted(), *unknown_tests(), *(differences(pages) if pages else [])]
    print("\n".join(wrong), end="\n" if wrong else "")
    if not wrong:
        DOCUMENT.write_text(document(DOCUMENT.read_text()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
