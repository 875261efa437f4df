"""The queue of requests above the bound on requests in flight."""

from __future__ import annotations

import pytest

from dovetail.protocol.waiting_queue import WAITING_OVERHEAD, WaitingQueue


def test_requests_are_taken_in_the_order_of_their_arrival() -> None:
    queue: WaitingQueue[str] = WaitingQueue()
    for id in (3, "1", 2):
        assert queue.add(id, f"request {id}", 10)
    assert [queue.take() for _ in range(3)] == [(3, "request 3"), ("1", "request 1"), (2, "request 2")]
    assert not queue
    with pytest.raises(KeyError):
        queue.take()


def test_a_request_above_the_budget_is_not_added() -> None:
    queue: WaitingQueue[None] = WaitingQueue(max_bytes=2 * (WAITING_OVERHEAD + 100))
    assert queue.add(1, None, 100)
    assert not queue.add(2, None, 101)
    assert queue.add(2, None, 100)
    assert not queue.add(3, None, 0)
    assert list(queue) == [1, 2]


@pytest.mark.parametrize("way", ["taken", "removed"])
def test_a_request_that_has_left_makes_room(way: str) -> None:
    queue: WaitingQueue[str] = WaitingQueue(max_bytes=WAITING_OVERHEAD + 100)
    for id in range(1000):
        assert queue.add(id, "x", 100)
        assert (queue.take()[1] if way == "taken" else queue.remove(id)) == "x"


def test_a_single_request_always_fits() -> None:
    queue: WaitingQueue[None] = WaitingQueue(max_bytes=10)
    assert queue.add(1, None, 1_000_000)
    assert not queue.add(2, None, 1)
