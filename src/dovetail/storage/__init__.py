"""Stores: where servers keep sessions, resumable streams and suspended calls, in memory or in a SQLite file.

    from dovetail.storage import SqliteStore

    server.run("http", store=SqliteStore("state.db"))

`Store` is the contract for stores of your own; `dovetail.storage.contract` says what each method guarantees.
Each class is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.storage.contract import Store, StoreClosed, StoreError, StoreUnusable
    from dovetail.storage.memory import MemoryStore
    from dovetail.storage.sqlite import SqliteStore

_HOMES = {
    "MemoryStore": "storage.memory",
    "SqliteStore": "storage.sqlite",
    "Store": "storage.contract",
    "StoreClosed": "storage.contract",
    "StoreError": "storage.contract",
    "StoreUnusable": "storage.contract",
}

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoreClosed", "StoreError", "StoreUnusable"]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
