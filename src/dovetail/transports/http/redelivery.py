"""Delivery of notifications and answers by POST: again while a server is restarted, or its proxy finds none.

Each of them may arrive twice: an answer to a request that has one is ignored, and so is a repeated notification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dovetail.protocol.errors import ConnectionLost
from dovetail.transports.reconnection import TEMPORARY_STATUSES, Reconnection

TRY_AGAIN_STATUSES = TEMPORARY_STATUSES - {500}
"""A server that failed at a message would fail at it again."""


class NotAccepted(Exception):
    """The server has refused a message; `try_again` is true if it may accept it later."""

    def __init__(self, text: str, *, try_again: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.try_again = try_again
        self.retry_after = retry_after


async def deliver(post: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Post a message until it is accepted; after some time, or if that is in vain, raises the last error."""
    now, pace = asyncio.get_running_loop().time, Reconnection()
    give_up = now() + seconds
    while True:
        try:
            async with asyncio.timeout_at(give_up):
                await post()
                return
        except NotAccepted as refusal:
            if not refusal.try_again:
                raise
            pause = pace.after_failure(now(), retry=refusal.retry_after)
            if pause is None or now() + pause > give_up:
                raise
        except ConnectionLost:
            pause = pace.after_failure(now())
            if pause is None or now() + pause > give_up:
                raise
        await asyncio.sleep(pause)
