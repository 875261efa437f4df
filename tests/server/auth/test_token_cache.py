"""An answer about a token is good for a moment, and asked for once by all who want it then."""

from __future__ import annotations

import asyncio
import time

import pytest

from dovetail.auth.errors import TokenRefused
from dovetail.auth.token_verification import Principal
from dovetail.server.auth.token_cache import REFUSAL_SECONDS, TokenCache


class Issuer:
    """Says who a token belongs to, and counts."""

    def __init__(self, expires_at: float | None = None) -> None:
        self.asked: list[str] = []
        self.expires_at = expires_at

    async def __call__(self, token: str) -> Principal:
        self.asked.append(token)
        await asyncio.sleep(0)
        if token == "bad":
            raise TokenRefused("no")
        return Principal(subject=token, expires_at=self.expires_at)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = time.monotonic
        monkeypatch.setattr("dovetail.server.auth.token_cache.monotonic", lambda: real() + self.ahead)


async def test_a_token_is_looked_up_again_when_its_entry_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, issuer, recent = Clock(monkeypatch), Issuer(), TokenCache(10)
    for _ in range(3):
        assert (await recent.get("a", issuer)).subject == "a"
    assert (await recent.get("b", issuer)).subject == "b"
    assert issuer.asked == ["a", "b"]
    clock.ahead = 11
    await recent.get("a", issuer)
    assert issuer.asked == ["a", "b", "a"]


async def test_concurrent_requests_share_one_lookup() -> None:
    issuer, recent = Issuer(), TokenCache(10)
    await asyncio.gather(*(recent.get("a", issuer) for _ in range(8)))
    assert issuer.asked == ["a"]


async def test_a_cancelled_request_does_not_fail_the_others() -> None:
    issuer, recent = Issuer(), TokenCache(10)
    hasty, patient = (asyncio.ensure_future(recent.get("a", issuer)) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    assert (await patient).subject == "a"
    assert hasty.cancelled() or hasty.done()


async def test_a_refusal_is_cached_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, issuer, recent = Clock(monkeypatch), Issuer(), TokenCache(10)
    for _ in range(2):
        with pytest.raises(TokenRefused):
            await recent.get("bad", issuer)
    assert issuer.asked == ["bad"] and len(recent) == 0
    clock.ahead = REFUSAL_SECONDS + 0.1
    with pytest.raises(TokenRefused):
        await recent.get("bad", issuer)
    assert issuer.asked == ["bad", "bad"]


async def test_no_entry_outlives_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, issuer, recent = Clock(monkeypatch), Issuer(time.time() + 2), TokenCache(10)
    await recent.get("a", issuer)
    clock.ahead = 3
    await recent.get("a", issuer)
    issuer.expires_at = time.time() - 5  # within what clocks may differ, so the issuer may still say yes
    await recent.get("b", issuer)
    await recent.get("b", issuer)
    assert issuer.asked == ["a", "a", "b", "b"]


async def test_the_cache_can_be_off_and_is_bounded() -> None:
    issuer, off, small = Issuer(), TokenCache(0), TokenCache(10, max_tokens=2)
    for _ in range(2):
        await off.get("a", issuer)
    assert issuer.asked == ["a", "a"] and len(off) == 0
    for token in "abc":
        await small.get(token, issuer)
    assert len(small) == 2


async def test_tokens_are_kept_as_digests_only() -> None:
    recent = TokenCache(10)
    await recent.get("secret-token", lambda token: Issuer()("somebody"))
    assert "secret-token" not in repr(vars(recent))
