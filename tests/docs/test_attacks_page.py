"""The page of attacks and the marks of their regression tests name the same entries; the tests in SECURITY.md exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.attacks.report import ROOT, documented

TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
ADVISORY_TESTS = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "SECURITY.md").read_text())


def marked_entries(source: str) -> set[str]:
    """Return the entries that calls of the form `….mark.attack("H1", …)` name."""
    entries: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "attack":
            entries |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    return entries


def test_every_entry_of_the_page_has_a_test_and_every_mark_an_entry() -> None:
    marked = set[str]().union(*(marked_entries(path.read_text()) for path in TEST_FILES))
    assert marked == set(documented())


def test_the_page_says_what_happens_today() -> None:
    assert len(documented()) == 36


@pytest.mark.parametrize(("path", "name"), ADVISORY_TESTS)
def test_the_test_of_an_advisory_exists(path: str, name: str) -> None:
    source = Path(ROOT / path).read_text()
    assert re.search(rf"def {name}\(", source), f"SECURITY.md names {name}, which {path} does not define"


def test_a_mark_is_read_with_all_its_entries() -> None:
    assert marked_entries('@pytest.mark.attack("H1", "M3")\ndef test_it(): ...') == {"H1", "M3"}
