"""Challenge probe: POST without credentials and return the server's authentication challenge."""

from __future__ import annotations

from dovetail.auth.challenge import Challenge, read
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester

_REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}'
"""A request that changes nothing on any revision: servers that do not know it refuse it."""


async def probe_challenge(url: str, options: HttpOptions | None = None) -> Challenge | None:
    """The challenge of a server for a request without a token; None where it requires none."""
    from dovetail.transports.http.aiohttp_client import AiohttpClient

    options = options or HttpOptions()
    client = options.client or AiohttpClient(options, url)
    try:
        accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = await HttpRequester(client, url).send("POST", accepted, _REQUEST)
        answer.close()
        return read(answer.headers) if answer.status == 401 else None
    finally:
        if client is not options.client:
            await client.close()
