"""Our own client as an adapter of the tour, for programs that stand between a client and our server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tour import Adapter

from dovetail import Client

START_SECONDS = 30


class OurClient(Adapter):
    elicits = samples = has_roots = True

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return (await self.client.call(name, arguments)).content

    def resources(self) -> Any:
        return self.client.resources()

    def templates(self) -> Any:
        return self.client.resource_templates()

    def read_text(self, uri: str) -> Any:
        return self.client.read(uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.client.prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.client.prompt(name, arguments or {})

    prompt_with_resource = prompt_missing = prompt

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        return self.client.complete(prompt, argument, value)

    async def cancel(self, name: str, arguments: dict[str, Any]) -> None:
        running = asyncio.Event()
        call = asyncio.create_task(self.client.call(name, arguments, progress=lambda *_: running.set()))
        await asyncio.wait_for(running.wait(), 10)
        call.cancel()
        await asyncio.wait([call])

    async def progress(self, name: str, arguments: dict[str, Any]) -> list[float]:
        steps: list[float] = []
        await self.client.call(name, arguments, progress=lambda step, *_: steps.append(step))
        return steps


@asynccontextmanager
async def connected(target: Any) -> AsyncIterator[OurClient]:
    """Our client, with answers for what the server asks."""
    root = Path("compat").resolve()
    root.mkdir(exist_ok=True)
    client = Client(
        target, timeout=20, on_elicit=lambda _: {"guests": 2}, on_sample=lambda _: "green tea", roots=[root]
    )
    async with client:
        yield OurClient(client)


@asynccontextmanager
async def program(*command: str, port: int | None = None) -> AsyncIterator[None]:
    """Run a program; begin when it listens at a port."""
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, start_new_session=True)
    try:
        async with asyncio.timeout(START_SECONDS):
            while port is not None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                if process.returncode is not None:
                    raise RuntimeError(f"{command[0]} ended with exit code {process.returncode}")
                await asyncio.sleep(0.1)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 5)
            if process.returncode is None:
                process.kill()
