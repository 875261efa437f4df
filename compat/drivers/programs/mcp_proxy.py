"""mcp-proxy both ways: a server over stdio for clients over HTTP, and the other way round."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from our_client import OurClient, connected, program
from places import binary, free_port
from tour import run


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[OurClient]:
    if kind != "stdio":
        transport = "sse" if kind == "sse" else "streamablehttp"
        async with connected([binary("mcp-proxy"), "--transport", transport, target[0]]) as adapter:
            yield adapter
        return
    port = free_port()
    path = "sse" if mode == "to-sse" else "mcp"
    async with program(binary("mcp-proxy"), "--port", str(port), "--", *target, port=port):
        async with connected(f"http://127.0.0.1:{port}/{path}") as adapter:
            yield adapter


if __name__ == "__main__":
    run(connect)
