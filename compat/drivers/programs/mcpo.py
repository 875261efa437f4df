"""mcpo, which gives the tools of a server as an HTTP interface with an OpenAPI description."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from our_client import program
from places import binary, free_port
from tour import Adapter, run


class OpenApi(Adapter):
    def __init__(self, address: str) -> None:
        self.address = address

    async def tools(self) -> list[str]:
        return [path.strip("/") for path in (await self.answer("openapi.json"))["paths"]]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.answer(name, arguments)

    async def answer(self, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self._answer, path, body)

    def _answer(self, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as problem:
            raise RuntimeError(f"status {problem.code}: {problem.read().decode()}") from None


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    port = free_port()
    names = {"stdio": "stdio", "http": "streamable-http", "sse": "sse"}
    command = (binary("mcpo"), "--host", "127.0.0.1", "--port", str(port), "--type", names[kind], "--", *target)
    async with program(*command, port=port):
        yield OpenApi(f"http://127.0.0.1:{port}")


if __name__ == "__main__":
    run(connect)
