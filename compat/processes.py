"""Child processes with a time limit, whose own children end with them."""

import asyncio
import os
import random
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .install import ROOT

START_SECONDS = 20
END_SECONDS = 5
SERVER = (sys.executable, str(ROOT / "compat" / "server.py"))
QUIET = {"DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true", "ANONYMIZED_TELEMETRY": "False", "NO_COLOR": "1"}

ON_PURPOSE = (
    "ZeroDivisionError: division by zero",
    "dovetail.protocol.errors.RemoteError: ",
    "dovetail.protocol.errors.NotFound: ",
)

_SERVES = re.compile(r"serves MCP at (\S+?)/mcp\b")


async def run(command: list[str], seconds: float, log: Path, *, cwd: Path, env: Mapping[str, str]) -> str:
    """Run a program to its end, with its output in a file; returns what was wrong, or nothing."""
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        except TimeoutError:
            return f"it ran longer than {seconds:.0f} s"
        finally:
            await _end_group(process)
    return f"its exit code was {code}" if code else ""


@asynccontextmanager
async def http_server(log: Path, *options: str) -> AsyncIterator[str]:
    """Our server over HTTP; gives its address, without a path."""
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            *SERVER, "--port", "0", *options, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                while (match := _SERVES.search(log.read_text())) is None:
                    if process.returncode is not None:
                        raise RuntimeError(f"The server did not start: {log.read_text()}")
                    await asyncio.sleep(0.05)
            yield match[1]
        finally:
            await _end_group(process)


def unexpected_errors(log: Path) -> str:
    """Tracebacks in the log of our server, other than those of a tool that fails, or is refused an answer."""
    tracebacks = log.read_text().split("Traceback (most recent call last):")[1:]
    amiss = [text for text in tracebacks if not any(error in text for error in ON_PURPOSE)]
    return " ".join(amiss[0].split())[-500:] if amiss else ""


def environment(home: Path, *folders: Path) -> dict[str, str]:
    """The environment of a third-party program: a home of its own, its programs first, no telemetry."""
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, **QUIET, "HOME": str(home), "PATH": path}


def free_port() -> int:
    """A port that is free, below those that the system gives to others meanwhile."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(20_000, 32_000))) as listener:
            return listener.getsockname()[1]


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End a program and all that it started: first politely, then for certain."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                if not _has_members(process.pid):
                    return


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
