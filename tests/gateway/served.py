"""A gateway over HTTP on a real port, with callers that are known by their tokens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from dovetail import Client, Gateway, StaticTokens
from dovetail.auth.token_verification import Principal
from tests.support.http import serving


def tokens(**groups: list[str]) -> StaticTokens:
    """Tokens `token-of-NAME` for callers by name, each with its groups."""
    return StaticTokens(
        {f"token-of-{name}": Principal(subject=name, claims={"groups": given}) for name, given in groups.items()}
    )


class ServedGateway:
    """The address of a gateway, and clients of it."""

    def __init__(self, gateway: Gateway, url: str) -> None:
        self.gateway = gateway
        self.url = url

    def client(self, name: str | None = None, path: str = "/mcp", **options: Any) -> Client:
        """A client with the token of a caller."""
        auth: Any = False if name is None else f"token-of-{name}"
        return Client(f"{self.url}{path}", auth=auth, timeout=10, **options)


@contextlib.asynccontextmanager
async def served(gateway: Gateway, **options: Any) -> AsyncGenerator[ServedGateway]:
    """Serve a gateway on a free port during the block."""
    async with serving(gateway.asgi(**options)) as url:
        yield ServedGateway(gateway, url)
