"""Replicas: announcements to all, messages to one, and heartbeats, over a real SQLite file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from dovetail.server.replicas.messages import ListChanged, ResourceUpdated, SessionMessage, SessionNotification
from dovetail.server.replicas.replica import MAX_INLINE, Replica
from dovetail.server.replicas.request_ids import encode_message, owner_of
from dovetail.storage.sqlite import SqliteStore
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Notification, Request, Response
from tests.support.waiting import until


@contextlib.asynccontextmanager
async def replicas(path: Path, count: int = 2) -> AsyncGenerator[list[Replica]]:
    """Replicas with a store object each, as in processes of their own."""
    opened = [Replica(SqliteStore(path)) for _ in range(count)]
    for replica in opened:
        await replica.open()
    try:
        yield opened
    finally:
        for replica in opened:
            await replica.close()
            await replica.store.close()


async def test_an_announcement_reaches_all_in_one_order(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store", 3) as opened:
        heard: list[list[Any]] = [[] for _ in opened]
        for replica, messages in zip(opened, heard, strict=True):
            replica.on(ResourceUpdated, messages.append)
            replica.on(ListChanged, messages.append)
        for number in range(20):
            opened[number % 3].announce(ResourceUpdated(f"file:///{number}"))
        await asyncio.to_thread(opened[0].announce, ListChanged("tools", "digest"))
        await until(lambda: all(len(messages) == 21 for messages in heard))
        assert heard[0] == heard[1] == heard[2]
        assert {replica.position for replica in opened} == {21}


async def test_a_replica_that_joins_later_knows_what_was_announced(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store") as (one, other):
        one.announce(ResourceUpdated("file:///a"))
        await until(lambda: other.position == 1)
        async with replicas(tmp_path / "store", 1) as (late,):
            assert list(late.recent) == [(1, ResourceUpdated("file:///a"))]


async def test_notifications_that_need_not_be_told_later_are_not_remembered(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store") as (one, other):
        heard: list[SessionNotification] = []
        other.on(SessionNotification, heard.append)
        sent = [SessionNotification("session", b"{}"), SessionNotification("session", b"{}", kept=False)]
        for message in sent:
            one.announce(message)
        await until(lambda: len(heard) == 2)
        assert heard == sent and list(other.recent) == [(1, sent[0])]


async def test_messages_to_one_replica_arrive_in_order_whatever_their_size(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store") as (one, other):
        arrived: list[SessionMessage] = []
        other.on(SessionMessage, arrived.append)
        one.on(SessionMessage, lambda _: arrived.clear())
        sent = [SessionMessage("s", b"x" * (MAX_INLINE * 3 if number % 3 else 5)) for number in range(7)]
        for message in sent:
            await one.send(other.id, message)
        await until(lambda: len(arrived) == 7)
        assert arrived == sent


async def test_a_replica_that_has_left_is_known_to_be_gone_at_once(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store") as (one, other):
        assert one.id != other.id
        assert await one.is_alive(other.id)
        await other.close()
        assert not await one.is_alive(other.id)
        assert not await one.is_alive("0" * 12)


async def test_an_answer_names_the_replica_that_waits_for_it(tmp_path: Path) -> None:
    async with replicas(tmp_path / "store", 1) as (replica,):
        id = f"{replica.next_request_prefix()}1"
        assert id != f"{replica.next_request_prefix()}1", "each copy of a session has ids of its own"
        progress = Notification("notifications/progress", {"progressToken": id, "progress": 1})
        for message in (Response(id, {"a": 1}), Failure(id, -1, "no", None), progress):
            assert owner_of(message) == replica.id
            decoded = codec.decode(encode_message(message))
            assert not isinstance(decoded, list)
            assert type(decoded) is type(message) and owner_of(decoded) == replica.id
    for message in (Response(7, {}), Response("7.1", {}), Request(id, "ping", {}), Notification("x", {})):
        assert owner_of(message) is None
