"""Challenge probe: POST without credentials, for the server's authentication challenge or for its words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from dovetail.auth.challenge import Challenge, read
from dovetail.transports.http.contract import ClientResponse, HttpOptions
from dovetail.transports.http.requester import MAX_WORDS, HttpRequester, read_error

_REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}'
"""A request that changes nothing on any revision: servers that do not know it refuse it."""


async def probe_challenge(url: str, options: HttpOptions | None = None) -> Challenge | None:
    """The challenge of a server for a request without a token; None where it requires none."""
    async with _answer(url, options) as answer:
        return read(answer.headers) if answer.status == 401 else None


async def probe_refusal(url: str, options: HttpOptions | None = None) -> Exception | None:
    """The error of a request without a token, with what the server says and what to do; None where it requires none."""
    async with _answer(url, options) as answer:
        error = await read_error(answer, url, None, MAX_WORDS) if answer.status == 401 else None
        return error if isinstance(error, Exception) else None


@contextlib.asynccontextmanager
async def _answer(url: str, options: HttpOptions | None) -> AsyncGenerator[ClientResponse]:
    from dovetail.transports.http.aiohttp_client import AiohttpClient

    options = options or HttpOptions()
    client = options.client or AiohttpClient(options, url)
    try:
        accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = await HttpRequester(client, url).send("POST", accepted, _REQUEST)
        try:
            yield answer
        finally:
            answer.close()
    finally:
        if client is not options.client:
            await client.close()
