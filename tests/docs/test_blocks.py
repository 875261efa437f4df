"""Python in the documentation runs: blocks that begin with `# name.py` are written out together and run.

Those without a name run too, on their own. What a text block after a block says is what it prints.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\w+\.py)\n")
EXTRAS = {"telemetry.md": "opentelemetry"}
"""Pages about what needs a package that Dovetail does without."""


def blocks(text: str) -> Iterator[tuple[str | None, str, str | None]]:
    """Each Python block: its file name if any, the code, the output if a text block follows."""
    for match in BLOCK.finditer(text):
        code, output = match.groups()
        named = NAME.match(code)
        yield (named[1] if named else None), code, output


def run_page(text: str, folder: Path) -> dict[str, str]:
    """Write the blocks of a page into a folder and run each; returns what they printed."""
    named = {name: (code, output) for name, code, output in blocks(text) if name}
    for name, (code, _) in named.items():
        (folder / name).write_text(code)
    for number, code in enumerate(code for name, code, _ in blocks(text) if not name):
        named[f"unnamed_{number}.py"] = (code, None)
        (folder / f"unnamed_{number}.py").write_text(code)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed: dict[str, str] = {}
    for name, (_, expected) in named.items():
        done = subprocess.run(
            ["python", name],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert expected is None or done.stdout == expected
        printed[name] = done.stdout
    return printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_runs(page: Path, tmp_path: Path) -> None:
    if needed := EXTRAS.get(page.name):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    text = page.read_text()
    for name, code, _ in blocks(text):
        compile(code, name or page.name, "exec")
    run_page(text, tmp_path)


def test_the_readme_shows_a_server_and_a_client(tmp_path: Path) -> None:
    found = {name: code for name, code, _ in blocks((ROOT / "README.md").read_text())}
    assert len([line for line in found["server.py"].splitlines()[1:] if line]) <= 10
    assert len([line for line in found["client.py"].splitlines()[1:] if line]) <= 5


@pytest.mark.parametrize(
    "page",
    [
        "```python\n1 / 0\n```\n",
        "```python\n# a.py\n1 / 0\n```\n",
        "```python\n# a.py\nprint(1)\n```\n\n```text\n2\n```\n",
    ],
)
def test_a_wrong_page_is_found(page: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(page, tmp_path)
