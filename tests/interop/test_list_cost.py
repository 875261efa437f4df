"""`dovetail list FILE` beside `fastmcp list FILE`: a fraction of the processor time and of the memory."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.invoke import COMMAND, environment
from tests.interop.peers import PEERS, installed

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOOL = "def add(a: int, b: int = 3) -> int:\n    '''Add.'''\n    return a + b\n"


class Cost(NamedTuple):
    """What a command and the processes that it started used."""

    seconds: float
    """Of the processor: unlike the time on the clock, a busy machine hardly changes it."""
    megabytes: float
    """Of the largest process, at its peak."""


MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)
sys.exit(status != 0)
"""
"""Started from a small process, because the peak of a process counts that of the one it was started from."""


def cost(command: Sequence[str], **env: str) -> Cost:
    """Run a command to its end."""
    measure = [sys.executable, "-S", "-c", MEASURE, *command]
    done = subprocess.run(measure, capture_output=True, text=True, timeout=100, env=environment(**env), check=False)
    assert done.returncode == 0, done.stderr
    seconds, megabytes = map(float, done.stderr.split()[-2:])
    return Cost(seconds, megabytes)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted in other units elsewhere")
@pytest.mark.parametrize("peer", ["fastmcp3", "ported"], ids=["version 3", "version 4"])
def test_a_listing_costs_a_fraction_of_fastmcps(tmp_path: Path, peer: str) -> None:
    python = installed(PEERS / peer / "bin" / "python")
    (tmp_path / "ours.py").write_text(f"from dovetail import Server\nserver = Server('calc')\n\n@server.tool\n{TOOL}")
    (tmp_path / "theirs.py").write_text(f"from fastmcp import FastMCP\nmcp = FastMCP('calc')\n\n@mcp.tool\n{TOOL}")
    command = tmp_path / "bin" / "fastmcp"  # which the command starts again, for the server
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} -m fastmcp.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"

    theirs = cost([str(command), "list", str(tmp_path / "theirs.py")], PATH=path, PYTHONPATH="")
    # The first run may compile modules, which those of FastMCP were when it was installed.
    ours = [cost([*COMMAND, "list", str(tmp_path / "ours.py")]) for _ in range(2)][1]
    bare = cost([sys.executable, "-c", "import asyncio"])
    assert ours.seconds < theirs.seconds / 5
    assert ours.megabytes < theirs.megabytes / 2.5
    # Python with asyncio has most of our memory; what Dovetail adds is the part that can grow.
    assert ours.megabytes - bare.megabytes < (theirs.megabytes - bare.megabytes) / 5
