"""The pauses between the connections of a stream, with values."""

import pytest

from dovetail.transports import reconnection
from dovetail.transports.reconnection import Reconnection


@pytest.fixture(params=[0.0, 0.5, 1.0], ids=["least", "middle", "most"])
def chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """Where in its range each random pause lies."""
    share: float = request.param

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * share

    monkeypatch.setattr(reconnection.random, "uniform", uniform)
    return share


def test_a_stream_that_ended_properly_is_opened_again_almost_at_once(chance: float):
    assert Reconnection().after_end(0, useful=True, broken=False) == pytest.approx(chance * 0.1)


def test_after_a_broken_stream_the_clients_of_a_server_do_not_come_all_at_the_same_time(chance: float):
    assert Reconnection().after_end(0, useful=True, broken=True) == pytest.approx(chance * 1.0)


def test_a_server_that_asks_for_more_time_gets_it(chance: float):
    assert Reconnection().after_end(0, useful=True, broken=False, retry=7.0) == 7.0
    assert Reconnection().after_failure(0, retry=50.0) == 50.0


def test_the_pause_grows_while_connections_bring_nothing_and_is_short_again_after_one_that_does(chance: float):
    streams, now, pauses = Reconnection(), 0.0, list[float]()
    for _ in range(8):
        pauses.append(streams.after_end(now, useful=False, broken=False, retry=0.0))
        now += 100
    highest = [0.1, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    lowest = [0.0] + [0.25] * 7
    assert pauses == pytest.approx([low + (high - low) * chance for low, high in zip(lowest, highest, strict=True)])
    assert streams.after_end(now, useful=True, broken=False) <= 0.1


def test_a_stream_that_cannot_be_opened_is_given_up_after_a_minute():
    streams, now, attempts = Reconnection(), 1000.0, 0
    while (pause := streams.after_failure(now)) is not None and attempts <= 40:
        assert 0.25 <= pause <= 30
        now += pause
        attempts += 1
    assert now <= 1060
    assert 3 <= attempts <= 40
    streams.connected()
    assert streams.after_failure(now + 1000) is not None


@pytest.mark.parametrize("useful", [True, False])
def test_a_server_gets_a_bounded_number_of_connections_a_minute_whatever_it_sends(useful: bool):
    streams, now, connections = Reconnection(), 0.0, 0
    most = 10 * reconnection.RECONNECTS_A_MINUTE + reconnection.RECONNECT_BURST + 1
    while now < 600 and connections <= most:
        now += streams.after_end(now, useful=useful, broken=False, retry=0.0)
        connections += 1
    assert connections <= most
