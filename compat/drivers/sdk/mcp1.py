"""The client session of the official Python SDK, 1.2 to 1.30, which grew with its versions."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import mcp.types as wire
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from pydantic import AnyUrl, FileUrl
from tour import Adapter, run

ACCEPTED = frozenset(inspect.signature(ClientSession.__init__).parameters)
ROOTS = wire.ListRootsResult(roots=[wire.Root(uri=FileUrl("file:///compat"))])
CALL_OPTIONS = frozenset(inspect.signature(ClientSession.call_tool).parameters)


class Session(Adapter):
    samples = "sampling_callback" in ACCEPTED
    has_roots = True
    elicits = "elicitation_callback" in ACCEPTED

    def __init__(self) -> None:
        self.session: Any = None
        self.logs: list[Any] = []
        self.methods: list[str] = []
        self.heard = asyncio.Event()

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.session.call_tool(name, arguments)

    async def ping(self) -> None:
        await self.session.send_ping()

    def resources(self) -> Any:
        return self.session.list_resources()

    def read_text(self, uri: str) -> Any:
        return self.session.read_resource(AnyUrl(uri))

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.session.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.session.get_prompt(name, arguments)

    prompt_with_resource = prompt_missing = prompt

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        reference = wire.PromptReference(type="ref/prompt", name=prompt)
        return self.session.complete(reference, {"name": argument, "value": value})

    def complete_template(self, template: str, argument: str, value: str) -> Any:
        kind = getattr(wire, "ResourceTemplateReference", None) or wire.ResourceReference  # type: ignore[attr-defined]
        return self.session.complete(kind(type="ref/resource", uri=template), {"name": argument, "value": value})

    async def until_heard(self, method: str) -> None:
        while method not in self.methods:
            self.heard.clear()
            await self.heard.wait()

    def hear(self, method: str) -> None:
        self.methods.append(method)
        self.heard.set()


class Hearing(Session):
    """Versions that pass on notifications, log messages and progress."""

    async def templates(self) -> Any:
        return await self.session.list_resource_templates()

    async def list_changed(self) -> None:
        await self.call("grow", {"name": "a"})
        for kind in ("tools", "resources", "prompts"):
            await self.until_heard(f"notifications/{kind}/list_changed")

    async def updated(self, uri: str) -> None:
        await self.session.subscribe_resource(AnyUrl(uri))
        await self.call("grow", {"name": "c"})
        await self.until_heard("notifications/resources/updated")
        await self.session.unsubscribe_resource(AnyUrl(uri))

    async def logged(self, tool: str) -> Any:
        await self.session.set_logging_level("info")
        await self.call(tool, {})
        while not self.logs:
            await asyncio.sleep(0.01)
        return self.logs


class WithProgress(Hearing):
    async def progress(self, name: str, arguments: dict[str, Any]) -> list[float]:
        steps: list[float] = []

        async def heard(progress: float, *_: Any) -> None:
            steps.append(progress)

        await self.session.call_tool(name, arguments, timedelta(seconds=10), heard)
        return steps


def adapter() -> Session:
    if "progress_callback" in CALL_OPTIONS:
        return WithProgress()
    return Hearing() if "message_handler" in ACCEPTED else Session()


def callbacks(seen: Session) -> dict[str, Any]:
    async def log(params: Any) -> None:
        seen.logs.append(params)

    async def message(incoming: Any) -> None:
        seen.hear(getattr(getattr(incoming, "root", None), "method", ""))

    async def sample(context: Any, params: Any) -> Any:
        text = wire.TextContent(type="text", text="green tea")
        return wire.CreateMessageResult(role="assistant", content=text, model="tea-1", stopReason="endTurn")

    async def roots(context: Any) -> Any:
        return ROOTS

    async def elicit(context: Any, params: Any) -> Any:
        return wire.ElicitResult(action="accept", content={"guests": 2})  # type: ignore[attr-defined]

    offered = {
        "logging_callback": log,
        "message_handler": message,
        "sampling_callback": sample,
        "list_roots_callback": roots,
        "elicitation_callback": elicit,
    }
    return {name: callback for name, callback in offered.items() if name in ACCEPTED}


def transport(kind: str, target: list[str]) -> Any:
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    if kind == "sse":
        return sse_client(target[0])
    from mcp.client.streamable_http import streamablehttp_client

    return streamablehttp_client(target[0])


async def answer(session: Any) -> None:
    """Answer what arrives: the first versions leave that to the program, and read no further until then."""
    async for message in session.incoming_messages:
        if isinstance(getattr(getattr(message, "request", None), "root", None), wire.ListRootsRequest):
            await message.respond(wire.ClientResult(ROOTS))


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Session]:
    seen = adapter()
    async with transport(kind, target) as (read, write, *_):
        async with ClientSession(read, write, **callbacks(seen)) as seen.session:
            answering = (
                asyncio.create_task(answer(seen.session)) if hasattr(seen.session, "incoming_messages") else None
            )
            await seen.session.initialize()
            yield seen
            if answering:
                answering.cancel()


if __name__ == "__main__":
    run(connect)
