"""The client of the official Python SDK, version 2; the mode is `auto` or `legacy`."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as wire
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from tour import ClientAdapter, run

warnings.simplefilter("ignore")


class TwoX(ClientAdapter):
    elicits = samples = has_roots = True

    def __init__(self) -> None:
        self.client: Any = None
        self.logs: list[Any] = []
        self.methods: list[str] = []
        self.heard = asyncio.Event()

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def refreshed_tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools(cache_mode="refresh")).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.client.call_tool(name, arguments)

    @property
    def modern(self) -> bool:
        return self.client.session.initialize_result is None

    def templates(self) -> Any:
        return self.client.list_resource_templates()

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        return self.client.complete(wire.PromptReference(name=prompt), {"name": argument, "value": value})

    def complete_template(self, template: str, argument: str, value: str) -> Any:
        reference = wire.ResourceTemplateReference(uri=template)
        return self.client.complete(reference, {"name": argument, "value": value})

    async def progress(self, name: str, arguments: dict[str, Any]) -> list[float]:
        steps: list[float] = []

        async def heard(progress: float, *_: Any) -> None:
            steps.append(progress)

        await self.client.call_tool(name, arguments, None, heard)
        return steps

    async def logged(self, tool: str) -> Any:
        if not self.modern:
            await self.client.set_logging_level("info")
        await self.call(tool, {})
        while not self.logs:
            await asyncio.sleep(0.01)
        return self.logs

    async def cancel(self, name: str, arguments: dict[str, Any]) -> None:
        running = asyncio.Event()

        async def started(*_: Any) -> None:
            running.set()

        call = asyncio.create_task(self.client.call_tool(name, arguments, None, started))
        await running.wait()
        call.cancel()
        await asyncio.wait([call])

    async def list_changed(self) -> None:
        if not self.modern:
            await self.call("grow", {"name": "a"})
            for kind in ("tools", "resources", "prompts"):
                await self.until_heard(f"notifications/{kind}/list_changed")
            return
        wanted = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        kinds: set[str] = set()
        async with self.client.listen(**wanted) as events:
            await self.call("grow", {"name": "a"})
            async for event in events:
                kinds.add(type(event).__name__)
                if len(kinds) == len(wanted):
                    return

    async def updated(self, uri: str) -> None:
        if not self.modern:
            await self.client.subscribe_resource(uri)
            await self.call("grow", {"name": "c"})
            await self.until_heard("notifications/resources/updated")
            return
        async with self.client.listen(resource_subscriptions=[uri]) as events:
            await self.call("grow", {"name": "c"})
            async for event in events:
                if str(event.uri) == uri:
                    return

    async def until_heard(self, method: str) -> None:
        while method not in self.methods:
            self.heard.clear()
            await self.heard.wait()

    async def message(self, incoming: Any) -> None:
        self.methods.append(getattr(incoming, "method", ""))
        self.heard.set()

    async def log(self, params: Any) -> None:
        self.logs.append(params)


class Handshake(TwoX):
    """Revisions with a handshake have a ping."""

    async def ping(self) -> None:
        await self.client.send_ping()


async def sample(context: Any, params: Any) -> Any:
    text = wire.TextContent(type="text", text="green tea")
    return wire.CreateMessageResult(role="assistant", content=text, model="tea-1", stop_reason="endTurn")


async def roots(context: Any) -> Any:
    return wire.ListRootsResult(roots=[wire.Root(uri="file:///compat")])  # type: ignore[arg-type]


async def elicit(context: Any, params: Any) -> Any:
    return wire.ElicitResult(action="accept", content={"guests": 2})


def target_of(kind: str, target: list[str]) -> Any:
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    return sse_client(target[0]) if kind == "sse" else target[0]


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[TwoX]:
    seen = Handshake() if mode == "legacy" or kind == "sse" else TwoX()
    client = Client(
        target_of(kind, target),
        mode="legacy" if kind == "sse" else mode,
        message_handler=seen.message,
        logging_callback=seen.log,
        log_level="info",
        sampling_callback=sample,
        list_roots_callback=roots,
        elicitation_callback=elicit,
    )
    async with client as seen.client:
        yield seen


if __name__ == "__main__":
    run(connect)
