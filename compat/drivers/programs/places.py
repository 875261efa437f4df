"""The programs of an environment, free ports, and checks of programs that run once for each question."""

import asyncio
import json
import os
import random
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

HOME = Path(os.environ["COMPAT_HOME"])
RUN_SECONDS = 60


def binary(name: str) -> str:
    """The path of a program of the environment."""
    for folder in (HOME / "bin", HOME / "node_modules" / ".bin"):
        if (folder / name).exists():
            return str(folder / name)
    raise FileNotFoundError(f"{name} is not in {HOME}")


def free_port() -> int:
    """A port that is free, below those that the system gives to others meanwhile."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(20_000, 32_000))) as listener:
            return listener.getsockname()[1]


async def output(*command: str) -> tuple[int, str]:
    """The exit code of a program, and all that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        written, _ = await asyncio.wait_for(process.communicate(), RUN_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, written.decode(errors="replace")


class Questions:
    """Checks of a program that is run once for each: a name, the command, and texts that it must write."""

    def __init__(self) -> None:
        self.checks: dict[str, str] = {}
        self.revision: str | None = None

    async def ask(self, check: str, command: Sequence[str], *parts: str, fails: bool | None = False) -> None:
        """Run a program, and look for texts in what it writes; `fails` is the expected exit, None for any."""
        try:
            code, text = await output(*command)
        except TimeoutError:
            self.checks[check] = f"no end within {RUN_SECONDS} s"
            return
        except OSError as problem:
            self.checks[check] = str(problem)
            return
        missing = [part for part in parts if part not in text]
        wrong = fails is not None and bool(code) != fails
        shown = " ".join(text.split())[-400:]
        self.checks[check] = f"exit code {code}, {missing} not in: {shown}" if missing or wrong else ""
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"):
            if check == "the revision" and revision in text:
                self.revision = revision

    def write(self) -> None:
        """Write the result where the runner looks for it."""
        Path(sys.argv[3]).write_text(json.dumps({"revision": self.revision, "checks": self.checks}))


def arguments() -> tuple[str, str, list[str]]:
    """The transport, the mode and the target of this run."""
    return sys.argv[1], sys.argv[2], sys.argv[4:]


def config(transport: str, target: list[str]) -> Path:
    """A file with our server in the form that most programs read."""
    kind = "sse" if transport == "sse" else "http"
    server: dict[str, object] = {"type": kind, "url": target[0]}
    if transport == "stdio":
        server = {"command": target[0], "args": target[1:]}
    path = Path("mcp.json").resolve()
    path.write_text(json.dumps({"mcpServers": {"compat": server}}))
    return path
