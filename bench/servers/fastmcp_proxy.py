"""FastMCP's proxy for the server at a URL; its argument."""

import sys

from fastmcp.server import create_proxy
from serving import free_port

print(port := free_port(), flush=True)
proxy = create_proxy(sys.argv[1], name="proxy")
proxy.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="ERROR")
