"""A server over stdio, without any library, that works or misbehaves in one way: `python odd.py WAY [FILE]`.

works       answers everything; its tools are `pid`, `echo` and `wait`, which makes the file `text` and never answers
hang        reads everything and answers nothing
hang-lists  answers the handshake, and no list
hang-calls  answers everything but calls
flood       works, and sends notifications without end
end-lists   answers the handshake, and ends when it is asked for a list
hang-level  works, and does not answer when the level of log messages is set
lie-lists   answers lists with what no list is
lie-calls   answers calls with an object that is no result
lie-results answers calls with what is not even an object
slow        reads nothing until FILE exists
deaf        works, and does not end when its input does
"""

import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path

WAY, FILES = sys.argv[1], sys.argv[2:]
LOCK = threading.Lock()
TOOLS = ["pid", "echo", "wait"]


def send(message: dict) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def flood() -> None:
    """Send what a server may send by itself, forever."""
    for number in itertools.count():
        kinds = [
            ("notifications/message", {"level": "error", "data": "x" * 1000}),
            ("notifications/progress", {"progressToken": "nobody's", "progress": number}),
            ("notifications/tools/list_changed", {}),
            ("notifications/resources/updated", {"uri": f"odd://{number}"}),
        ]
        method, params = kinds[number % len(kinds)]
        send({"method": method, "params": params})


def result_of(method: str, params: dict) -> object:
    """The result of a request; None for no answer."""
    if method == "initialize":
        tools, logging = {"listChanged": True}, {}
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": tools, "logging": logging},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    if method == "tools/list":
        if WAY == "hang-lists":
            return None
        if WAY == "end-lists":
            sys.exit(3)
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        if WAY == "lie-lists":
            return {"tools": "none"}
        return {"tools": [{"name": name, "inputSchema": schema} for name in TOOLS]}
    if method == "logging/setLevel" and WAY == "hang-level":
        return None
    if method == "tools/call":
        return called(params)
    return {}


def called(params: dict) -> object:
    if params["name"] == "wait" and "text" in params["arguments"]:
        Path(params["arguments"]["text"]).touch()
    if WAY == "hang-calls" or params["name"] == "wait":
        return None
    if WAY == "lie-calls":
        return {"content": "not a list", "isError": "maybe"}
    if WAY == "lie-results":
        return ["not", "an object"]
    text = str(os.getpid()) if params["name"] == "pid" else params["arguments"].get("text", "")
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    if WAY == "slow":
        while not os.path.exists(FILES[0]):
            time.sleep(0.01)
    flooding = False
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method", "")
        if method.startswith("notifications/"):
            if WAY == "flood" and not flooding:
                flooding = True
                threading.Thread(target=flood, daemon=True).start()
            continue
        if WAY == "hang" or "id" not in message:
            continue
        if method == "server/discover":
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        result = result_of(method, message.get("params") or {})
        if result is not None:
            send({"id": message["id"], "result": result})
    if WAY == "deaf":
        while True:
            time.sleep(60)


main()
