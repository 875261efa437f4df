"""Three servers of three revisions and a configuration file that names them, for as long as a demo runs."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
MODEL_SCRIPT = HERE / "talk.json"
COMMAND = [sys.executable, "-m", "dovetail.cli"]

_URL = re.compile(r"http://\S+/mcp")


@contextlib.contextmanager
def demo_servers() -> Iterator[Path]:
    """A folder with `mcp.json`; the servers over HTTP run until the end."""
    with tempfile.TemporaryDirectory() as name, served("hotels") as hotels, served("notes") as notes:
        folder = Path(name)
        servers = {
            "almanac": {"command": sys.executable, "args": [str(HERE / "almanac.py")]},
            "hotels": {"type": "http", "url": hotels},
            "notes": {"type": "http", "url": notes},
        }
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
        yield folder


@contextlib.contextmanager
def served(name: str) -> Iterator[str]:
    """A server over HTTP at a free port; its URL."""
    process = subprocess.Popen(
        [*COMMAND, "serve", str(HERE / f"{name}.py"), "--port", "0", "--grace", "0", "--log-level", "error"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C at the terminal is not for it
    )
    try:
        assert process.stderr is not None
        found = next(filter(None, map(_URL.search, process.stderr)), None)
        if found is None:
            raise SystemExit(f"{name} did not start.")
        yield found[0]
    finally:
        process.terminate()
        process.communicate()
