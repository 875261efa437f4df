"""Visits: a third-party client on a tour of our server, and our client with a third-party server."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .entries import ThirdPartyClient, ThirdPartyServer
from .install import ROOT, InstallError, install
from .processes import QUIET, SERVER, environment, free_port, http_server, run, unexpected_errors
from .results import RESULTS, Result, Visit

DRIVERS = ROOT / "compat" / "drivers"


async def visit_client(client: ThirdPartyClient) -> Result:
    """Install a client, and run its tour over every transport and in every mode."""
    result = Result("clients", client.slug)
    try:
        home = await install(client.environment)
    except InstallError as problem:
        result.problem = f"it cannot be installed: {problem}"
        return result
    for transport, mode in client.visits:
        work = fresh_folder(f"{client.slug}-{transport}{mode and '-'}{mode}")
        result.visits.append(await tour(client, home, transport, mode, work))
    return result


async def tour(client: ThirdPartyClient, home: Path, transport: str, mode: str, work: Path) -> Visit:
    """Run the tour of a client once; its files are written to the folder `work`."""
    options = [word for tool in client.without for word in ("--without", tool)]
    if transport == "stdio":
        return await _drive(client, home, Visit(transport, mode), work, [*SERVER, *options])
    log = work / "server.log"
    async with http_server(log, *options) as address:
        path = "/sse" if transport == "sse" else "/mcp"
        visit = await _drive(client, home, Visit(transport, mode), work, [address + path])
    visit.checks["the log of our server"] = unexpected_errors(log)
    return visit


async def _drive(client: ThirdPartyClient, home: Path, visit: Visit, work: Path, target: list[str]) -> Visit:
    written, log = work / "result.json", work / "client.log"
    command = [*_program(client, home), visit.transport, visit.mode, str(written), *target]
    env = {**environment(work / "home", home / "bin", home / "node_modules" / ".bin"), "COMPAT_HOME": str(home)}
    env["PYTHONPATH"] = str(DRIVERS)
    problem = await run(command, client.seconds, log, cwd=work, env=env)
    if written.exists():
        seen = json.loads(written.read_text())
        visit.revision, visit.checks = seen["revision"], seen["checks"]
        visit.checks["exit"] = problem
    else:
        visit.checks["connect"] = f"{problem or 'it wrote no result'}: {tail(log)}"
    return visit


def _program(client: ThirdPartyClient, home: Path) -> list[str]:
    """The command of a driver: it runs in the environment of the client, or with ours if the client is a program."""
    driver = str(DRIVERS / client.driver)
    if client.driver.endswith(".mjs"):
        # Node looks for packages in the folders above a program, so the program is copied there.
        near = home / "drivers"
        shutil.copytree(DRIVERS / "node", near, dirs_exist_ok=True)
        shutil.copy(DRIVERS / "calls.json", near)
        return [str(home / "bin" / "node"), "--no-warnings", str(near / Path(client.driver).name)]
    if client.driver.startswith("programs/"):
        return [sys.executable, driver]
    return [str(home / "bin" / "python"), "-W", "ignore", driver]


async def visit_server(server: ThirdPartyServer) -> Result:
    """Install a server, and meet it with our client in a process of its own."""
    result = Result("servers", server.slug)
    try:
        home = await install(server.environment)
    except InstallError as problem:
        result.problem = f"it cannot be installed: {problem}"
        return result
    work = fresh_folder(server.slug)
    fill(work)
    written, log = work / "result.json", work / "client.log"
    words = {"work": str(work), "port": str(free_port()), "drivers": str(DRIVERS)}
    task = {
        "command": [_found(home, server.command[0]), *(filled(word, words) for word in server.command[1:])],
        "url": filled(server.url, words),
        "headers": server.headers,
        "env": {name: filled(value, words) for name, value in server.env.items()},
        "calls": [[call.tool, filled(call.arguments, words), call.fails] for call in server.calls],
        "work": str(work),
    }
    (work / "task.json").write_text(json.dumps(task))
    env = environment(work / "home", home / "bin", home / "node_modules" / ".bin") | QUIET
    command = [sys.executable, "-m", "compat.meet", str(work / "task.json"), str(written)]
    problem = await run(command, server.seconds, log, cwd=work, env=env | {"PYTHONPATH": str(ROOT)})
    visit = Visit("http" if server.url else "stdio")
    if written.exists():
        seen = json.loads(written.read_text())
        visit.revision, visit.checks, visit.facts = seen["revision"], seen["checks"], seen["facts"]
    else:
        visit.checks["connect"] = f"{problem or 'no result was written'}: {tail(log)}"
    shown = log.read_text(errors="replace")
    visit.facts["stderr lines"] = len(shown.splitlines())
    if visit.checks.get("connect") == "":
        refusals = [line for line in shown.splitlines() if "server/discover" in line]
        visit.checks["no noise of the negotiation"] = refusals[0][:200] if refusals else ""
    result.visits.append(visit)
    return result


def fresh_folder(name: str) -> Path:
    """An empty folder for one visit."""
    work = RESULTS / "work" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def fill(work: Path) -> None:
    """Put a few files and a git repository into a folder, for servers to work with."""
    (work / "page.html").write_text("<h1>Compatibility</h1><p>A page.</p>")
    (work / "papers").mkdir()
    repository = work / "repository"
    repository.mkdir()
    (repository / "README.md").write_text("# A repository\n")
    author = ("-c", "user.name=compat", "-c", "user.email=compat@localhost")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *command], cwd=repository, check=True, env={**os.environ, "HOME": str(work)})


def filled(value: Any, words: dict[str, str]) -> Any:
    """A value in which `{work}` and the like are replaced, in all texts that it has."""
    if isinstance(value, str):
        for name, text in words.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {name: filled(part, words) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, words) for part in value]
    return value


def tail(log: Path) -> str:
    """The last lines of a log, in one."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " / ".join(line.strip() for line in lines[-4:])[-600:]


def _found(home: Path, program: str) -> str:
    """The path of a program of an environment."""
    for folder in (home / "bin", home / "node_modules" / ".bin"):
        if (folder / program).exists():
            return str(folder / program)
    return program
