"""The source follows the project rules, and each rule is shown to fail on a tree that violates it."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import rules

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dovetail"
TESTS = ROOT / "tests"


def layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(contract["layers"] for contract in contracts if contract.get("containers") == ["dovetail"])


RULES: dict[str, Callable[[Path], list[str]]] = {
    "long files": rules.long_files,
    "long functions": rules.long_functions,
    "dates outside revisions": rules.dates,
    "impure imports": rules.impure_imports,
    "facade imports": rules.facade_imports,
    "import cycles": rules.import_cycles,
    "vague names": rules.vague_names,
    "banners": rules.banners,
    "unplaced": lambda root: rules.unplaced(root, layers()),
}


@pytest.mark.parametrize("rule", RULES)
def test_source_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](SOURCE) == []


def test_every_module_without_io_has_its_own_test_file() -> None:
    assert rules.untested(SOURCE, TESTS) == []


def test_every_skip_says_why() -> None:
    assert rules.silent_skips(TESTS) == []


LONG_BODY = "\n".join(["def long():", *["    x = 1"] * 60])

BAD = {
    "long files": [
        ("wire/big.py", "x = 1\n" * 401),
        ("schema/big.py", "x = 1\n" * 401),
        ("server/big.py", "x = 1\n" * 601),
    ],
    "long functions": [("server/a.py", LONG_BODY), ("server/b.py", "async " + LONG_BODY)],
    "dates outside revisions": [
        ("server/a.py", "x = '2025-11-25'"),
        ("server/b.py", "x = f'{1} 2025-11-25 {2}'"),
        ("server/c.py", "x = b'2025-11-25'"),
        ("server/d.py", "from dovetail.protocol.revisions.r2025_11_25 import REVISION"),
        ("protocol/e.py", "def f(x='2024-11-05'): ..."),
    ],
    "impure imports": [
        ("wire/a.py", "import asyncio"),
        ("types/b.py", "def f():\n    from time import monotonic"),
        ("protocol/revisions/c.py", "from urllib import request"),
        ("auth/d.py", "import http.client"),
        ("schema/e.py", "import logging"),
        ("text/f.py", "import time"),
        ("uri_template/g.py", "import socket"),
    ],
    "facade imports": [
        ("server/a.py", "from dovetail import Client"),
        ("client/b.py", "def f():\n    import dovetail"),
    ],
    "vague names": [("server/utils.py", ""), ("server/common/a.py", "")],
    "banners": [("server/a.py", "# ------ tools ------\n"), ("server/b.py", "    # ======\n")],
    "unplaced": [("attic/a.py", ""), ("stray.py", "")],
}

GOOD = {
    "wire/a.py": "x = 1\n" * 400,
    "server/b.py": LONG_BODY.removesuffix("\n    x = 1"),
    "server/c.py": '"""Since 2025-11-25."""\nX = 1\n"""Known since 2025-06-18."""\n# not before 2024-11-05\n',
    "protocol/revisions/d.py": "NAME = '2025-11-25'",
    "protocol/e.py": "from urllib.parse import quote\nfrom dovetail.types.content import Text",
    "server/f.py": "import asyncio\nfrom dovetail.wire import codec",
}


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(("rule", "name", "text"), [(rule, *bad) for rule in BAD for bad in BAD[rule]])
def test_the_rule_can_fail(rule: str, name: str, text: str, tmp_path: Path) -> None:
    [violation] = RULES[rule](plant(tmp_path, {name: text}))
    assert name.split("/")[0] in violation or name in violation


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_lets_good_files_pass(rule: str, tmp_path: Path) -> None:
    assert RULES[rule](plant(tmp_path, GOOD)) == []


def test_an_import_cycle_larger_than_its_cap_is_found(tmp_path: Path) -> None:
    a = "from .b import B"
    b = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dovetail.server.features.c import C"
    c = "from dovetail.server import a"
    root = plant(tmp_path, {"server/a.py": a, "server/b.py": b, "server/features/c.py": c})
    [violation] = rules.import_cycles(root, 2)
    assert violation == "server: 3 modules import each other, over 2: server.a, server.b, server.features.c"
    assert rules.import_cycles(root, 3) == []


def test_an_import_inside_a_function_makes_no_cycle(tmp_path: Path) -> None:
    files = {"server/a.py": "from . import b", "server/b.py": "def f():\n    from . import a"}
    assert rules.import_cycles(plant(tmp_path, files), 0) == []


def test_a_missing_test_file_is_found(tmp_path: Path) -> None:
    modules = ("wire/a.py", "wire/__init__.py", "protocol/revisions/b.py", "types/c.py", "schema/d.py")
    source = plant(tmp_path / "src", dict.fromkeys(modules, ""))
    tests = plant(tmp_path / "tests", {"wire/test_a.py": "", "types/test_b.py": ""})
    assert rules.untested(source, tests) == [
        "types/c.py has no test file tests/types/test_c.py",
        "schema/d.py has no test file tests/schema/test_d.py",
        "protocol/revisions/b.py has no test file tests/protocol/revisions/test_b.py",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n@pytest.mark.skip\ndef test(): ...",
        "import pytest\n@pytest.mark.skipif(True)\ndef test(): ...",
        "import pytest\n@pytest.mark.xfail(reason='')\ndef test(): ...",
        "import pytest\ndef test():\n    pytest.skip()",
    ],
)
def test_a_silent_skip_is_found(text: str, tmp_path: Path) -> None:
    assert len(rules.silent_skips(plant(tmp_path, {"test_a.py": text}))) == 1


def test_a_skip_with_its_reason_passes(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.skipif(True, reason='POSIX')\ndef test():\n    pytest.skip('no shell')"
    assert rules.silent_skips(plant(tmp_path, {"test_a.py": text})) == []
