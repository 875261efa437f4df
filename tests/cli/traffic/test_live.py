"""Traffic as it passes: complete exchanges once, long ones also while they wait, and never a flood."""

import asyncio
from typing import Any

import pytest

from dovetail.cli.traffic import live
from dovetail.cli.traffic.exchange import TrafficExchange
from dovetail.cli.traffic.filters import TrafficFilter, read_filter
from dovetail.cli.traffic.live import LiveTraffic, TrafficFollower
from tests.cli.traffic.test_pairing import CALL, received, sent


def test_words_become_a_filter() -> None:
    assert read_filter(["desk", "errors", "add"], ["desk", "x"]) == TrafficFilter(("desk",), True, ("add",))
    assert read_filter([], ["desk"]) == TrafficFilter()


@pytest.mark.parametrize(
    ("words", "matches"),
    [
        ([], True),
        (["desk"], True),
        (["other"], False),
        (["errors"], False),
        (["TOOLS/CALL"], True),
        (["nosuch"], False),
    ],
)
def test_a_filter_selects_by_server_failure_and_words(words: list[str], matches: bool) -> None:
    traffic = LiveTraffic()
    for line in (sent(CALL), received({"id": 1, "result": {"text": "five"}})):
        traffic.on_traffic(line)
    [exchange] = traffic.log.all()
    assert read_filter(words, ["desk", "other"]).matches(exchange) is matches
    assert read_filter(["FIVE"], []).matches(exchange)


def follow(traffic: LiveTraffic, *words: str) -> tuple[list[tuple[int, str]], TrafficFollower, Any]:
    shown: list[tuple[int, str]] = []

    def show(exchange: TrafficExchange) -> None:
        shown.append((exchange.number, exchange.outcome))

    follower = TrafficFollower(read_filter(words, ["desk"]), show)
    return shown, follower, traffic.listening(follower.on_exchange)


async def test_an_exchange_is_shown_once_when_it_is_complete() -> None:
    traffic = LiveTraffic()
    shown, follower, listening = follow(traffic)
    with listening:
        traffic.on_traffic(sent(CALL))
        assert shown == []
        traffic.on_traffic(received({"id": 1, "result": {}}))
        traffic.on_traffic(received({"method": "notifications/progress", "params": {"progressToken": "t"}}))
    traffic.on_traffic(sent({"method": "notifications/initialized"}))
    follower.close()
    assert shown == [(1, "ok")]


async def test_a_long_request_is_shown_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_WAITING_SECONDS", 0.01)
    traffic = LiveTraffic()
    shown, follower, listening = follow(traffic)
    with listening:
        traffic.on_traffic(sent(CALL))
        async with asyncio.timeout(5):
            while not shown:
                await asyncio.sleep(0.01)
        traffic.on_traffic(received({"id": 1, "result": {}}))
    follower.close()
    assert shown == [(1, "waiting"), (1, "ok")]


async def test_a_flood_is_counted_and_not_shown() -> None:
    traffic = LiveTraffic()
    shown, follower, listening = follow(traffic)
    with listening:
        for _ in range(1000):
            traffic.on_traffic(received({"method": "notifications/message"}))
    assert len(shown) + follower.skipped == 1000 and 0 < len(shown) < 500
