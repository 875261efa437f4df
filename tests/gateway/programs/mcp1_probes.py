"""The client of the official Python SDK, version 1, behind the gateway: `mcp1_probes.py URL|COMMAND...`."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import mcp.types as wire
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from probes import FORM_ANSWER, ROOT, SAMPLED, Ears, run_program
from pydantic import AnyUrl


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


LISTS = {
    "tools": ("list_tools", "tools", "name"),
    "prompts": ("list_prompts", "prompts", "name"),
    "resources": ("list_resources", "resources", "uri"),
    "templates": ("list_resource_templates", "resourceTemplates", "uriTemplate"),
}


class Adapter:
    error = McpError

    def __init__(self, session: Any, greeting: Any, ears: Ears) -> None:
        self.session, self.ears = session, ears
        self.revision = greeting.protocolVersion
        self.capabilities = dump(greeting.capabilities)

    def error_of(self, problem: Any) -> Any:
        return problem.error.code, problem.error.message

    async def names(self, kind: str) -> list[str]:
        method, field, item = LISTS[kind]
        names: list[str] = []
        cursor = None
        while True:
            page = dump(await getattr(self.session, method)(cursor=cursor))
            names += [one[item] for one in page[field]]
            cursor = page.get("nextCursor")
            if cursor is None:
                return names

    async def call(self, name: str, arguments: Any, progress: Any) -> Any:
        async def report(done: float, total: float | None, message: str | None) -> None:
            progress(done, total)

        return dump(await self.session.call_tool(name, arguments, None, report if progress else None))

    async def read(self, uri: str) -> Any:
        return dump(await self.session.read_resource(AnyUrl(uri)))

    async def prompt(self, name: str, arguments: Any) -> Any:
        return dump(await self.session.get_prompt(name, arguments))

    async def complete(self, prompt: str, argument: str, value: str) -> Any:
        reference = wire.PromptReference(type="ref/prompt", name=prompt)
        result = await self.session.complete(reference, {"name": argument, "value": value})
        return result.completion.values

    async def want_logs(self, level: Any) -> None:
        await self.session.set_logging_level(level)

    async def give_up(self, name: str, arguments: Any) -> None:
        """This client does not tell the server by itself that it gives up a call."""
        started = asyncio.Event()
        number = self.session._request_id
        call = asyncio.create_task(self.call(name, arguments, lambda *_: started.set()))
        await started.wait()
        params = wire.CancelledNotificationParams(requestId=number, reason="given up")
        await self.session.send_notification(wire.ClientNotification(wire.CancelledNotification(params=params)))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def watching(self, uris: list[str], kinds: list[str]) -> AsyncGenerator[None]:
        for uri in uris:
            await self.session.subscribe_resource(AnyUrl(uri))
        yield
        for uri in uris:
            await self.session.unsubscribe_resource(AnyUrl(uri))

    async def task(self, name: str, arguments: Any) -> Any:
        tasks, status = self.session.experimental, ""
        started = (await tasks.call_tool_as_task(name, arguments, ttl=60_000)).task.taskId
        async for update in tasks.poll_task(started):
            status = update.status
        result = await tasks.get_task_result(started, wire.CallToolResult)
        return {"status": status, "blocks": [f"text {result.content[0].text}"]}


def connection(target: list[str]) -> Any:
    if not target[0].startswith("http"):
        return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    return (sse_client if target[0].endswith("/sse") else streamablehttp_client)(target[0])


@contextlib.asynccontextmanager
async def connect(arguments: list[str], ears: Ears) -> AsyncGenerator[Adapter]:
    async def heard(message: Any) -> None:
        root = getattr(message, "root", None)
        ears.notified(getattr(root, "method", ""), getattr(getattr(root, "params", None), "uri", None))

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

    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with (
        connection(arguments) as (read, write, *_),
        ClientSession(read, write, message_handler=heard, logging_callback=log, **answers) as session,
    ):
        yield Adapter(session, await session.initialize(), ears)


if __name__ == "__main__":
    run_program(connect)
