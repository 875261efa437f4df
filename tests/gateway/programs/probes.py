"""What a client does with each server behind the gateway; shared by the programs that drive a client in Python.

A program gives an adapter to `run_program`, which reads the plan of `tests.gateway.matrix` from stdin and prints what
was seen as JSON: for each server and feature a value, or the error that the client reported.
"""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 20.0
"""Seconds that one feature of one server may take."""

FORM_ANSWER = {"name": "Ann"}
SAMPLED = "Hi"
ROOT = "file:///srv"


class Refused(Exception):
    """The client was told that something is not to be had."""


class Ears:
    """What the client has heard: log messages, notifications of changes, and questions."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.asked: list[str] = []
        self.changes: list[tuple[str, str | None]] = []
        self.news = asyncio.Event()
        self.problem: BaseException | None = None

    def fail(self, problem: BaseException) -> None:
        """What is waited for will not be heard."""
        self.problem = problem
        self.news.set()

    def log(self, data: Any) -> None:
        self.logs.append(data if isinstance(data, str) else json.dumps(data))
        self.news.set()

    def change(self, kind: str, uri: str | None = None) -> None:
        self.changes.append((kind, uri))
        self.news.set()

    def notified(self, method: str, uri: Any = None) -> None:
        """A notification of the handshake era."""
        if method == "notifications/resources/updated":
            self.change("resource", str(uri))
        elif method.endswith("/list_changed"):
            self.change(method.split("/")[1])

    async def until(self, heard: Callable[[], Any]) -> Any:
        """What was heard, as soon as it was."""
        while not (found := heard()):
            if self.problem is not None:
                raise self.problem
            self.news.clear()
            await self.news.wait()
        return found


def block(item: dict[str, Any]) -> str:
    """One block of content in a few words."""
    kind = item["type"]
    if kind == "text":
        return f"text {item['text']}"
    if kind == "resource":
        return f"resource {contents(item['resource'])}"
    return f"{kind} {item['uri'] if kind == 'resource_link' else item['mimeType']}"


def contents(item: dict[str, Any]) -> str:
    """The contents of a resource in a few words."""
    return f"{item['uri']} {item['text'] if 'text' in item else item['blob']}"


class Probes:
    """The probes, one method for each feature."""

    def __init__(self, adapter: Any, key: str, name: str) -> None:
        self.adapter = adapter
        self.ears: Ears = adapter.ears
        self.key = key
        self.name = name
        self.listed: dict[str, list[str]] = {}

    def tool(self, name: str) -> str:
        return f"{self.key}__{name}"

    async def shown(self, kind: str, own: str) -> str:
        """The URI, or template, under which the gateway lists one of the server."""
        if kind not in self.listed:
            self.listed[kind] = await self.adapter.names(kind)
        for uri in (f"gateway:{self.key}:{own}", own):
            if uri in self.listed[kind]:
                return uri
        raise Refused(f"{own} is not listed")

    async def call(self, given: list[Any], progress: Any = None) -> dict[str, Any]:
        result = await self.adapter.call(self.tool(given[0]), given[1], progress)
        seen = {"blocks": [block(item) for item in result["content"]], "error": bool(result.get("isError"))}
        if "structuredContent" in result:
            seen["structured"] = result["structuredContent"]
        return seen

    async def tools(self, given: list[Any]) -> Any:
        names = await self.adapter.names("tools")
        own = sorted(name.removeprefix(f"{self.key}__") for name in names if name.startswith(f"{self.key}__"))
        return {"listed": own, **await self.call(given)}

    async def structured_results(self, given: list[Any]) -> Any:
        return await self.call(given)

    async def content_types(self, given: list[list[Any]]) -> Any:
        """All blocks, and what the links lead to."""
        seen: list[str] = []
        for one in given:
            seen += (await self.call(one))["blocks"]
        links = [item.removeprefix("resource_link ") for item in seen if item.startswith("resource_link ")]
        read = [contents(item) for uri in links for item in (await self.adapter.read(uri))["contents"]]
        return {"blocks": seen, "behind links": read}

    async def resources(self, given: list[str]) -> Any:
        seen: list[str] = []
        for own in given:
            result = await self.adapter.read(await self.shown("resources", own))
            seen += [contents(item) for item in result["contents"]]
        return seen

    async def templates(self, given: list[str]) -> Any:
        template, own = given
        shown = await self.shown("templates", template)
        result = await self.adapter.read(shown.removesuffix(template) + own)
        return [contents(item) for item in result["contents"]]

    async def subscriptions(self, given: dict[str, Any]) -> Any:
        uri = await self.shown("resources", given["uri"])
        self.ears.problem = None
        self.ears.changes.clear()
        async with self.adapter.watching([uri], []):
            await self.call(given["touch"])
            await self.ears.until(lambda: ("resource", uri) in self.ears.changes)
        if given.get("after"):
            await self.call(given["after"])
        return "heard"

    async def prompts(self, given: list[Any]) -> Any:
        names = await self.adapter.names("prompts")
        result = await self.adapter.prompt(self.tool(given[0]), given[1])
        texts = [block(message["content"]) for message in result["messages"]]
        return {"listed": self.tool(given[0]) in names, "messages": texts}

    async def completion(self, given: list[str]) -> Any:
        prompt, argument, value = given
        return await self.adapter.complete(self.tool(prompt), argument, value)

    async def progress(self, given: list[Any]) -> Any:
        seen: list[Any] = []
        await self.call(given, lambda done, total: seen.append([done, total]))
        return seen

    async def cancellation(self, given: dict[str, Any]) -> Any:
        await self.adapter.give_up(self.tool(given["tool"][0]), given["tool"][1])
        if given["ask"] is None:
            return "given up"
        while True:
            seen = await self.call(given["ask"])
            if self.name in seen["blocks"][0]:
                return "given up"
            await asyncio.sleep(0.02)

    async def logging(self, given: dict[str, Any]) -> Any:
        await self.adapter.want_logs("debug")
        self.ears.logs.clear()
        while given.get("stopped", "\0") in (await self.call(given["tool"]))["blocks"][0]:
            pass
        await self.ears.until(lambda: [one for one in self.ears.logs if re.search(given["heard"], one)])
        if given.get("after"):
            await self.call(given["after"])
        return "heard"

    async def list_changes(self, given: dict[str, Any]) -> Any:
        kind = given["kind"]
        before = await self.adapter.names(kind)
        self.ears.problem = None
        self.ears.changes.clear()
        async with self.adapter.watching([], [kind]):
            await self.call(given["tool"])
            while True:
                # The list of another server may have changed at the same time.
                await self.ears.until(lambda: (kind, None) in self.ears.changes)
                self.ears.changes.clear()
                names = await self.adapter.names(kind)
                if new := [name for name in names if name not in before and given["new"] in name]:
                    return new

    async def elicitation_form(self, given: list[Any]) -> Any:
        return await self.asking(given)

    async def elicitation_URL(self, given: list[Any]) -> Any:  # noqa: N802
        return await self.asking(given)

    async def sampling(self, given: list[Any]) -> Any:
        return await self.asking(given)

    async def roots(self, given: list[Any]) -> Any:
        return await self.asking(given)

    async def asking(self, given: list[Any]) -> Any:
        self.ears.asked.clear()
        seen = await self.call(given)
        return {**seen, "asked": list(self.ears.asked)}

    async def tasks(self, given: list[Any]) -> Any:
        """As a task where the client has tasks, and as a plain call where it has none: then the gateway waits."""
        declared = self.adapter.capabilities
        if "tasks" in declared or "io.modelcontextprotocol/tasks" in (declared.get("extensions") or {}):
            seen = await self.adapter.task(self.tool(given[0]), given[1])
            if seen is not None:
                return {"error": False, **seen}
        return {"status": "plain", **await self.call(given)}

    async def errors(self, given: dict[str, Any]) -> Any:
        failed = await self.call(given["tool"])
        unknown = await self.code(self.adapter.call(self.tool("nothing"), {}, None))
        missing = await self.code(self.adapter.read(f"gateway:{self.key}:{given['missing']}"))
        return {"failed": failed, "unknown tool": unknown, "missing resource": missing}

    async def code(self, work: Awaitable[Any]) -> Any:
        try:
            return f"no error: {await work}"
        except self.adapter.error as problem:
            return self.adapter.error_of(problem)[0]


async def outcome(adapter: Any, work: Awaitable[Any]) -> dict[str, Any]:
    """What was seen, or why nothing was."""
    try:
        async with asyncio.timeout(PATIENCE):
            return {"value": await work}
    except TimeoutError:
        return {"silent": f"nothing within {PATIENCE:g} s"}
    except Refused as problem:
        return {"refused": str(problem)}
    except adapter.error as problem:
        code, message = adapter.error_of(problem)
        return {"refused": message, "code": code}


async def probe(adapter: Any, plan: dict[str, Any]) -> dict[str, Any]:
    """All features of all servers."""
    seen: dict[str, Any] = {"revision": adapter.revision, "servers": {}}
    for key, features in plan["servers"].items():
        probes = Probes(adapter, key, plan["name"])
        seen["servers"][key] = {}
        for feature, given in features.items():
            work = getattr(probes, feature.replace(" ", "_"))(given)
            seen["servers"][key][feature] = await outcome(adapter, work)
    return seen


def run_program(connect: Callable[[list[str], Ears], Any]) -> None:
    """`connect(arguments, ears)` is an async context manager for an adapter."""

    async def main() -> dict[str, Any]:
        async with connect(sys.argv[1:], Ears()) as adapter:
            return await probe(adapter, json.loads(sys.stdin.read()))

    print(json.dumps(asyncio.run(main())))
