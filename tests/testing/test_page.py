"""The tests in docs/testing.md are tests: they run, fresh and from what they recorded."""

from pathlib import Path

from dovetail.protocol.revisions import REVISIONS
from tests.docs.test_blocks import blocks
from tests.testing.test_plugin import ROOT, Folder

PAGE = ROOT / "docs" / "testing.md"


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name, code, _ in blocks(PAGE.read_text()):
        if name is not None:
            folder.write(name, code)
    count = len(REVISIONS) + 9
    folder.passes(count, "--mcp-update")
    assert (tmp_path / "snapshots" / "test_interface.test_interface.json").exists()
    assert (tmp_path / "transcripts" / "price.jsonl").exists()
    folder.passes(count)


def test_the_report_on_the_page_is_what_a_change_gives(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name, code, _ in blocks(PAGE.read_text()):
        if name in ("shop.py", "conftest.py", "test_interface.py"):
            folder.write(name, code)
    folder.passes(1, "--mcp-update")
    text = (tmp_path / "shop.py").read_text()
    changed = text.replace("item: str, count: int = 1", "item: str, currency: str").replace("* count", "")
    folder.write("shop.py", changed.replace("What so many of an item cost.", "The price."))
    told = folder.fails()
    page = PAGE.read_text()
    shown = page[page.index('tool "price"') : page.index("```", page.index('tool "price"'))].splitlines()
    assert [line for line in shown if line not in told] == []
