"""The order in which waiting jobs get a thread, and the share that one client or function may take."""

from collections.abc import Iterable

import pytest

from dovetail.runtime.fair_queue import FairQueue, Share


def filled(threads: int, shares: Iterable[Share]) -> FairQueue[Share]:
    queue = FairQueue[Share](threads)
    for share in shares:
        queue.add(share, share)
    return queue


def started(queue: FairQueue[Share], running: list[Share]) -> list[Share]:
    """The jobs that get a thread while none ends; `running` grows by them."""
    before = len(running)
    while (job := queue.take(running)) is not None:
        running.append(job)
    return running[before:]


class TestShares:
    def test_one_function_of_one_client_takes_half_of_the_threads(self):
        assert len(started(filled(64, [("bob", "slow")] * 100), [])) == 32

    def test_one_client_takes_three_quarters_of_the_threads(self):
        jobs: list[Share] = [("bob", f"tool {n % 20}") for n in range(1000)]
        assert len(started(filled(64, jobs), [])) == 48

    def test_one_function_takes_three_quarters_of_the_threads(self):
        jobs: list[Share] = [(f"client {n % 20}", "hangs") for n in range(1000)]
        assert len(started(filled(64, jobs), [])) == 48

    @pytest.mark.parametrize("other", [("ann", "slow"), ("ann", "quick"), ("bob", "quick")])
    def test_another_client_or_function_still_gets_a_thread(self, other: Share):
        running: list[Share] = []
        queue = filled(64, [("bob", "slow")] * 100)
        started(queue, running)
        queue.add(other, other)
        assert started(queue, running) == [other]

    def test_several_clients_that_block_leave_a_thread_to_one_more(self):
        running: list[Share] = []
        for name in ("bob", "eve", "dan"):
            queue = filled(64, [(name, f"tool {n % 20}") for n in range(1000)])
            started(queue, running)
        assert len(running) < 64
        assert started(filled(64, [("ann", "quick")]), running) == [("ann", "quick")]

    def test_no_more_jobs_start_than_there_are_threads(self):
        jobs: list[Share] = [(n, n) for n in range(1000)]
        assert len(started(filled(8, jobs), [])) == 8


class TestOrder:
    def test_jobs_of_one_client_and_function_start_in_their_order(self):
        queue = FairQueue[int](4)
        for n in range(10):
            queue.add(("ann", "add"), n)
        assert [queue.take([]) for _ in range(10)] == list(range(10))
        assert not queue

    def test_clients_and_functions_take_turns(self):
        jobs: list[Share] = [("bob", "a"), ("bob", "a"), ("bob", "a"), ("ann", "a"), ("bob", "b"), ("ann", "b")]
        queue = filled(4, jobs)
        order = [queue.take([]) for _ in jobs]
        assert order == [("bob", "a"), ("bob", "b"), ("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "a")]

    def test_an_empty_queue_has_no_job(self):
        queue = FairQueue[int](4)
        assert queue.take([]) is None
        assert not queue
