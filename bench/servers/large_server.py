"""A server over HTTP whose tool answers a small request with one text, as long as its argument says, and no more."""

import sys

from serving import free_port

from dovetail import CallToolResult, Server, Text

server = Server("large", version="1.0.0")
text = "x" * int(sys.argv[1])


@server.tool
async def document() -> CallToolResult:
    """Return the text, which is not in the structured content a second time."""
    return CallToolResult(content=[Text(text)])


print(port := free_port(), flush=True)
server.run("http", port=port)
