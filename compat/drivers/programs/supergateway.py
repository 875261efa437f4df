"""supergateway in all its directions; the first client of a gateway goes, and the second makes the tour."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from our_client import OurClient, connected, program
from places import binary, free_port
from tour import run

OUTPUT = {
    "to-sse": (("--outputTransport", "sse"), "http://127.0.0.1:{port}/sse"),
    "to-http": (("--outputTransport", "streamableHttp"), "http://127.0.0.1:{port}/mcp"),
    "to-http-stateful": (("--outputTransport", "streamableHttp", "--stateful"), "http://127.0.0.1:{port}/mcp"),
    "to-ws": (("--outputTransport", "ws"), "ws://127.0.0.1:{port}/message"),
}


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[OurClient]:
    gateway = binary("supergateway")
    if kind != "stdio":
        source = "--sse" if kind == "sse" else "--streamableHttp"
        async with connected([gateway, source, target[0], "--logLevel", "none"]) as adapter:
            yield adapter
        return
    port = free_port()
    options, url = OUTPUT[mode]
    command = (gateway, "--stdio", shlex.join(target), "--port", str(port), "--logLevel", "none", *options)
    async with program(*command, port=port):
        async with connected(url.format(port=port)) as first:
            await first.tools()
        async with connected(url.format(port=port)) as adapter:
            yield adapter


if __name__ == "__main__":
    run(connect)
