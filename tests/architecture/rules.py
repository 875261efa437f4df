"""Project rules as functions: each takes a source tree and returns a list of violations."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

TESTED_PACKAGES = ("wire", "types", "schema", "text", "uri_template", "protocol")
"""Packages whose modules each have a test file of the same name."""
PURE_PACKAGES = (*TESTED_PACKAGES, "auth")
"""Packages without I/O."""
LINE_CAPS: dict[str, int] = dict.fromkeys(TESTED_PACKAGES, 400)
LINE_CAP = 600
FUNCTION_CAP = 60
CYCLE_CAP = 5
"""Modules of a package that may import each other in a circle, counting imports for type checkers."""
IMPURE_MODULES = frozenset(
    """
    aiohttp anyio asyncio concurrent http httpcore httptools httpx logging multiprocessing requests sched
    select selectors signal socket ssl starlette subprocess threading time trio urllib.request urllib3
    uvicorn uvloop websockets
    """.split()
)
SKIPS = ("skip", "skipif", "xfail", "importorskip")
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "manager", "common", "misc"})
DATE = re.compile(r"20\d\d-\d\d-\d\d")
DATED_NAME = re.compile(r"20\d\d_\d\d_\d\d")
BANNER = re.compile(r"^\s*#\s*[-=#*~_]{4,}")


def python_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Every source file under the root, with its path from there."""
    for path in sorted(root.rglob("*.py")):
        yield path, path.relative_to(root).as_posix()


def long_files(root: Path) -> list[str]:
    """Files above the cap of their package."""
    violations: list[str] = []
    for path, name in python_files(root):
        lines = len(path.read_text().splitlines())
        cap = LINE_CAPS.get(name.split("/")[0], LINE_CAP)
        if lines > cap:
            violations.append(f"{name} has {lines} lines; the cap is {cap}")
    return violations


def long_functions(root: Path) -> list[str]:
    """Functions above the cap, counted from `def` to their last line."""
    violations: list[str] = []
    for path, name in python_files(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_CAP:
                    violations.append(f"{name}:{node.lineno} {node.name} has {lines} lines, over {FUNCTION_CAP}")
    return violations


def dates(root: Path) -> list[str]:
    """Dates outside protocol/revisions/; a string that is a statement documents and is exempt."""
    violations: list[str] = []
    for path, name in python_files(root):
        if name.startswith("protocol/revisions/"):
            continue
        tree = ast.parse(path.read_text())
        documenting = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in documenting and _dated(node.value):
                violations.append(f"{name}:{node.lineno} names a date: {node.value!r}")
            elif isinstance(node, ast.Import | ast.ImportFrom) and DATED_NAME.search(ast.unparse(node)):
                violations.append(f"{name}:{node.lineno} imports a dated module: {ast.unparse(node)}")
    return violations


def _dated(value: object) -> bool:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return isinstance(value, str) and DATE.search(value) is not None


def unplaced(root: Path, layers: list[str]) -> list[str]:
    """Folders and modules directly in the package that the import contract does not name."""
    placed = {package.strip(" ()") for layer in layers for package in layer.split("|")}
    return [
        f"{path.name} has no place in the layers of pyproject.toml"
        for path in sorted(root.iterdir())
        if (path.is_dir() or path.suffix == ".py")
        and path.stem not in placed
        and path.name not in ("__init__.py", "__pycache__")
    ]


def impure_imports(root: Path) -> list[str]:
    """Imports, also those inside functions, that a package without I/O must not have."""
    violations: list[str] = []
    for path, name in python_files(root):
        if name.split("/")[0] in PURE_PACKAGES:
            for line, module in _imports(path):
                parts = module.split(".")
                if any(".".join(parts[: i + 1]) in IMPURE_MODULES for i in range(len(parts))):
                    violations.append(f"{name}:{line} imports {module}")
    return violations


def facade_imports(root: Path) -> list[str]:
    """Imports of names from `dovetail` itself inside the project, which would bypass the import contract."""
    return [
        f"{name}:{line} imports from dovetail instead of one of its packages"
        for path, name in python_files(root)
        if "/" in name
        for line, module in _imports(path)
        if module == "dovetail" or re.fullmatch(r"dovetail\.[A-Z]\w*", module)
    ]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def import_cycles(root: Path, cap: int = CYCLE_CAP) -> list[str]:
    """Circles of imports among more modules than the cap.

    Imports for type checkers count: a module that needs another for its annotations is not understood without it.
    Imports inside functions do not count.
    """
    imports = _module_imports(root)
    violations: list[str] = []
    for circle in _circles(imports):
        if len(circle) > cap:
            package = circle[0].split(".")[0]
            violations.append(f"{package}: {len(circle)} modules import each other, over {cap}: {', '.join(circle)}")
    return violations


def _module_imports(root: Path) -> dict[str, set[str]]:
    """Each module with the modules of its own package that it imports at module level."""
    files = {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path, name in python_files(root)
    }
    imports: dict[str, set[str]] = {}
    for module, path in files.items():
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        named = set(_top_level_imports(ast.parse(path.read_text()), package))
        # `from package import name` names a module or something inside of one.
        found = {name if name in files else name.rpartition(".")[0] for name in named}
        imports[module] = {
            name for name in found if name in files and name != module and name.split(".")[0] == module.split(".")[0]
        }
    return imports


def _top_level_imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The modules and names imported by a module itself, relative to the root; not those imported by functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("dovetail.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").removeprefix("dovetail.")
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        else:
            yield from _top_level_imports(node, package)


def _circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module."""
    reached = {module: _reachable(imports, module) for module in imports}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in imports
        if module in reached[module]
    }
    return sorted(list(circle) for circle in circles if len(circle) > 1)


def _reachable(imports: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def vague_names(root: Path) -> list[str]:
    """Modules and folders whose name says nothing about what is inside."""
    return [
        f"{path.relative_to(root).as_posix()}: the name says nothing"
        for path in sorted(root.rglob("*"))
        if path.stem.strip("_") in VAGUE_NAMES
    ]


def banners(root: Path) -> list[str]:
    """Comments that draw a line instead of saying why."""
    return [
        f"{name}:{number} is a banner"
        for path, name in python_files(root)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BANNER.match(line)
    ]


def untested(root: Path, tests: Path) -> list[str]:
    """Modules of the tested packages without a test file of their own name."""
    violations: list[str] = []
    for package in TESTED_PACKAGES:
        for path, name in python_files(root / package):
            if path.stem == "__init__":
                continue
            expected = tests / package / Path(name).with_name(f"test_{path.stem}.py")
            if not expected.exists():
                violations.append(f"{package}/{name} has no test file {expected.relative_to(tests.parent)}")
    return violations


def silent_skips(tests: Path) -> list[str]:
    """Skips and expected failures that do not say why."""
    violations: list[str] = []
    for path, name in python_files(tests):
        tree = ast.parse(path.read_text())
        called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in SKIPS:
                continue
            if not ast.unparse(node).startswith("pytest."):
                continue
            if not _has_reason(node.attr, called.get(id(node))):
                violations.append(f"{name}:{node.lineno} {ast.unparse(node)} gives no reason")
    return violations


def _has_reason(kind: str, call: ast.Call | None) -> bool:
    if call is None:
        return False
    reasons = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    if kind == "skip":
        reasons += call.args[:1]
    return any(not isinstance(reason, ast.Constant) or reason.value for reason in reasons)
