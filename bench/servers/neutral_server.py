"""A hand-written server of revision 2026-07-28, `[http]`, that is nobody's SDK: every client is measured against it."""

import json
import os
import sys

META = {"io.modelcontextprotocol/serverInfo": {"name": "neutral", "version": "1.0.0"}}
STAMP = {"resultType": "complete", "_meta": META}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
ECHO = {"name": "echo", "description": "Return the text as it came.", "inputSchema": TEXT, "outputSchema": RESULT}
KEPT = {**STAMP, "ttlMs": 0, "cacheScope": "public"}
RESULTS = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **KEPT},
    "tools/list": {"tools": [ECHO], **KEPT},
}


def answer(data: bytes) -> bytes:
    """The answer to one request, or nothing to a notification."""
    message = json.loads(data)
    if "id" not in message:
        return b""
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        text = message["params"]["arguments"]["text"]
        content = [{"type": "text", "text": text}]
        reply["result"] = {"content": content, "structuredContent": {"result": text}, "isError": False, **STAMP}
    elif result := RESULTS.get(message["method"]):
        reply["result"] = result
    else:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    return json.dumps(reply, separators=(",", ":")).encode()


async def app(scope, receive, send):
    """The same over HTTP, as an ASGI application that answers with JSON."""
    if scope["type"] != "http":
        raise NotImplementedError
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    status, reply = 405, b""
    if scope["method"] == "POST":
        reply = answer(body)
        status = 404 if b'"error"' in reply[:60] else 200 if reply else 202
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


def over_stdio() -> None:
    """Answer lines until the input ends, all that came at once with one write."""
    rest = b""
    while data := os.read(0, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        answers = [reply + b"\n" for line in lines if line.strip() and (reply := answer(line))]
        out = memoryview(b"".join(answers))
        while out:
            out = out[os.write(1, out) :]


if sys.argv[1:] == ["http"]:
    from serving import serve

    serve(app)
else:
    over_stdio()
