"""What `import dovetail` gives, and how little it costs."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dovetail

ROOT = Path(__file__).resolve().parents[2]
PROMISED = """
    Server Client Context Param ToolError Text Image Audio ResourceLink Embedded
    DovetailError RemoteError ToolFailed ConnectionLost Timeout Refused LocalError
""".split()
HEAVY = ("asyncio", "msgspec", "jsonschema_rs", "inspect", "logging", "json", "pydantic")


def heavy_after(statement: str) -> list[str]:
    """The heavy modules that a statement brings into a fresh interpreter."""
    code = f"import sys; old = set(sys.modules); {statement}; print(*(set(sys.modules) - old) & set({HEAVY!r}))"
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()


@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_names_are_public(name: str) -> None:
    assert name in dovetail.__all__


@pytest.mark.parametrize("name", dovetail.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(dovetail, name) is not None
    assert name in dir(dovetail)


def test_public_names_are_sorted_and_unique() -> None:
    assert list(dovetail.__all__) == sorted(set(dovetail.__all__))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(dovetail, "nonsense")  # noqa: B009


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dovetail.__version__ == project["version"]


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert heavy_after("import dovetail") == []


def test_the_check_for_heavy_imports_can_fail() -> None:
    assert "asyncio" in heavy_after("import asyncio")
