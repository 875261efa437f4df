"""Stores: where servers keep sessions, resumable streams and suspended calls, in memory, a SQLite file or Redis.

    server.run("http", store="redis://localhost")

    from dovetail.storage import open_store

    store = open_store("sqlite:state.db")

`Store` is the contract for stores of your own; `dovetail.storage.contract` says what each method guarantees.
Each class is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.storage.contract import Store, StoreClosed, StoreError, StoreUnavailable, StoreUnusable
    from dovetail.storage.memory import MemoryStore
    from dovetail.storage.redis.store import RedisStore
    from dovetail.storage.sqlite import SqliteStore
    from dovetail.storage.urls import open_store

_HOMES = {
    "MemoryStore": "storage.memory",
    "RedisStore": "storage.redis.store",
    "SqliteStore": "storage.sqlite",
    "Store": "storage.contract",
    "StoreClosed": "storage.contract",
    "StoreError": "storage.contract",
    "StoreUnavailable": "storage.contract",
    "StoreUnusable": "storage.contract",
    "open_store": "storage.urls",
}

__all__ = [
    "MemoryStore",
    "RedisStore",
    "SqliteStore",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "StoreUnusable",
    "open_store",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
