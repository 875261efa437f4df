"""The floor under every Python server over HTTP, `http`: a bare ASGI application on uvicorn that only answers `echo`.

It reads the body, decodes it with msgspec, and writes the bytes that Dovetail would answer, without checking anything:
what uvicorn, the decoder and the system cost, and no server on them can do without.
"""

from typing import Any

import msgspec
from serving import serve

SESSION = b"0123456789abcdef0123456789abcdef"
ENVELOPE = b"2026-07-28"
OPENED = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},'
    b'"serverInfo":{"name":"bench","version":"1.0.0"}}'
)
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":%b}'
CALLED = (
    b'{"content":[{"type":"text","text":%b}],"structuredContent":{"result":%b},"_meta":{"dovetail/data":"wrapped"}}'
)
CALLED_2026 = (
    b'{"content":[{"type":"text","text":%b}],"structuredContent":%b,"resultType":"complete",'
    b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1.0.0"}}}'
)
JSON = (b"content-type", b"application/json")


class Message(msgspec.Struct):
    """A request, or a notification."""

    method: str
    id: int | None = None
    params: dict[str, Any] = {}


decode = msgspec.json.Decoder(Message).decode
encode = msgspec.json.encode


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    message = decode(body)
    status, answer, headers = 200, b"", [JSON]
    if message.id is None:
        status = 202
    elif message.method == "initialize":
        answer = ANSWER % (message.id, OPENED)
        headers = [JSON, (b"mcp-session-id", SESSION)]
    else:
        revision = next(value for name, value in scope["headers"] if name == b"mcp-protocol-version")
        text = encode(message.params["arguments"]["text"])
        answer = ANSWER % (message.id, (CALLED_2026 if revision == ENVELOPE else CALLED) % (text, text))
    headers.append((b"content-length", b"%d" % len(answer)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


# As Dovetail sets uvicorn up, which is less work a request than its defaults.
serve(app, interface="asgi3", lifespan="off", log_config=None, proxy_headers=False, server_header=False)
