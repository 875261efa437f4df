"""A server of 2025-11-25 without any library whose list of tools changes: `growing_server.py FILE`.

The names of its tools are in a file that all its processes share. `grow` adds one and tells its caller only; `hold` is
not answered; and the first list of a process is out of date when it is sent, if the file is empty.
"""

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def names() -> list[str]:
    return FILE.read_text().split()


def add(name: str) -> None:
    with FILE.open("a") as file:
        file.write(f"{name}\n")
    send({"method": "notifications/tools/list_changed"})


for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if method == "initialize":
        greeting = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "growing", "version": "1"},
        }
        send({"id": number, "result": greeting})
    elif method == "tools/list":
        listed = names()
        if not listed:
            add("grown")
        send(
            {"id": number, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in listed]}}
        )
    elif method == "tools/call" and request["params"]["name"] == "grow":
        add("grown")
        send({"id": number, "result": {"content": []}})
    elif method == "tools/call":
        FILE.with_suffix(".held").touch()
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
