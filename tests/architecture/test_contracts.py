"""The import contracts of pyproject.toml find what they forbid, shown on small trees that break them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wire", "types", "protocol", "storage", "auth", "transports", "runtime", "server", "client")


def broken_contracts(folder: Path, files: dict[str, str]) -> list[str]:
    """The names of the contracts that a tree with these files breaks."""
    package = folder / "dovetail"
    for layer in PACKAGES:
        (package / layer).mkdir(parents=True)
        (package / layer / "__init__.py").touch()
    (package / "__init__.py").touch()
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    broken = [line.removesuffix(" BROKEN") for line in done.stdout.splitlines() if line.endswith(" BROKEN")]
    assert bool(done.returncode) == bool(broken)
    return broken


@pytest.mark.parametrize(
    ("files", "contract"),
    [
        ({"wire/a.py": "import dovetail.types"}, "Imports follow the layers"),
        ({"server/a.py": "import dovetail.client"}, "Imports follow the layers"),
        ({"attic/__init__.py": ""}, "Imports follow the layers"),
        ({"protocol/a.py": "def f():\n    import time"}, "Packages without I/O"),
        ({"storage/a.py": "import dovetail.types"}, "Storage holds bytes"),
        (
            {"transports/stdio.py": "import dovetail.storage.x", "storage/x.py": ""},
            "Transports receive stores",
        ),
        (
            {"transports/stdio.py": "from . import memory", "transports/memory.py": ""},
            "Transports do not import each other",
        ),
    ],
)
def test_a_forbidden_import_breaks_its_contract(files: dict[str, str], contract: str, tmp_path: Path) -> None:
    [broken] = broken_contracts(tmp_path, files)
    assert broken.startswith(contract)


def test_a_tree_that_keeps_the_contracts_passes(tmp_path: Path) -> None:
    files = {"server/a.py": "import asyncio, dovetail.runtime", "transports/stdio.py": "import dovetail.wire"}
    assert broken_contracts(tmp_path, files) == []
