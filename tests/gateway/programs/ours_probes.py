"""Our client behind the gateway: `ours_probes.py REVISION URL|COMMAND...`."""

import asyncio
import contextlib
import json
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Any

from msgspec import UNSET
from probes import FORM_ANSWER, ROOT, SAMPLED, Ears, run_program  # pyright: ignore[reportMissingImports]

from dovetail import Client, RemoteError, Root
from dovetail.client.elicitation import Elicitation
from dovetail.types.content import Audio, Embedded, Image, ResourceLink, Text


def content(block: Any) -> dict[str, Any]:
    """A block of content as on the wire, as far as the probes look at it."""
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image | Audio):
        return {"type": type(block).__name__.lower(), "mimeType": block.mime_type}
    if isinstance(block, ResourceLink):
        return {"type": "resource_link", "uri": block.uri}
    assert isinstance(block, Embedded)
    return {"type": "resource", "resource": contents(block.resource)}


def contents(item: Any) -> dict[str, Any]:
    if hasattr(item, "text"):
        return {"uri": item.uri, "text": item.text}
    return {"uri": item.uri, "blob": b64encode(item.blob).decode()}


class Trace:
    """Notices on the wire that a subscription is there, which the client itself does not report."""

    def __init__(self) -> None:
        self.subscribed = asyncio.Event()
        self._ids: set[Any] = set()

    def __call__(self, direction: str, data: bytes) -> None:
        if direction == "sent" and b'"resources/subscribe"' in data:
            self._ids.add(json.loads(data)["id"])
        elif b"subscriptions/acknowledged" in data or (self._ids and json.loads(data).get("id") in self._ids):
            self._ids.clear()
            self.subscribed.set()


class Adapter:
    error = RemoteError

    def __init__(self, client: Client, ears: Ears, trace: Trace) -> None:
        self.client, self.ears, self.trace = client, ears, trace
        self.revision = client.revision
        declared = client.capabilities
        self.capabilities = {
            **({"tasks": declared.tasks} if declared.tasks is not None else {}),
            "extensions": declared.extensions or {},
        }

    def error_of(self, problem: Any) -> Any:
        return problem.code, problem.message

    async def names(self, kind: str) -> list[str]:
        if kind == "tools":
            return [one.name for one in await self.client.tools()]
        if kind == "prompts":
            return [one.name for one in await self.client.prompts()]
        if kind == "resources":
            return [one.uri for one in await self.client.resources()]
        return [one.uri_template for one in await self.client.resource_templates()]

    async def call(self, name: str, arguments: Any, progress: Any) -> Any:
        report = None if progress is None else lambda done, total, message: progress(done, total)
        result = await self.client.call(name, arguments, progress=report, check=False)
        seen: dict[str, Any] = {"content": [content(block) for block in result.content], "isError": result.is_error}
        if result.structured_content is not UNSET:
            seen["structuredContent"] = result.structured_content
        return seen

    async def read(self, uri: str) -> Any:
        return {"contents": [contents(item) for item in (await self.client.read(uri)).contents]}

    async def prompt(self, name: str, arguments: Any) -> Any:
        result = await self.client.prompt(name, arguments)
        return {"messages": [{"content": content(message.content)} for message in result.messages]}

    async def complete(self, prompt: str, argument: str, value: str) -> Any:
        return list((await self.client.complete(prompt, argument, value)).values)

    async def want_logs(self, level: Any) -> None:
        await self.client.set_log_level(level)

    async def give_up(self, name: str, arguments: Any) -> None:
        started = asyncio.Event()
        call = asyncio.ensure_future(self.call(name, arguments, lambda *_: started.set()))
        await started.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def watching(self, uris: list[str], kinds: list[str]) -> AsyncGenerator[None]:
        changes = self.client.watch(*uris, **dict.fromkeys(kinds, True))

        async def listen() -> None:
            try:
                async for change in changes:
                    if not change.missed:
                        self.ears.change(change.kind, change.uri)
            except RemoteError as problem:
                self.ears.fail(problem)
                raise

        self.trace.subscribed.clear()
        listening = asyncio.ensure_future(listen())
        there = asyncio.ensure_future(self._subscribed(bool(uris)))
        try:
            await asyncio.wait((listening, there), return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
            yield
        finally:
            for waiting in (listening, there):
                waiting.cancel()
            await asyncio.gather(listening, there, return_exceptions=True)
            await changes.aclose()

    async def _subscribed(self, to_resources: bool) -> None:
        """In the handshake era list changes need no subscription; over HTTP they need the stream of the session."""
        supervisor = self.client._connected()
        if to_resources or supervisor.agreement.revision.era == "envelope":
            await self.trace.subscribed.wait()
        elif supervisor.http is not None:
            await supervisor.http.wait_for_get_stream()

    async def task(self, name: str, arguments: Any) -> Any:
        task = await self.client.start(name, arguments)
        result = await task.result()
        if task.id is None:
            return None
        return {"status": task.status, "blocks": [f"text {result.text}"]}


@contextlib.asynccontextmanager
async def connect(arguments: list[str], ears: Ears) -> AsyncGenerator[Adapter]:
    def elicit(question: Elicitation) -> Any:
        ears.asked.append(question.message)
        return FORM_ANSWER if question.mode == "form" else "accept"

    def sample(params: Any) -> str:
        ears.asked.append("sampling")
        return SAMPLED

    def roots() -> list[Root]:
        ears.asked.append("roots")
        return [Root(ROOT, name="srv")]

    revision, *words = arguments
    target: Any = words[0] if words[0].startswith("http") else words
    options: dict[str, Any] = {"on_elicit": elicit, "on_sample": sample, "roots": roots}
    log = lambda level, data, name: ears.log(data)  # noqa: E731
    trace = Trace()
    async with Client(target, revision=revision, on_log=log, trace=trace, timeout=60, **options) as client:
        yield Adapter(client, ears, trace)


if __name__ == "__main__":
    run_program(connect)
