"""The rules of the house as functions: a source tree goes in, a list of complaints comes out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

LINE_CAPS = {"wire": 400, "types": 400, "protocol": 400}
LINE_CAP = 600
FUNCTION_CAP = 60
PURE_ROOMS = ("wire", "types", "protocol", "auth")
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
    """Files above the cap of their room."""
    complaints: list[str] = []
    for path, name in python_files(root):
        lines = len(path.read_text().splitlines())
        cap = LINE_CAPS.get(name.split("/")[0], LINE_CAP)
        if lines > cap:
            complaints.append(f"{name} has {lines} lines; the cap is {cap}")
    return complaints


def long_functions(root: Path) -> list[str]:
    """Functions above the cap, counted from `def` to their last line."""
    complaints: list[str] = []
    for path, name in python_files(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_CAP:
                    complaints.append(f"{name}:{node.lineno} {node.name} has {lines} lines, over {FUNCTION_CAP}")
    return complaints


def dates(root: Path) -> list[str]:
    """Dates outside protocol/revisions/; a string that is a statement documents and is exempt."""
    complaints: list[str] = []
    for path, name in python_files(root):
        if name.startswith("protocol/revisions/"):
            continue
        tree = ast.parse(path.read_text())
        documenting = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in documenting and _dated(node.value):
                complaints.append(f"{name}:{node.lineno} names a date: {node.value!r}")
            elif isinstance(node, ast.Import | ast.ImportFrom) and DATED_NAME.search(ast.unparse(node)):
                complaints.append(f"{name}:{node.lineno} imports a dated module: {ast.unparse(node)}")
    return complaints


def _dated(value: object) -> bool:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return isinstance(value, str) and DATE.search(value) is not None


def unplaced(root: Path, layers: list[str]) -> list[str]:
    """Folders and modules directly in the package that the import contract does not name."""
    placed = {room.strip(" ()") for layer in layers for room in layer.split("|")}
    return [
        f"{path.name} has no place in the layers of pyproject.toml"
        for path in sorted(root.iterdir())
        if (path.is_dir() or path.suffix == ".py")
        and path.stem not in placed
        and path.name not in ("__init__.py", "__pycache__")
    ]


def impure_imports(root: Path) -> list[str]:
    """Imports, also those inside functions, that a room without I/O must not have."""
    complaints: list[str] = []
    for path, name in python_files(root):
        if name.split("/")[0] in PURE_ROOMS:
            for line, module in _imports(path):
                parts = module.split(".")
                if any(".".join(parts[: i + 1]) in IMPURE_MODULES for i in range(len(parts))):
                    complaints.append(f"{name}:{line} imports {module}")
    return complaints


def front_door_imports(root: Path) -> list[str]:
    """Rooms that import the package itself; they would get round the import contract."""
    return [
        f"{name}:{line} imports the package dovetail instead of one of its rooms"
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
    """Modules of wire, types and protocol without a test file of their own name."""
    complaints: list[str] = []
    for room in ("wire", "types", "protocol"):
        for path, name in python_files(root / room):
            if path.stem == "__init__":
                continue
            expected = tests / room / Path(name).with_name(f"test_{path.stem}.py")
            if not expected.exists():
                complaints.append(f"{room}/{name} has no test file {expected.relative_to(tests.parent)}")
    return complaints


def silent_skips(tests: Path) -> list[str]:
    """Skips and expected failures that do not say why."""
    complaints: list[str] = []
    for path, name in python_files(tests):
        tree = ast.parse(path.read_text())
        called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in SKIPS:
                continue
            if not ast.unparse(node).startswith("pytest."):
                continue
            if not _has_reason(node.attr, called.get(id(node))):
                complaints.append(f"{name}:{node.lineno} {ast.unparse(node)} gives no reason")
    return complaints


def _has_reason(kind: str, call: ast.Call | None) -> bool:
    if call is None:
        return False
    reasons = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    if kind == "skip":
        reasons += call.args[:1]
    return any(not isinstance(reason, ast.Constant) or reason.value for reason in reasons)
