"""Running the official conformance suite and reading its results.

A verdict is a check that succeeded, failed or warned. A scenario can print a tick with none of them, and says so
nowhere; and a client that failed counts only where a scenario is run by itself.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".peers" / "conformance"
PROGRAM = (str(HOME / "bin" / "node"), str(HOME / "node_modules/@modelcontextprotocol/conformance/dist/index.js"))

# The suite takes the command apart at its spaces, and a path may have some.
CLIENT = f"{os.path.relpath(sys.executable, ROOT)} conformance/client.py"
SERVER = (sys.executable, "conformance/server.py", "--port", "0")

SCENARIO_SECONDS = 30
RUN_SECONDS = 300
END_SECONDS = 10

_VERDICTS = ("SUCCESS", "FAILURE", "WARNING")
_ABOUT_EVERYTHING = ("wire-schema-valid", "wire-schema-harness-error")
_SERVES = re.compile(r"serves MCP at (\S+);")
_TIMESTAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\dZ-]+$")
_LISTED = re.compile(r" +- (\S+)(?: \[(.*)\])?")


class Verdict(NamedTuple):
    """The result of one check."""

    scenario: str
    check: str
    status: str
    message: str = ""


async def scenarios(mode: str, *options: str) -> list[str]:
    """The scenarios of a mode that these options choose; of a requirement set also those that are not scored."""
    code, listed = await _run(*PROGRAM, "list", f"--{mode}", *options)
    heading, found = "", list[str]()
    for line in listed.splitlines():
        if line and not line.startswith(" "):
            heading = line.split()[0].lower()
        elif match := _LISTED.fullmatch(line):
            name, remark = match.groups()
            if mode == (remark if heading == "run" else heading):
                found.append(name)
    if code or not found:
        raise RuntimeError(f"The suite lists no scenarios: {listed}")
    return found


async def server_verdicts(folder: Path, *options: str) -> list[Verdict]:
    """Run scenarios against a server of ours that is started for them."""
    wanted = set(await scenarios("server", *options))
    suite = () if "--requirements" in options else ("--suite", "all")
    async with _server() as (url, said):
        await _run(*PROGRAM, "server", "--url", url, *suite, *options, "-o", str(folder))
    found = [verdict for path in _results(folder) for verdict in read_checks(path, _scenario_of(path))]
    seen = {_scenario_of(path) for path in _results(folder)}
    found += [Verdict(name, "never-ran", "FAILURE", "There is no result of it") for name in sorted(wanted - seen)]
    if said:
        told = "\n  ".join(said)
        found.append(Verdict("server", "silence", "FAILURE", f"The server wrote to stderr:\n  {told}"))
    return found


async def client_verdicts(folder: Path, scenario: str, *options: str) -> list[Verdict]:
    """Run one scenario against our client; its exit code counts as well."""
    limit = ("--timeout", str(SCENARIO_SECONDS * 1000), "-o", str(folder))
    code, _ = await _run(*PROGRAM, "client", "--command", CLIENT, "--scenario", scenario, *options, *limit)
    found = [verdict for path in _results(folder) for verdict in read_checks(path, scenario)]
    if code and not any(verdict.status in ("FAILURE", "WARNING") for verdict in found):
        found.append(Verdict(scenario, "exit-code", "FAILURE", "The client took too long, or its exit code was not 0"))
    return found


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of a server, and what it writes to stderr besides."""
    process = await asyncio.create_subprocess_exec(*SERVER, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(END_SECONDS):
            while (match := _SERVES.search(line := (await process.stderr.readline()).decode())) is None:
                if not line:
                    raise RuntimeError(f"The server did not start: {''.join(said)}")
                said.append(line)
        rest = asyncio.create_task(process.stderr.read())
        yield match[1], said
        process.terminate()
        async with asyncio.timeout(END_SECONDS):
            said += (await rest).decode().splitlines()
            if await process.wait():
                said.append(f"exit code {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _results(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("checks.json"))


def _scenario_of(path: Path) -> str:
    return _TIMESTAMP.sub("", path.parent.name).removeprefix("server-")


def read_checks(path: Path, scenario: str) -> list[Verdict]:
    """The verdicts in a file of results; where there are none about the scenario's own subject, that is one too."""
    checks = json.loads(path.read_text())
    found = [
        Verdict(scenario, check["id"], check["status"], check.get("errorMessage") or check["description"])
        for check in checks
        if check["status"] in _VERDICTS
    ]
    if all(verdict.check in _ABOUT_EVERYTHING for verdict in found):
        found.append(Verdict(scenario, "nothing", "UNCHECKED", "Nothing was checked"))
    return found


async def _run(*command: str) -> tuple[int, str]:
    """The exit code of a program, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(RUN_SECONDS):
            written, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, written.decode(errors="replace")
