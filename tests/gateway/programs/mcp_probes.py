"""The client of the official Python SDK, version 2, behind the gateway: `mcp_probes.py MODE URL|COMMAND...`."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
import contextlib
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import mcp.types as wire
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from probes import FORM_ANSWER, ROOT, SAMPLED, Ears, Refused, run_program

warnings.simplefilter("ignore")


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


LISTS = {
    "tools": ("list_tools", "tools", "name"),
    "prompts": ("list_prompts", "prompts", "name"),
    "resources": ("list_resources", "resources", "uri"),
    "templates": ("list_resource_templates", "resourceTemplates", "uriTemplate"),
}
CHANGES = {"ToolsListChanged": "tools", "PromptsListChanged": "prompts", "ResourcesListChanged": "resources"}


class Adapter:
    error = MCPError

    def __init__(self, client: Any, ears: Ears) -> None:
        self.client, self.ears = client, ears
        self.revision = client.protocol_version
        self.modern = client.session.initialize_result is None
        self.capabilities = dump(client.server_capabilities)

    def error_of(self, problem: Any) -> Any:
        return problem.error.code, problem.error.message

    async def names(self, kind: str) -> list[str]:
        method, field, item = LISTS[kind]
        names: list[str] = []
        cursor = None
        while True:
            page = dump(await getattr(self.client, method)(cursor=cursor))
            names += [one[item] for one in page[field]]
            cursor = page.get("nextCursor")
            if cursor is None:
                return names

    async def call(self, name: str, arguments: Any, progress: Any) -> Any:
        async def report(done: float, total: float | None, message: str | None) -> None:
            progress(done, total)

        return dump(await self.client.call_tool(name, arguments, None, report if progress else None))

    async def read(self, uri: str) -> Any:
        return dump(await self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: Any) -> Any:
        return dump(await self.client.get_prompt(name, arguments))

    async def complete(self, prompt: str, argument: str, value: str) -> Any:
        result = await self.client.complete(wire.PromptReference(name=prompt), {"name": argument, "value": value})
        return result.completion.values

    async def want_logs(self, level: Any) -> None:
        """On the newest revision each request says so."""
        if not self.modern:
            await self.client.set_logging_level(level)

    async def give_up(self, name: str, arguments: Any) -> None:
        with anyio.CancelScope() as scope:
            await self.call(name, arguments, lambda *_: scope.cancel())

    @contextlib.asynccontextmanager
    async def watching(self, uris: list[str], kinds: list[str]) -> AsyncGenerator[None]:
        if not self.modern:
            for uri in uris:
                await self.client.subscribe_resource(uri)
            yield
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
            return
        wanted = {f"{kind}_list_changed": True for kind in kinds}
        async with self.client.listen(resource_subscriptions=uris, **wanted) as events:
            if uris and not events.honored.resource_subscriptions:
                raise Refused("the subscription was acknowledged without the resource")

            async def listen() -> None:
                async for event in events:
                    kind = CHANGES.get(type(event).__name__)
                    self.ears.change(kind or "resource", None if kind else str(event.uri))

            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                yield
                group.cancel_scope.cancel()

    async def task(self, name: str, arguments: Any) -> None:
        """This client has no tasks."""


def target(words: list[str]) -> Any:
    if not words[0].startswith("http"):
        return StdioServerParameters(command=words[0], args=words[1:])
    return sse_client(words[0]) if words[0].endswith("/sse") else words[0]


@contextlib.asynccontextmanager
async def connect(arguments: list[str], ears: Ears) -> AsyncGenerator[Adapter]:
    async def heard(message: Any) -> None:
        ears.notified(getattr(message, "method", ""), getattr(getattr(message, "params", None), "uri", None))

    async def elicit(context: Any, params: Any) -> Any:
        ears.asked.append(params.message)
        content = FORM_ANSWER if getattr(params, "mode", "form") != "url" else None
        return wire.ElicitResult(action="accept", content=content)

    async def sample(context: Any, params: Any) -> Any:
        ears.asked.append("sampling")
        content = wire.TextContent(type="text", text=SAMPLED)
        return wire.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(context: Any) -> Any:
        ears.asked.append("roots")
        return wire.ListRootsResult(roots=[wire.Root(uri=ROOT, name="srv")])

    async def log(params: Any) -> None:
        ears.log(params.data)

    mode, *words = arguments
    hearing = {"message_handler": heard, "logging_callback": log, "log_level": "debug"}
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with Client(target(words), mode=mode, **hearing, **answers) as client:
        yield Adapter(client, ears)


if __name__ == "__main__":
    run_program(connect)
