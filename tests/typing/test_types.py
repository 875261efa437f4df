"""The types that authors and users see, by pyright and by mypy, both strict."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAMPLES = ("sample_server.py", "sample_client.py")
MISTAKES = "sample_mistakes.py"
IRRELEVANT = (
    *("aiohttp", "anthropic", "cryptography", "httptools", "jsonschema_rs", "keyring", "openai", "opentelemetry"),
    *("prompt_toolkit", "pydantic", "rich", "starlette", "uvicorn", "uvloop", "websockets"),
)
"""Libraries that mypy need not read: nothing that is revealed comes from them."""
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=\w)")

Found = dict[str, dict[int, list[str]]]


def pyright(folder: Path) -> tuple[Found, Found]:
    """The revealed types and the errors, by file and line."""
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11"}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    revealed: Found = {}
    errors: Found = {}
    for entry in json.loads(done.stdout)["generalDiagnostics"]:
        name, line = Path(entry["file"]).name, entry["range"]["start"]["line"] + 1
        if entry["severity"] == "information":
            text = re.search(r'is "(.*)"$', entry["message"])
            assert text is not None, entry
            revealed.setdefault(name, {}).setdefault(line, []).append(text[1])
        else:
            errors.setdefault(name, {}).setdefault(line, []).append(entry["message"])
    return revealed, errors


def mypy(folder: Path) -> tuple[Found, Found]:
    """The revealed types and the errors, by file and line."""
    config = folder / "mypy.ini"
    config.write_text("[mypy]\n" + "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in IRRELEVANT))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-version", "3.11"]
    command += ["--config-file", str(config)]
    samples = [str(folder / name) for name in (*SAMPLES, MISTAKES)]
    done = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), *samples], capture_output=True, text=True, timeout=300
    )
    revealed: Found = {}
    errors: Found = {}
    for line in done.stdout.splitlines():
        found = re.match(r"(?P<file>.+?):(?P<line>\d+): (?P<kind>note|error): (?P<text>.*)", line)
        if found is None:
            continue
        name, number = Path(found["file"]).name, int(found["line"])
        if found["kind"] == "error":
            errors.setdefault(name, {}).setdefault(number, []).append(found["text"])
        elif (text := re.search(r'Revealed type is "(.*)"$', found["text"])) is not None:
            revealed.setdefault(name, {}).setdefault(number, []).append(text[1])
    return revealed, errors


def lines_with(name: str, mark: str) -> dict[int, str]:
    lines = (HERE / name).read_text().splitlines()
    return {number: line.partition(mark)[2].strip() for number, line in enumerate(lines, 1) if f"  # {mark}" in line}


def plain(text: str) -> str:
    """A type without the modules of its names."""
    return _MODULE.sub("", text).replace("builtins.", "")


@pytest.mark.slow
@pytest.mark.parametrize("checker", [pyright, mypy], ids=["pyright", "mypy"])
def test_both_type_checkers_see_the_same_types_and_the_same_mistakes(
    checker: Callable[[Path], tuple[Found, Found]], tmp_path: Path
) -> None:
    for name in (*SAMPLES, MISTAKES):
        (tmp_path / name).write_text((HERE / name).read_text())
    revealed, errors = checker(tmp_path)
    for name in SAMPLES:
        seen = {line: plain(texts[0]) for line, texts in revealed[name].items()}
        assert seen == lines_with(name, "reveals:")
        assert errors.get(name, {}) == {}
    assert sorted(errors[MISTAKES]) == sorted(lines_with(MISTAKES, "mistake"))
