"""A server that serves one thing after the other, and gets stuck in one of them: its tools stop it from answering."""

import json
import sys
import time

TOOLS = [{"name": "hang", "description": "Hang.", "inputSchema": {"type": "object"}}]

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "stuck", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        time.sleep(3600)
        result = {}
    elif method == "ping":
        print("pinged", file=sys.stderr, flush=True)
        result = {}
    elif id is not None and method is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
