"""A server that can be killed and comes back with other tools: `changing_server.py REVISION FILE [PORT]`.

Over stdio, or over HTTP at a port. The names of its tools are in the file; `touch` updates the resource `thing://one`.
"""

import os
import sys
from pathlib import Path

from dovetail import Server

REVISION, FILE, *PORT = sys.argv[1:]
server = Server("changing", version="1", revisions=[REVISION])


@server.tool
async def touch() -> int:
    """Update the resource, and return the id of the process."""
    server.notify_resource_updated("thing://one")
    return os.getpid()


@server.tool
async def die() -> str:
    """End the process in the middle of a call."""
    os._exit(1)


@server.resource("thing://one")
def thing() -> str:
    return "one"


async def nothing() -> str:
    return ""


for name in Path(FILE).read_text().split():
    server.tool(nothing, name=name)

if PORT:
    server.run("http", port=int(PORT[0]))
else:
    server.run()
