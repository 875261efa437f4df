"""Asks a server behind a URL what it wants, without showing anything."""

from __future__ import annotations

from dovetail.auth.challenge import Challenge, read
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester

_QUESTION = b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}'
"""Harmless on every revision: where it is not known, it is refused."""


async def probe_challenge(url: str, options: HttpOptions | None = None) -> Challenge | None:
    """What the server wants of those who bring no token; None where it wants none of them."""
    from dovetail.transports.http.aiohttp_client import AiohttpClient

    options = options or HttpOptions()
    client = options.client or AiohttpClient(options, url)
    try:
        accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = await HttpRequester(client, url).send("POST", accepted, _QUESTION)
        answer.close()
        return read(answer.headers) if answer.status == 401 else None
    finally:
        if client is not options.client:
            await client.close()
