"""The lower bounds of the dependencies can be tested, and exclude versions that are known to fail."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ_PINS = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["lowest"]
LOWEST = dict(pin.partition(";")[0].split("==") for pin in READ_PINS(ROOT / "pyproject.toml"))


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip().split("."))


@pytest.mark.attack("M9")
@pytest.mark.parametrize(
    ("package", "broken"),
    [
        ("msgspec", "0.20"),  # structured content and output schemas are lost
        ("msgspec", "0.21.1"),  # keys of an enumeration cannot be written
        ("jsonschema-rs", "0.40"),  # invalid arguments are an internal error
        ("jsonschema-rs", "0.48.5"),  # a value nested too deeply is an internal error
        ("uvicorn", "0.49"),  # a lifespan that fails exits with code 0
    ],
)
def test_a_version_that_is_known_to_fail_is_not_allowed(package: str, broken: str) -> None:
    assert version(LOWEST[package]) > version(broken)


def test_every_direct_dependency_has_a_lowest_version() -> None:
    assert {"msgspec", "jsonschema-rs", "cryptography", "uvicorn", "aiohttp", "websockets", "keyring", "rich"} <= set(
        LOWEST
    )
