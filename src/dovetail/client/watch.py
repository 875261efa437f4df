"""Hearing of changes: notifications that come by themselves, or a subscription where one has to ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import ConnectionLost
from dovetail.runtime.pending import Patience
from dovetail.wire import codec

from .link import Link


class Change(msgspec.Struct, frozen=True):
    """Something changed at the server: `kind` is tools, resources or prompts."""

    kind: str


async def watch(link: Link, meta: dict[str, Any] | None, kinds: Sequence[str]) -> AsyncGenerator[Change]:
    """Yield each change of the lists named; changes that pile up unread are told once."""
    unread: dict[str, None] = {}
    news = asyncio.Event()
    id = link.connection.pending.take_id()
    methods = {f"notifications/{kind}/list_changed": kind for kind in kinds}

    def heard(method: str, params: dict[str, Any]) -> None:
        kind = methods.get(method)
        if kind is not None and (meta is None or (meta_of(params) or {}).get(SUBSCRIPTION_ID) == id):
            unread[kind] = None
            news.set()

    link.session.listeners.add(heard)
    subscription = asyncio.ensure_future(_subscribe(link, meta, id, kinds))
    subscription.add_done_callback(lambda _: news.set())
    try:
        while True:
            await news.wait()
            news.clear()
            while unread:
                kind = next(iter(unread))
                del unread[kind]
                yield Change(kind)
            if subscription.done():
                subscription.result()
                return
    finally:
        link.session.listeners.discard(heard)
        subscription.cancel()
        await asyncio.gather(subscription, return_exceptions=True)


async def _subscribe(link: Link, meta: dict[str, Any] | None, id: int, kinds: Sequence[str]) -> None:
    """Keep a subscription open where the revision wants one; otherwise wait for the end of the connection."""
    if meta is None:
        await link.lost()
        raise ConnectionLost(link.connection.gone or "the connection was closed")
    wanted = {f"{kind}ListChanged": True for kind in kinds}
    params = codec.encode({"_meta": meta, "notifications": wanted})
    await link.connection.pending.request("subscriptions/listen", params, Patience(None), id=id)
