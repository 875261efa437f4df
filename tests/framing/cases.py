"""Cases of HTTP/1.1 framing: what is sent, the responses that must come, and the state of the connection after them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.raw import ENVELOPE_META

OPEN, CLOSED, UPGRADED = "open", "closed", "upgraded"
BUFFERING = "buffering"
"""nginx waits for the rest of the body, whatever becomes of it."""


@dataclass(frozen=True)
class Case:
    """One exchange with the server."""

    title: str
    sent: tuple[bytes, ...]
    """Each is sent by itself."""
    responses: tuple[str, ...]
    """Status codes, with the text that the tool `echo` returned."""
    after: str = OPEN
    h11: tuple[str, ...] | None = None
    """The responses where h11 is the parser, if they are others that are right too."""
    h11_after: str | None = None
    nginx: tuple[str, ...] | None = None
    """The responses of nginx in front of the server, if they are others."""
    nginx_after: str | None = None
    to_head: bool = False
    """True if the first request is a HEAD."""
    early: int = 0
    """The number of responses that must arrive before the last part is sent."""


def body_of(text: str) -> bytes:
    """The body of a call of `echo`."""
    params = {"name": "echo", "arguments": {"text": text}, "_meta": ENVELOPE_META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def head(*lines: str, method: str = "POST", path: str = "/mcp", version: str = "1.1", mcp: bool = True) -> bytes:
    """The head of a request, with the headers that a call of `echo` needs."""
    usual = ["host: 127.0.0.1", "content-type: application/json", "accept: application/json, text/event-stream"]
    if mcp:
        usual += ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: echo"]
    return "\r\n".join([f"{method} {path} HTTP/{version}", *usual, *lines, "", ""]).encode()


def call(text: str, *lines: str, **options: Any) -> bytes:
    """A whole call of `echo`."""
    body = body_of(text)
    return head(f"content-length: {len(body)}", *lines, **options) + body


def chunks(text: str, size: int = 1000, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    """The body of a call of `echo` in chunks."""
    body = body_of(text)
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n" + trailers + b"\r\n"


CHUNKED = head("transfer-encoding: chunked")
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
H2C = ("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAoAAAAAIAAAAA")
WEBSOCKET = (
    "connection: upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol: mcp",
)
SMUGGLED = call("smuggled")
INNER = f"content-length: {len(SMUGGLED)}"


def get(*lines: str, path: str = "/health", method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: 127.0.0.1", *lines, "", ""]).encode()


CASES = [
    Case("one request", (call("a"),), ("200 a",)),
    Case("two requests, one after the other", (call("a"), call("b")), ("200 a", "200 b"), early=1),
    # Chunked bodies and trailers
    Case("a body in one chunk", (CHUNKED + chunks("a"),), ("200 a",)),
    Case("a body in chunks of 7 bytes", (CHUNKED + chunks("a", 7),), ("200 a",)),
    Case("chunks with extensions", (CHUNKED + chunks("a", 50, extension=b";name=value"),), ("200 a",)),
    Case(
        "a trailer in the same segment",
        (CHUNKED + chunks("a", trailers=b"x-sum: 1\r\n"), call("b")),
        ("200 a", "200 b"),
    ),
    Case("a trailer in a segment of its own", (CHUNKED + chunks("a")[:-2], b"x-sum: 1\r\n\r\n"), ("200 a",)),
    Case(
        "chunked, then the next request", (CHUNKED + chunks("a", trailers=b"x: y\r\n") + call("b"),), ("200 a", "200 b")
    ),
    Case(
        "a header that is needed stands in a trailer",
        (
            head("mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "transfer-encoding: chunked", mcp=False)
            + chunks("a", trailers=b"mcp-name: echo\r\n"),
        ),
        ("400",),
    ),
    Case("no number as the size of a chunk", (CHUNKED + b"xyz\r\n",), ("400",), CLOSED),
    Case("a size of a chunk above 64 bits", (CHUNKED + b"f" * 40 + b"\r\n",), ("400",), CLOSED, nginx=("400",)),
    Case("a chunk that is longer than its size", (CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n",), ("400",), CLOSED),
    # Upgrade
    Case("an offer of HTTP/2", (call("a", *H2C), call("b")), ("200 a", "200 b")),
    Case("an offer of HTTP/2, with the body in another segment", (head(*H2C, INNER), SMUGGLED), ("400",)),
    Case("an offer of HTTP/2 with chunks", (head(*H2C, "transfer-encoding: chunked") + chunks("a", 9),), ("200 a",)),
    Case("an offer of HTTP/2 without a body", (get(*H2C), call("b")), ("200", "200 b")),
    Case("offers of HTTP/2, pipelined", (call("a", *H2C) + call("b", *H2C) + call("c"),), ("200 a", "200 b", "200 c")),
    Case("an offer of HTTP/2 for the WebSocket", (head(*H2C, INNER, path="/mcp/ws") + SMUGGLED,), ("404",)),
    Case(
        "the same in two parts",
        (head(*H2C, INNER, path="/mcp/ws"), SMUGGLED),
        ("404",),
        CLOSED,
        early=1,
        nginx_after=OPEN,
    ),
    Case(
        "an offer of HTTP/2 in chunks for it",
        (head(*H2C, "transfer-encoding: chunked", path="/mcp/ws") + chunks("a"),),
        ("404",),
    ),
    Case("a WebSocket by POST", (head(*WEBSOCKET, INNER, path="/mcp/ws") + SMUGGLED,), ("404",)),
    Case(
        "a WebSocket by POST in two parts",
        (head(*WEBSOCKET, INNER, path="/mcp/ws"), SMUGGLED),
        ("404",),
        CLOSED,
        early=1,
        nginx_after=OPEN,
    ),
    Case("a WebSocket with a body", (get(*WEBSOCKET, INNER, path="/mcp/ws") + SMUGGLED,), ("404",)),
    Case(
        "a WebSocket with a body in two parts",
        (get(*WEBSOCKET, INNER, path="/mcp/ws"), SMUGGLED),
        ("404",),
        CLOSED,
        early=1,
        nginx_after=OPEN,
    ),
    Case("a WebSocket by POST without a body", (head(*WEBSOCKET, path="/mcp/ws"),), ("404",)),
    Case(
        "a WebSocket with another request behind it",
        (get(*WEBSOCKET, path="/mcp/ws") + call("b"),),
        ("404", "200 b"),
        nginx=("101",),
        nginx_after=UPGRADED,
    ),
    Case("a WebSocket", (get(*WEBSOCKET, path="/mcp/ws"),), ("101",), UPGRADED),
    Case(
        "a WebSocket after a request", (call("a"), get(*WEBSOCKET, path="/mcp/ws")), ("200 a", "101"), UPGRADED, early=1
    ),
    Case("no WebSocket at its path", (get(path="/mcp/ws"),), ("404",)),
    Case(
        "a tunnel",
        (b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nhost: 127.0.0.1:80\r\n\r\n",),
        ("400",),
        CLOSED,
        h11=("404",),
        h11_after=OPEN,
    ),
    # Pipelining
    Case("five pipelined requests", (b"".join(call(c) for c in "abcde"),), tuple(f"200 {c}" for c in "abcde")),
    Case(
        "a long request, and half of the next head",
        (call("a" * 70_000) + call("b")[:90], call("b")[90:]),
        ("200 " + "a" * 70_000, "200 b"),
    ),
    Case("a request and garbage", (call("a") + b"\x00\x01 garbage\r\n\r\n",), ("200 a", "400"), CLOSED),
    Case(
        "a request, and garbage in the body of the next", (call("a") + CHUNKED + b"xyz\r\n",), ("200 a", "400"), CLOSED
    ),
    Case(
        "a request and a head that is too long",
        (call("a") + b"GET / HTTP/1.1\r\nx: ", b"y" * 400_000),
        ("200 a", "400"),
        CLOSED,
    ),
    # Expect
    Case(
        "Expect, accepted",
        (head("expect: 100-continue", f"content-length: {len(body_of('a'))}"), body_of("a")),
        ("100", "200 a"),
        early=1,
    ),
    Case(
        "Expect, too large",
        (head("expect: 100-continue", "content-length: 5000000"),),
        ("413",),
        CLOSED,
        nginx_after=BUFFERING,
    ),
    Case(
        "Expect, no such path",
        (head("expect: 100-continue", "content-length: 50", path="/x"),),
        ("404",),
        CLOSED,
        nginx=("100",),
        nginx_after=BUFFERING,
    ),
    Case("Expect, of HTTP/1.0", (call("a", "expect: 100-continue", version="1.0"),), ("200 a",), CLOSED),
    # Bodies that nobody reads
    Case(
        "a body that is too large",
        (head("content-length: 5000000"), b"x" * 1_000_000),
        ("413",),
        CLOSED,
        nginx_after=BUFFERING,
    ),
    Case(
        "a body for a path that is not there",
        (head("content-length: 1000000", path="/x"), b"x" * 500_000),
        ("404",),
        CLOSED,
        nginx=(),
        nginx_after=BUFFERING,
    ),
    Case("a whole body for a path that is not there", (call("a", path="/x"), call("b")), ("404", "200 b"), early=1),
    # What follows a request
    Case(
        "an empty line after a request",
        (call("a") + b"\r\n", call("b")),
        ("200 a", "200 b"),
        early=1,
        h11=("200 a", "400"),
        h11_after=CLOSED,
    ),
    Case("an empty line in a segment of its own", (call("a"), b"\r\n", call("b")), ("200 a", "200 b")),
    Case("empty lines before the first request", (b"\r\n\r\n" + call("a"),), ("200 a",)),
    Case("garbage after a response", (call("a"), b"\x00\x01 garbage\r\n\r\n"), ("200 a", "400"), CLOSED, early=1),
    Case("Connection: close", (call("a", "connection: close"),), ("200 a",), CLOSED),
    Case("Connection: close among others", (call("a", "connection: foo, close"),), ("200 a",), CLOSED),
    Case("Connection: close, and another request", (call("a", "connection: close") + call("b"),), ("200 a",), CLOSED),
    # HEAD and HTTP/1.0
    Case("HEAD", (get(method="HEAD"), call("b")), ("200", "200 b"), to_head=True),
    Case("HEAD of the endpoint", (get(method="HEAD", path="/mcp"), call("b")), ("405", "200 b"), to_head=True),
    Case("HTTP/1.0", (call("a", version="1.0"),), ("200 a",), CLOSED),
    Case(
        "HTTP/1.0 with keep-alive",
        (call("a", "connection: keep-alive", version="1.0"),),
        ("200 a",),
        CLOSED,
        nginx_after=OPEN,
    ),
    # Heads that are refused
    Case(
        "both Content-Length and Transfer-Encoding",
        (head("content-length: 4", "transfer-encoding: chunked") + b"0\r\n\r\n" + SMUGGLED,),
        ("400",),
        CLOSED,
    ),
    Case(
        "Transfer-Encoding, then Content-Length",
        (head("transfer-encoding: chunked", "content-length: 4") + b"0\r\n\r\n" + SMUGGLED,),
        ("400",),
        CLOSED,
    ),
    Case("two lengths", (head("content-length: 4", "content-length: 5") + b"abcde",), ("400",), CLOSED),
    Case("a negative length", (head("content-length: -4"),), ("400",), CLOSED),
    Case("a length with a sign", (head("content-length: +4") + b"abcd",), ("400",), CLOSED),
    Case(
        "chunked twice", (head("transfer-encoding: chunked, chunked") + chunks("a"),), ("400",), CLOSED, nginx=("501",)
    ),
    Case(
        "chunked, but not as the last coding",
        (head("transfer-encoding: chunked, gzip") + chunks("a"),),
        ("400",),
        CLOSED,
        nginx=("501",),
    ),
    Case("a blank before the colon", (head("content-length : 4") + b"abcd",), ("400",), CLOSED),
    Case("a header over two lines", (get("x-long: a\r\n b"),), ("400",), CLOSED, h11=("200",), h11_after=OPEN),
    Case("a NUL in a header", (head("x-nul: a\x00b"),), ("400",), CLOSED),
    Case("HTTP/0.9", (b"GET /health\r\n\r\n",), ("400",), CLOSED, nginx=(), nginx_after=BUFFERING),
    Case("the preface of HTTP/2", (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",), ("400",), CLOSED, h11=("404", "400")),
    Case("a TLS handshake", (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",), ("400",), CLOSED),
    Case("a head of 40 KB", (get("x: " + "y" * 40_000),), ("431",), nginx=("400",), nginx_after=CLOSED),
    Case("a head of 400 KB", (get("x: " + "y" * 400_000),), ("400",), CLOSED),
]
