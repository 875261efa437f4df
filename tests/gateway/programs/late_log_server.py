"""A server of 2025-11-25 without any library, which logs a second message after the answer to a call."""

import json
import sys
from typing import Any

TOOL = {"name": "talk", "inputSchema": {"type": "object"}}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def log(text: str) -> None:
    send({"method": "notifications/message", "params": {"level": "warning", "data": text}})


for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if method == "initialize":
        greeting = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "late", "version": "1"},
        }
        send({"id": number, "result": greeting})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": [TOOL]}})
    elif method == "tools/call":
        log("during the call")
        send({"id": number, "result": {"content": []}})
        log("after the call")
    elif method == "logging/setLevel":
        send({"id": number, "result": {}})
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
