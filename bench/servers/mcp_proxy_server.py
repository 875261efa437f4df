"""`mcp-proxy` in front of a server over stdio; its arguments are the command of that server."""

import os
import sys

from serving import free_port

print(port := free_port(), flush=True)
program = os.path.join(os.path.dirname(sys.executable), "mcp-proxy")
options = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR", "--pass-environment", "--"]
os.execv(program, [program, *options, *sys.argv[1:]])
