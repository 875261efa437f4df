"""The tour of compat/server.py: a list of checks, shared by the drivers of all Python clients.

A driver gives an adapter of one client. A method that the adapter does not define is a feature that the client does
not have, and its checks are left out. The result is a JSON file, `{"revision": ..., "checks": {name: error}}`, where
the error is empty for a check that passed.

    python DRIVER TRANSPORT MODE RESULT TARGET...       a target is a command, or a URL
"""

import asyncio
import base64
import contextlib
import dataclasses
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

CHECK_SECONDS = 20
LARGE = 300_000
# The tools that there are, the calls with parts of their results, the calls that fail, and those that ask the client.
TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("calls.json").read_text())
TOOLS = frozenset(TABLE["tools"])
# A client without roots may also declare them, and give none; one without elicitation may decline.
NO_ANSWER = frozenset({"show_roots", "reserve"})


def shown(value: Any) -> str:
    """Any value of a client library as text in which the parts of a result can be found."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any, depth: int = 0) -> Any:
    if depth > 12 or value is None or isinstance(value, str | int | float | bool):
        return value if depth <= 12 else repr(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part, depth + 1) for part in value]
    if hasattr(value, "model_dump"):
        with contextlib.suppress(Exception):
            return _plain(value.model_dump(), depth + 1)
    if hasattr(value, "__struct_fields__"):
        return {name: _plain(getattr(value, name), depth + 1) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name), depth + 1) for item in dataclasses.fields(value)}
    if hasattr(value, "__dict__") and vars(value):
        return {name: _plain(part, depth + 1) for name, part in vars(value).items() if not name.startswith("__")}
    return repr(value)


class Adapter:
    """One client; a driver overrides what its client has."""

    elicits = False
    samples = False
    has_roots = False
    error_results = True
    """Whether a failed call is an exception or a result with a mark, and not only a text."""

    async def tools(self) -> list[str]:
        """The names of the tools."""
        raise NotImplementedError

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        raise NotImplementedError

    def is_error(self, result: Any) -> bool:
        """Whether a result is marked as an error."""
        return bool(getattr(result, "isError", False) or getattr(result, "is_error", False))

    def shown(self, result: Any) -> str:
        """The text in which the parts of a result are looked for."""
        return shown(result)


class ClientAdapter(Adapter):
    """An adapter of a client whose methods have the names of the official SDK's."""

    client: Any

    def resources(self) -> Any:
        return self.client.list_resources()

    def read_text(self, uri: str) -> Any:
        return self.client.read_resource(uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.client.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.client.get_prompt(name, arguments)

    prompt_with_resource = prompt_missing = prompt


def has(adapter: Adapter, name: str) -> bool:
    """Whether a client has an optional feature."""
    return callable(getattr(adapter, name, None))


class Tour:
    """Runs the checks that an adapter allows, and keeps their errors."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.checks: dict[str, str] = {}
        self.revision: str | None = None

    async def check(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run one check with a time limit; an exception is its error."""
        try:
            await asyncio.wait_for(work(), CHECK_SECONDS)
            self.checks[name] = ""
        except Exception as problem:
            self.checks[name] = one_line(problem)
        print(f"{name}: {self.checks[name] or 'ok'}", file=sys.stderr, flush=True)

    async def run(self) -> None:
        """Run all checks."""
        adapter = self.adapter
        await self.check("tools are listed", self.tools)
        for row in TABLE["calls"]:
            await self.check(f"call: {row['check']}", partial(self.call, row["tool"], row["arguments"], row["parts"]))
        await self.check("call: a large result", partial(self.call, "large", {"size": LARGE}, ["x" * LARGE]))
        for row in TABLE["failures"]:
            failure = partial(self.failure, row["tool"], row["arguments"], row["part"])
            await self.check(f"failure: {row['check']}", failure)
        for row in TABLE["questions"]:
            if getattr(adapter, row["feature"]):
                asked = partial(self.call, row["tool"], row["arguments"], row["parts"])
                await self.check(f"question: {row['check']}", asked)
            else:
                refused = partial(self.failure, row["tool"], row["arguments"], "")
                await self.check(f"question: {row['check']} is refused", refused)
        await self.check("calls at once", self.at_once)
        for name, check in OPTIONAL.items():
            if has(adapter, name):
                await self.check(check, lambda n=name: OPTIONAL_CHECKS[n](adapter))
        await self.check("the revision", self.status)
        await self.check("a tool added at run time", self.grown)

    async def tools(self) -> None:
        missing = TOOLS - set(await self.adapter.tools())
        assert not missing, f"tools are missing: {sorted(missing)}"

    async def call(self, tool: str, arguments: dict[str, Any], parts: list[str]) -> None:
        result = await self.adapter.call(tool, arguments)
        text = self.adapter.shown(result)
        assert not self.adapter.is_error(result), f"an error: {text[:300]}"
        missing = [part[:40] for part in parts if part not in text]
        assert not missing, f"{missing} not in {text[:300]}"

    async def failure(self, tool: str, arguments: dict[str, Any], part: str) -> None:
        try:
            result = await self.adapter.call(tool, arguments)
        except (asyncio.CancelledError, TimeoutError):
            raise
        except Exception as problem:
            text = one_line(problem)
        else:
            text = self.adapter.shown(result)
            told = self.adapter.is_error(result) or not self.adapter.error_results or tool in NO_ANSWER
            assert told, f"not told as an error: {text[:300]}"
        assert part in text, f"{part!r} not in {text[:300]}"

    async def at_once(self) -> None:
        calls = [self.adapter.call("greet", {"name": f"no. {number}"}) for number in range(10)]
        for number, result in enumerate(await asyncio.gather(*calls)):
            assert f"no. {number}!" in self.adapter.shown(result), f"answer {number} is another's"

    async def grown(self) -> None:
        await self.adapter.call("grow", {"name": "b"})
        if has(self.adapter, "refreshed_tools"):
            names = await self.adapter.refreshed_tools()  # type: ignore[attr-defined]
            assert "grown_b" in names, f"not listed: {sorted(set(names) - TOOLS)}"

    async def status(self) -> None:
        text = self.adapter.shown(await self.adapter.call("status", {}))
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"):
            if revision in text:
                self.revision = revision
        assert self.revision, f"no revision in {text[:300]}"


async def until_cancelled(adapter: Adapter, name: str) -> None:
    """Wait until the server has cancelled a call."""
    end = time.monotonic() + 10
    while name not in (text := adapter.shown(await adapter.call("status", {}))).partition("cancelled")[2]:
        assert time.monotonic() < end, f"it still runs: {text[:300]}"
        await asyncio.sleep(0.05)


async def _cancel(adapter: Any) -> None:
    await adapter.cancel("wait", {"name": "the cancelled call"})
    await until_cancelled(adapter, "the cancelled call")


async def _contains(work: Awaitable[Any], *parts: str) -> None:
    text = shown(await work)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text[:400]}"


async def _error(work: Awaitable[Any]) -> None:
    try:
        result = await work
    except asyncio.CancelledError:
        raise
    except Exception:
        return
    raise AssertionError(f"no error: {shown(result)[:300]}")


async def _progress(adapter: Any) -> None:
    seen = await adapter.progress("count", {"steps": 3})
    assert [float(step) for step in seen] == [1.0, 2.0, 3.0], f"progress {seen}"


async def _log(adapter: Any) -> None:
    text = shown(await adapter.logged("talk"))
    assert "a log message" in text, f"no log message: {text[:300]}"


# The checks of features that not every client has, by the method of the adapter.
OPTIONAL = {
    "ping": "ping",
    "resources": "resources are listed",
    "templates": "resource templates are listed",
    "read_text": "a text resource",
    "read_bytes": "a resource of bytes",
    "read_template": "a resource of a template",
    "read_missing": "a missing resource is an error",
    "prompts": "prompts are listed",
    "prompt": "a prompt",
    "prompt_with_resource": "a prompt with a resource",
    "prompt_missing": "a missing prompt is an error",
    "complete": "completion",
    "complete_template": "completion of a template",
    "progress": "progress arrives",
    "logged": "log messages arrive",
    "cancel": "a cancelled call stops",
    "list_changed": "a changed list is told",
    "updated": "a changed resource is told",
    "data": "data is unwrapped",
    "schemas": "schemas for a model",
    "recursive_schema": "a recursive schema for a model",
}
OPTIONAL_CHECKS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "ping": lambda adapter: adapter.ping(),
    "resources": lambda adapter: _contains(adapter.resources(), "note://welcome", "note://bytes", "note://settings"),
    "templates": lambda adapter: _contains(adapter.templates(), "note://{topic}/{page}", "file:///{path*}"),
    "read_text": lambda adapter: _contains(adapter.read_text("note://welcome"), "# Welcome"),
    "read_bytes": lambda adapter: _contains(adapter.read_bytes("note://bytes"), "AAEC"),
    "read_template": lambda adapter: _contains(adapter.read_template("note://soup/4"), "soup, page 4"),
    "read_missing": lambda adapter: _error(adapter.read_missing("note://gone")),
    "prompts": lambda adapter: _contains(adapter.prompts(), "review", "chat", "language"),
    "prompt": lambda adapter: _contains(adapter.prompt("review", {"code": "x = 1"}), "Review this python: x = 1"),
    "prompt_with_resource": lambda adapter: _contains(adapter.prompt_with_resource("chat"), "# Welcome", "Noted."),
    "prompt_missing": lambda adapter: _error(adapter.prompt_missing("gone")),
    "complete": lambda adapter: _contains(adapter.complete("review", "language", "p"), "pascal", "perl", "python"),
    "complete_template": lambda adapter: _contains(
        adapter.complete_template("note://{topic}/{page}", "topic", "so"), "soup", "soap"
    ),
    "progress": _progress,
    "logged": _log,
    "cancel": _cancel,
    "list_changed": lambda adapter: adapter.list_changed(),
    "updated": lambda adapter: adapter.updated("note://welcome"),
    "data": lambda adapter: adapter.data(),
    "schemas": lambda adapter: adapter.schemas(),
    "recursive_schema": lambda adapter: adapter.recursive_schema(),
}


def one_line(problem: BaseException) -> str:
    """An exception with the exceptions of its group and its cause in one line."""
    text = f"{type(problem).__name__}: {problem}"
    parts = getattr(problem, "exceptions", ()) or ((problem.__cause__,) if problem.__cause__ else ())
    return " ".join(" | ".join([text, *map(one_line, parts)]).split())[:1500]


Connect = Callable[[str, str, list[str]], Any]
"""A function of transport, mode and target that gives an async context manager of an adapter."""


@asynccontextmanager
async def _visit(connect: Connect, arguments: list[str]) -> AsyncIterator[Tour]:
    transport, mode, _, *target = arguments
    async with connect(transport, mode, target) as adapter:
        yield Tour(adapter)


async def _main(connect: Connect, arguments: list[str]) -> dict[str, Any]:
    tour: Tour | None = None
    problem = ""
    try:
        async with _visit(connect, arguments) as tour:
            await tour.run()
            # The SDK 1.x fails if it closes while it reads a notification, here of the last change.
            await asyncio.sleep(0.3)
    except BaseException as failed:
        traceback.print_exc()
        problem = one_line(failed)
    if tour is None:
        return {"revision": None, "checks": {"connect": problem}}
    return {"revision": tour.revision, "checks": {"connect": "", **tour.checks, "close": problem}}


def run(connect: Connect) -> None:
    """Run the tour of one client, and write its result."""
    arguments = sys.argv[1:]
    seen = asyncio.run(_main(connect, arguments))
    Path(arguments[2]).write_text(json.dumps(seen))
