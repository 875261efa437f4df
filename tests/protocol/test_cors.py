"""CORS: which origins are named to a browser, and the answer to a preflight."""

from __future__ import annotations

import pytest

from dovetail.protocol.cors import Cors
from dovetail.protocol.errors import LocalError


def test_cors_is_off_unless_asked_for():
    assert Cors.build(False) is None
    assert Cors.build([]) is None


def test_cors_answers_allowed_origins_by_name():
    cors = Cors.build(["https://app.example"])
    assert cors is not None
    headers = dict(cors.response_headers({b"origin": b"https://app.example"}))
    assert headers[b"access-control-allow-origin"] == b"https://app.example"
    assert b"Mcp-Session-Id" in headers[b"access-control-expose-headers"]
    assert b"MCP-Protocol-Version" in headers[b"access-control-expose-headers"]
    assert headers[b"vary"] == b"Origin"
    assert b"access-control-allow-credentials" not in headers
    assert cors.response_headers({b"origin": b"https://evil.example"}) == ((b"vary", b"Origin"),)
    assert cors.response_headers({}) == ((b"vary", b"Origin"),)


def test_a_preflight_gets_what_it_asks_for():
    cors = Cors.build(["https://app.example"])
    assert cors is not None
    asked = {
        b"origin": b"https://app.example",
        b"access-control-request-method": b"POST",
        b"access-control-request-headers": b"content-type,mcp-param-region",
    }
    headers = dict(cors.preflight(asked) or ())
    assert headers[b"access-control-allow-origin"] == b"https://app.example"
    assert headers[b"access-control-allow-headers"] == b"content-type,mcp-param-region"
    assert headers[b"access-control-allow-methods"] == b"POST, GET, DELETE"
    assert b"access-control-allow-credentials" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {b"origin": b"https://evil.example", b"access-control-request-method": b"POST"},
        {b"origin": b"https://app.example"},
        {b"access-control-request-method": b"POST"},
    ],
)
def test_what_is_no_preflight_gets_none(headers):
    cors = Cors.build(["https://app.example"])
    assert cors is not None
    assert cors.preflight(headers) is None


def test_cors_for_all_follows_the_request_guard():
    cors = Cors.build(True)
    assert cors is not None
    assert (b"access-control-allow-origin", b"http://localhost:1") in cors.response_headers(
        {b"origin": b"http://localhost:1"}
    )
    with pytest.raises(LocalError, match="cors=True"):
        Cors.build(["*"])
