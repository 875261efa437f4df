"""A server that does not end when its input does, nor when it is asked to."""

import json
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)

for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        info = {"name": "stubborn", "version": "1"}
        answer = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": answer}), flush=True)
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)

while True:
    time.sleep(1)
