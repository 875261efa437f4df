"""A revoked token is refused in every process that shares the store, those that start later too."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dovetail.auth.errors import TokenRefused
from dovetail.auth.jwk import SigningKey
from dovetail.auth.jwt import sign
from dovetail.server.auth.revoked_tokens import LOG, RevokedTokens, expiry_of, token_digest
from dovetail.storage.contract import StoreError
from dovetail.storage.memory import MemoryStore
from dovetail.storage.sqlite import SqliteStore
from tests.support.waiting import until


@contextlib.asynccontextmanager
async def process(path: Path) -> AsyncIterator[RevokedTokens]:
    """The revoked tokens of one process with the store in a file."""
    store, tokens = SqliteStore(str(path)), RevokedTokens()
    tokens.use_store(lambda: store)
    try:
        yield tokens
    finally:
        await tokens.close()
        await store.close()


async def is_refused(tokens: RevokedTokens, token: str) -> bool:
    try:
        await tokens.check(token)
    except TokenRefused:
        return True
    return False


async def test_a_revoked_token_is_refused_at_once() -> None:
    tokens = RevokedTokens()
    assert await tokens.check("bob") == token_digest("bob")
    await tokens.revoke("bob", None)
    with pytest.raises(TokenRefused, match="revoked"):
        await tokens.check("bob")
    await tokens.check("ann")


async def test_other_processes_refuse_it_too_also_those_that_start_later(tmp_path: Path) -> None:
    async with process(tmp_path / "store") as one, process(tmp_path / "store") as other:
        assert not await is_refused(other, "bob")
        await one.revoke("bob", None)
        while not await is_refused(other, "bob"):
            await asyncio.sleep(0.01)
    async with process(tmp_path / "store") as later:
        assert await is_refused(later, "bob")
        assert not await is_refused(later, "ann")


async def test_the_store_holds_a_digest_and_no_token() -> None:
    store, tokens = MemoryStore(), RevokedTokens()
    tokens.use_store(lambda: store)
    await tokens.revoke("a-secret-token", time.time() + 60)
    [(_, entry)] = await store.read(LOG, 0, 10)
    assert entry.startswith(token_digest("a-secret-token"))
    assert b"secret" not in entry
    await store.close()


async def test_a_process_that_cannot_read_the_revocations_accepts_no_token() -> None:
    store, tokens = MemoryStore(), RevokedTokens()
    tokens.use_store(lambda: store)
    await store.close()
    for _ in range(2):
        with pytest.raises(StoreError):
            await tokens.check("bob")
    with pytest.raises(StoreError):
        await tokens.revoke("bob", None)
    await tokens.close()


async def test_a_token_that_has_expired_need_not_be_remembered() -> None:
    tokens = RevokedTokens()
    await tokens.revoke("bob", time.time() - 3600)
    assert not await is_refused(tokens, "bob")


async def test_the_expiry_is_read_from_a_signed_token() -> None:
    key = SigningKey.generate()
    assert expiry_of(sign({"exp": 1_900_000_000}, key)) == 1_900_000_000
    assert expiry_of(sign({}, key)) is None
    assert expiry_of("opaque") is None


async def test_more_than_the_limit_forgets_the_first() -> None:
    tokens = RevokedTokens(max_revoked=2)
    for token in ("a", "b", "c"):
        await tokens.revoke(token, None)
    assert [await is_refused(tokens, token) for token in ("a", "b", "c")] == [False, True, True]


async def test_what_a_token_opened_is_told_of_its_revocation_once() -> None:
    tokens, told = RevokedTokens(), list[str]()
    digest = token_digest("bob")
    tokens.watch(digest, lambda: told.append("stream"))
    tokens.watch(digest, lambda: told.append("ended before")).cancel()
    threading.Thread(target=lambda: asyncio.run(tokens.revoke("bob", None))).start()
    await until(lambda: told == ["stream"])
    await tokens.revoke("bob", None)
    await asyncio.sleep(0)
    assert told == ["stream"]
