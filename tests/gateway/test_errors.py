"""Errors of a gateway about its servers: what they say, and what they leave out."""

from __future__ import annotations

import logging

import aiohttp
import pytest

from dovetail import Gateway, RemoteError
from dovetail.gateway.errors import ServerUnavailable, shown_reason
from tests.gateway.served import served


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://x.example/mcp?apikey=abc&x=1: refused", "https://x.example/mcp?[redacted]: refused"),
        ("wss://x.example/ws?x=secret.", "wss://x.example/ws?[redacted]."),
        ("tool --token abc exited with code 1", "tool --token [redacted] exited with code 1"),
        ("https://x.example/mcp answered 503", "https://x.example/mcp answered 503"),
        ("is it running? yes", "is it running? yes"),
    ],
)  # fmt: skip
def test_a_reason_has_no_query_and_nothing_that_looks_like_a_secret(given: str, shown: str) -> None:
    assert shown_reason(given) == shown
    assert shown in str(ServerUnavailable("a", given))


@pytest.mark.sends_wrong("a page as JSON, which is no message")
async def test_secrets_in_the_url_of_a_server_reach_neither_clients_nor_the_status_nor_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway({"a": "http://127.0.0.1:9/mcp?x=plain-secret"})
    with caplog.at_level(logging.DEBUG):
        async with served(gateway) as at, at.client() as client:
            with pytest.raises(RemoteError) as raised:
                await client.call("a__x")
            await client.tools()
            async with aiohttp.ClientSession() as http, http.get(f"{at.url}/status") as answer:
                status = await answer.text()
    assert "http://127.0.0.1:9/mcp?[redacted]" in str(raised.value)
    for text in (str(raised.value), status, caplog.text):
        assert "plain-secret" not in text
