"""The manifest of requirements is whole: every MUST is named, and has a test that exists or a reason."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from dovetail.protocol.revisions import REVISIONS
from tests.matrix import manifest
from tests.matrix.manifest import AREAS, DOCUMENT, FOLDER, KINDS, Requirement, requirements

NOT_RUN = (
    "NOT RUN: the manifest was not compared with the pages of the specification. "
    "Set DOVETAIL_PAGES to a folder that holds <revision>/**.mdx."
)


def test_every_key_word_of_every_page_is_named() -> None:
    assert manifest.unaccounted() == []


def test_a_key_word_belongs_to_one_requirement() -> None:
    places = Counter(place for each in requirements() for place in each.places)
    assert [place for place, count in places.items() if count > 1] == []


def test_every_test_that_is_named_exists() -> None:
    assert manifest.unknown_tests() == []


@pytest.mark.parametrize("each", requirements(), ids=lambda each: each.id)
def test_every_requirement_has_a_test_or_a_reason(each: Requirement) -> None:
    assert each.tests or each.reason
    assert (each.because in KINDS) == (each.reason is not None)
    assert each.level in ("MUST", "MUST NOT")
    assert each.says.endswith(".")
    assert set(each.revisions) == {place.revision for place in each.places} <= set(REVISIONS)


def test_ids_are_unique_and_every_file_is_read() -> None:
    ids = Counter(each.id for each in requirements())
    assert [id for id, count in ids.items() if count > 1] == []
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*AREAS, "pages"}


def test_the_tables_in_the_documentation_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert manifest.document(text) == text, "run: python -m tests.matrix.manifest"


def test_the_manifest_says_what_the_pages_say() -> None:
    pages = manifest.pages_folder()
    if pages is None:
        print(NOT_RUN)
        pytest.skip(NOT_RUN)
    assert manifest.differences(pages) == []


def test_a_page_that_differs_is_found(tmp_path: Path) -> None:
    page = tmp_path / "2025-11-25" / "basic" / "lifecycle.mdx"
    page.parent.mkdir(parents=True)
    page.write_text(
        "# One\nThis MUST be.\n```\n# no heading\nMUST\n```\n## `Two`\nIt SHALL NOT and is REQUIRED. MUSTER\n"
    )
    assert list(manifest.sections_of_key_words(page.read_text())) == ["One", "One", "Two", "Two"]
    assert any("handshake-first" in each for each in manifest.differences(tmp_path))


def test_a_test_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first = requirements()[-1]
    here = "tests/matrix/test_requirements.py"
    named = (here, f"{here}::test_every_test_that_is_named_exists", f"{here}::test_gone", "tests/test_gone.py")
    monkeypatch.setattr(manifest, "requirements", lambda: (first._replace(tests=named),))
    assert manifest.unknown_tests() == [f"{here}::test_gone", "tests/test_gone.py"]


def test_a_key_word_that_nobody_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "requirements", lambda: requirements()[1:])
    assert any("no requirement names" in each for each in manifest.unaccounted())


def test_the_files_are_written_alike() -> None:
    """One requirement after the other, without comments that a reader of the table would miss."""
    for area in AREAS:
        tables = tomllib.loads((FOLDER / f"{area}.toml").read_text())
        assert all(
            table.keys() <= {"level", "says", "where", "tests", "because", "reason"} for table in tables.values()
        )
