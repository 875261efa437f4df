"""Our client meets one server: `python -m compat.meet TASK RESULT`, both JSON files.

It lists everything, reads the first resource, gets the first prompt that needs no arguments, and makes the calls of the
table. What this process writes to stderr is what a user of the client would see.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dovetail import Client, ToolFailed
from dovetail.policy.definitions import define_all

CHECK_SECONDS = 60
CONNECT_SECONDS = 45


def on_elicit(question: Any) -> Any:
    """Fill in a form with the first value that its schema allows."""
    schema = getattr(question, "schema", None) or {}
    return {name: _example(field) for name, field in schema.get("properties", {}).items()}


def _example(field: dict[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    options = field.get("enum") or [one.get("const") for one in field.get("oneOf", [])]
    if options:
        return options[0]
    kinds = {"integer": field.get("minimum", 1), "number": field.get("minimum", 1), "boolean": True, "array": []}
    formats = {"email": "ada@example.org", "uri": "https://example.org", "date": "2026-01-01"}
    return kinds.get(field.get("type", ""), formats.get(field.get("format", ""), "text"))


def on_sample(request: Any) -> str:
    """Answer as a model would."""
    return "a model's answer"


class Meeting:
    """The checks of one server."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.checks: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        self.revision: str | None = None

    async def check(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run one check with a time limit; an exception is its error."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                value = await work()
        except Exception as problem:
            self.checks[name] = " ".join(f"{type(problem).__name__}: {problem}".split())[:800]
            return None
        self.checks[name] = ""
        return value

    async def run(self) -> None:
        """Connect, make all checks, and close."""
        began = time.monotonic()
        opened = False
        try:
            async with self.client() as client:
                opened = True
                self.checks["connect"] = ""
                self.revision = client.revision
                self.facts["start"] = round(time.monotonic() - began, 2)
                self.facts["server"] = f"{client.server.name} {client.server.version}" if client.server else None
                await self.visit(client)
                closing = time.monotonic()
            self.facts["close"] = round(time.monotonic() - closing, 2)
            self.checks["close"] = ""
        except Exception as problem:
            self.checks["close" if opened else "connect"] = " ".join(f"{type(problem).__name__}: {problem}".split())[
                :800
            ]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Our client, and before it the server's process if it is reached over HTTP."""
        options: dict[str, Any] = {"on_elicit": on_elicit, "on_sample": on_sample, "roots": [self.task["work"]]}
        env = {**os.environ, **self.task["env"]}
        env.pop("PYTHONPATH", None)
        if not self.task["url"]:
            client = Client(self.task["command"], env=env, cwd=self.task["work"], timeout=CONNECT_SECONDS, **options)
            async with client:
                yield client
            return
        with (Path(self.task["work"]) / "server.log").open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *self.task["command"],
                env=env,
                cwd=self.task["work"],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                await _listening(self.task["url"], process)
                async with Client(
                    self.task["url"], headers=self.task["headers"], timeout=CONNECT_SECONDS, **options
                ) as client:
                    yield client
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def visit(self, client: Client) -> None:
        """Make the checks."""
        tools = await self.check("tools are listed", client.tools)
        prompts = await self.check("prompts are listed", client.prompts)
        resources = await self.check("resources are listed", client.resources)
        templates = await self.check("resource templates are listed", client.resource_templates)
        lists = (tools, prompts, resources, templates)
        self.facts["lists"] = [None if items is None else len(items) for items in lists]
        declared = define_all([*(tools or []), *(prompts or []), *(templates or [])], client.instructions)
        self.facts["definitions"] = [[one.kind, one.name, one.content] for one in declared]
        if resources:
            await self.check("the first resource", lambda: client.read(resources[0].uri))
        plain = [one for one in prompts or [] if not any(part.required for part in one.arguments or [])]
        if plain:
            await self.check("the first prompt", lambda: client.prompt(plain[0].name))
        for number, (tool, arguments, fails) in enumerate(self.task["calls"], 1):
            await self.check(f"call {number}: {tool}", lambda t=tool, a=arguments, f=fails: _call(client, t, a, f))


async def _call(client: Client, tool: str, arguments: dict[str, Any], fails: bool) -> None:
    try:
        await client.call(tool, arguments)
    except ToolFailed:
        if not fails:
            raise
    else:
        assert not fails, "it was meant to fail, and did not"


async def _listening(url: str, process: asyncio.subprocess.Process) -> None:
    host, _, port = url.split("/")[2].partition(":")
    async with asyncio.timeout(CONNECT_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                if process.returncode is not None:
                    raise RuntimeError(f"the server ended with exit code {process.returncode}") from None
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


if __name__ == "__main__":
    meeting = Meeting(json.loads(Path(sys.argv[1]).read_text()))
    asyncio.run(meeting.run())
    seen = {"revision": meeting.revision, "checks": meeting.checks, "facts": meeting.facts}
    Path(sys.argv[2]).write_text(json.dumps(seen))
