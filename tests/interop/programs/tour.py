"""What a client of another implementation does with our server; shared by the programs that drive one.

The program gives an adapter with the methods used here. What comes back is plain JSON: `dump` shows only
the fields that were on the wire.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

CALLS: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2},
    "point": {"x": 1},
    "numbers": {"count": 3},
    "nothing": {},
    "blocks": {},
    "fail": {},
    "crash": {},
    "whoami": {},
    "colour": {"name": "red", "shade": "dark"},
    "add wrongly": {"a": "one"},
    "missing": {},
}
READS = ("note://static", "note://bytes", "note://soup/4", "note://gone")
PROMPTS = {"review": {"code": "x = 1"}, "chat": {}, "review incompletely": {}, "missing": {}}
LISTS = {
    "tools": "tools",
    "resources": "resources",
    "resource_templates": "resourceTemplates",
    "prompts": "prompts",
}


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Ears:
    """Hears that the three lists have changed, that a resource has, and what is logged."""

    def __init__(self) -> None:
        self.methods: set[str] = set()
        self.full = anyio.Event()
        self.updated = anyio.Event()
        self.logs: list[Any] = []
        self.told = anyio.Event()

    def hear(self, method: str) -> None:
        if method == "notifications/resources/updated":
            self.updated.set()
        if method.endswith("/list_changed"):
            self.methods.add(method)
            if len(self.methods) == 3:
                self.full.set()

    async def log(self, params: Any) -> None:
        self.logs.append([params.level, params.data])
        self.told.set()


class Tour:
    """One visit; the adapter has `about`, `list`, `call`, `read`, `prompt`, `complete`, `changes`, `logs` and `update`.

    Its `error` is the type of its errors; `cancels` says whether it tells the server that it gives up a call.
    """

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    async def outcome(self, work: Awaitable[Any]) -> Any:
        """The result, or the code of the error."""
        try:
            return dump(await work)
        except self.adapter.error as problem:
            return {"code": problem.error.code, "data": problem.error.data}

    async def pages(self, method: str, field: str) -> Any:
        """How many items each page of a list had, and all items."""
        sizes: list[int] = []
        items: list[Any] = []
        cursor = None
        while True:
            result = dump(await self.adapter.list(method, cursor))
            sizes.append(len(result[field]))
            items += result[field]
            cursor = result.get("nextCursor")
            if cursor is None:
                return {"sizes": sizes, "items": items}

    async def progress(self) -> Any:
        seen: list[Any] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            seen.append([progress, total, message])

        result = await self.adapter.call("count", {"steps": 3}, progress=heard)
        return {"seen": seen, "result": dump(result)}

    async def give_up(self) -> Any:
        """Let one call time out, give up the caller of another once it runs, and see what still runs."""
        timed_out = await self.outcome(self.adapter.call("hang", {"name": "timeout"}, timeout=0.3))
        with anyio.CancelScope() as scope:

            async def started(*_: Any) -> None:
                scope.cancel()

            await self.adapter.call("hang", {"name": "caller"}, progress=started)
        return {"timed out": timed_out, "left": await self.until(lambda seen: not seen["running"])}

    async def until(self, done: Callable[[Any], bool]) -> Any:
        """Ask which calls hang until the answer is as it should be, or the time is up."""
        with anyio.move_on_after(20):
            while True:
                seen = json.loads((await self.adapter.call("hung", {})).content[0].text)
                if done(seen):
                    return seen
                await anyio.sleep(0.01)
        return seen

    async def at_once(self) -> list[str]:
        results = [""] * 20

        async def one(number: int) -> None:
            result = await self.adapter.call("add", {"a": number, "b": number})
            results[number] = result.content[0].text

        async with anyio.create_task_group() as group:
            for number in range(len(results)):
                group.start_soon(one, number)
        return results

    async def run(self) -> dict[str, Any]:
        adapter, seen = self.adapter, dict[str, Any](self.adapter.about)
        for method, field in LISTS.items():
            seen[method] = await self.pages(method, field)
        seen["bad cursor"] = await self.outcome(adapter.list("tools", "forged"))
        for name, arguments in CALLS.items():
            seen[f"call {name}"] = await self.outcome(adapter.call(name.partition(" ")[0], arguments))
        for uri in READS:
            seen[f"read {uri}"] = await self.outcome(adapter.read(uri))
        for name, arguments in PROMPTS.items():
            seen[f"prompt {name}"] = await self.outcome(adapter.prompt(name.partition(" ")[0], arguments))
        seen["progress"] = await self.progress()
        if adapter.cancels:
            seen["give up"] = await self.give_up()
        seen["at once"] = await self.at_once()
        seen["completion"] = dump(await adapter.complete("review", "language", "p"))["completion"]["values"]
        with anyio.fail_after(20):
            seen["logs"] = await adapter.logs()
            seen["update"] = await adapter.update("note://static")
            seen["changes"] = await adapter.changes()
        seen["grown"] = [tool["name"] for tool in (await self.pages("tools", "tools"))["items"]][-1]
        return seen
