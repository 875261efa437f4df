"""Every public name is used in an example of the documentation, and those examples are run by tests/docs."""

import ast
from pathlib import Path

import dovetail
import dovetail.middleware
from tests.docs.test_blocks import PAGES, blocks


def used(code: str) -> set[str]:
    """The names that code uses; to import one, or to assign to it, is no use."""
    return {
        node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def undocumented(names: list[str], pages: list[Path]) -> list[str]:
    """The names that no block of any page uses."""
    seen = {name for page in pages for _, code, _ in blocks(page.read_text()) for name in used(code)}
    return sorted(set(names) - seen)


def test_every_public_name_is_used_in_an_example() -> None:
    assert undocumented(dovetail.__all__, PAGES) == []


def test_every_middleware_is_used_in_an_example() -> None:
    ready = [name for name in dovetail.middleware.__all__ if name != "Middleware"]
    assert undocumented(ready, PAGES) == []


def test_every_grant_of_the_client_package_is_used_in_an_example() -> None:
    assert undocumented(["EnterpriseLogin", "WorkloadIdentity"], PAGES) == []


def test_a_name_that_is_only_imported_or_mentioned_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`Server` and Client\n\n```python\nfrom dovetail import Server, Text\nText('a')\n```\n")
    assert undocumented(["Client", "Server", "Text"], [page]) == ["Client", "Server"]
