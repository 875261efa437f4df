"""Every link within the repository has a target, and every page is reachable."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """Return the links of a page without a target; links to other sites are not followed."""
    missing: list[str] = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
    assert broken(page) == []


def test_every_page_can_be_reached_from_the_first() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = LINK.findall(FENCE.sub("", page.read_text()))
        todo += [(page.parent / link.partition("#")[0]).resolve() for link in links if ":" not in link]
    assert set((ROOT / "docs").glob("*.md")) - seen == set()


def test_every_page_is_in_the_menu_of_the_site() -> None:
    named = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("text", ["[a](nothing.md)", "[a](#nothing)", "[a](there.md#nothing)"])
def test_a_broken_link_is_detected(text: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# There it is\n[fine](#there-it-is) [fine](https://example.com)")
    (tmp_path / "page.md").write_text(text)
    assert broken(tmp_path / "there.md") == []
    assert len(broken(tmp_path / "page.md")) == 1
