"""An authorization server that gives out each refresh token for one use, and takes a second use for theft."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.client.protected import Protected
from tests.transports.http.handmade import RecordedRequest, ResponseWriter


class Rotating(Protected):
    """Ends the login when a refresh token comes again; where it is `lenient`, not for the last one.

    As long as `swallowing`, a refresh is done and nobody hears of it: the answer is never sent.
    """

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.lenient = False
        self.spent: list[str] = []
        self.reused: list[str] = []
        self.swallowing = False
        self.swallowed = asyncio.Event()

    @property
    def refreshes(self) -> int:
        return self.grants.count("refresh_token")

    def expire(self) -> None:
        """From now on no token that was given out is good."""
        self.tokens.clear()

    async def _talk(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.path == "/token" and self.swallowing and b"grant_type=refresh_token" in asked.body:
            self._page(asked)
            self.swallowed.set()
            await line.stream()
            await line.until_gone()
            return
        if asked.path.startswith("/authorize?"):
            await line.answer(302, location=await self.consent(asked.path))
            return
        await super()._talk(asked, line)

    def _token(self, asked: RecordedRequest, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        token = fields.get("refresh_token")
        if token in self.spent:
            if self.lenient and token == self.spent[-1]:
                self.refresh_tokens.add(token)
            else:
                self.reused.append(token)
                self.refresh_tokens.clear()
                self.tokens.clear()
        if token is not None:
            self.spent.append(token)
        return super()._token(asked, fields)
