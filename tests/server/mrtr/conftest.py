"""Stores that several replicas share."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.storage import SqliteStore
from tests.support.redis_server import needs_redis
from tests.support.replica_clients import OpenStore, opens_redis


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=needs_redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens a store that others who call it share."""
    return opens_redis() if request.param == "redis" else lambda: SqliteStore(tmp_path / "shared.db")
