"""Every Python block of the documentation runs.

The blocks of a page that begin with `# name.py` are written into one folder and run there; blocks without a name run as
well. `# name.py continued` appends to the block of that name. If a text block follows, it is the expected output. A
block that serves over HTTP runs while the others do, and so does a line `uvicorn …` of a sh block.
"""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.http import free_port
from tests.support.raw import eventually

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\w+\.py)( continued)?\n")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVES = re.compile(r"""\.run\("http"(?P<port>[^)]*\bport=)?""")
PORT_GIVEN = re.compile(r"\bport=(\d+)")
PORT = re.compile(r"\b80\d\d\b")
EXTRAS = {"telemetry.md": "opentelemetry"}
"""Pages whose examples need a package that is not installed with Dovetail."""


def blocks(text: str) -> Iterator[tuple[str | None, str, str | None]]:
    """Yield each Python block: its file name if any, the code, the expected output if a text block follows."""
    for match in BLOCK.finditer(text):
        code, output = match.groups()
        named = NAME.match(code)
        yield (named[1] if named else None), code, output


def commands(text: str) -> list[str]:
    """Return the lines of a page that start uvicorn."""
    return [line for block in SHELL.findall(text) for line in block.splitlines() if line.startswith("uvicorn ")]


def other_ports(text: str) -> str:
    """Return the page with free ports, so that several pages can run at the same time."""
    text = SERVES.sub(lambda match: match[0] if match["port"] else match[0] + ", port=8000", text)
    used = PORT.findall("\n".join([*(code for _, code, _ in blocks(text)), *commands(text)]))
    ports = {port: str(free_port()) for port in sorted(set(used))}
    return PORT.sub(lambda match: ports.get(match[0], match[0]), text)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def served(command: Sequence[str], port: int, folder: Path, env: Mapping[str, str], ends: set[int]) -> Iterator[None]:
    """Run a server in the background; at SIGTERM it must exit with one of these codes."""
    log = folder / f"{port}.txt"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        eventually(lambda: process.poll() is not None or listens(port), f"{command} listens")
        assert process.poll() is None, f"{command}: {log.read_text()}"
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in ends, f"{command}: {log.read_text()}"
    finally:
        process.kill()
        process.wait()


def run_page(text: str, folder: Path) -> dict[str, str]:
    """Write the blocks of a page into a folder and run each; return their output."""
    text = other_ports(text)
    named: dict[str, tuple[str, str | None]] = {}
    for name, code, output in blocks(text):
        continued = NAME.match(code)
        if name and continued and continued[2]:
            named[name] = (f"{named[name][0]}\n\n{code}", output)
        elif name:
            named[name] = (code, output)
    for name, (code, _) in named.items():
        (folder / name).write_text(code)
    for number, code in enumerate(code for name, code, _ in blocks(text) if not name):
        named[f"unnamed_{number}.py"] = (code, None)
        (folder / f"unnamed_{number}.py").write_text(code)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed: dict[str, str] = {}
    with contextlib.ExitStack() as servers:
        for name, (code, _) in named.items():
            if call := SERVES.search(code):
                port = PORT_GIVEN.search(code, call.start())
                assert port is not None
                servers.enter_context(served(["python", name], int(port[1]), folder, env, {0}))
        for line in commands(text):
            port = int(line.partition("--port ")[2].split()[0])
            servers.enter_context(served(shlex.split(line), port, folder, env, {0, -signal.SIGTERM}))
        for name, (code, expected) in named.items():
            if SERVES.search(code):
                continue
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
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    if needed := EXTRAS.get(page.name):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    text = page.read_text()
    for name, code, _ in blocks(text):
        compile(code, name or page.name, "exec")
    run_page(text, tmp_path)


def test_the_readme_shows_a_server_and_a_client(tmp_path: Path) -> None:
    code_of = {name: code for name, code, _ in blocks((ROOT / "README.md").read_text())}
    assert len([line for line in code_of["server.py"].splitlines()[1:] if line]) <= 10
    assert len([line for line in code_of["client.py"].splitlines()[1:] if line]) <= 5


@pytest.mark.parametrize(
    "page",
    [
        "```python\n1 / 0\n```\n",
        "```python\n# a.py\n1 / 0\n```\n",
        "```python\n# a.py\nprint(1)\n```\n\n```text\n2\n```\n",
        '```python\n# a.py\nimport dovetail\ndovetail.Server(1 / 0).run("http")\n```\n',
        "```python\n# a.py\napp = None\n```\n\n```sh\nuvicorn a:nothing --port 8000\n```\n",
    ],
)
def test_a_page_with_a_failing_block_is_detected(page: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(page, tmp_path)
