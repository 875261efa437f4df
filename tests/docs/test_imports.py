"""Documentation and examples import from `dovetail` or from a package, never from a module inside a package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dovetail
from tests.docs.test_blocks import PAGES, ROOT, blocks

PACKAGE = Path(dovetail.__file__).parent
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imported(code: str) -> Iterator[str]:
    """Return the modules that code imports, absolutely."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module


def too_deep(code: str) -> list[str]:
    """Return the modules of Dovetail that code imports and that are neither `dovetail` nor one of its packages."""
    found: list[str] = []
    for module in imported(code):
        first, *rest = module.split(".")
        if first == "dovetail" and rest and (len(rest) > 1 or not (PACKAGE / rest[0] / "__init__.py").exists()):
            found.append(module)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_imports_no_module_inside_a_package(page: Path) -> None:
    found = {module for _, code, _ in blocks(page.read_text()) for module in too_deep(code)}
    assert found == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_an_example_imports_no_module_inside_a_package(example: Path) -> None:
    assert set(too_deep(example.read_text())) == set()


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("from dovetail.server.app import Server", ["dovetail.server.app"]),
        ("import dovetail.middleware.timing", ["dovetail.middleware.timing"]),
        ("from dovetail.nowhere import x", ["dovetail.nowhere"]),
        ("from dovetail import Server\nfrom dovetail.middleware import Timing\nimport asyncio\nfrom . import a", []),
    ],
)
def test_an_import_that_is_too_deep_is_found(code: str, modules: list[str]) -> None:
    assert too_deep(code) == modules
