"""Threads for plain functions: as many as are needed up to a bound, for any number of loops."""

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dovetail.runtime.thread_pool import Workers
from tests.support.waiting import until

PATIENCE = 30.0


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(4)
    yield pool
    pool.stop()


class Held:
    """A function that shows when it begins and runs until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "done"


def raising(problem: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise problem

    return fail


class TestRunning:
    async def test_the_result_comes_back(self, workers: Workers):
        assert await workers.run(lambda: 40 + 2) == 42

    async def test_it_runs_in_another_thread(self, workers: Workers):
        assert await workers.run(threading.get_ident) != threading.get_ident()

    async def test_in_the_context_of_the_caller(self, workers: Workers):
        variable = contextvars.ContextVar("variable", default="nothing")
        variable.set("mine")
        assert await workers.run(variable.get) == "mine"
        await workers.run(lambda: variable.set("theirs"))
        assert variable.get() == "mine"

    @pytest.mark.parametrize("problem", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
    async def test_what_it_raises_is_raised(self, workers: Workers, problem: BaseException):
        caught: BaseException | None = None
        try:
            await workers.run(raising(problem))
        except BaseException as raised:
            caught = raised
        assert caught is problem
        assert await workers.run(lambda: "alive") == "alive"

    @pytest.mark.parametrize("problem", [StopIteration(), asyncio.CancelledError(), GeneratorExit()])
    async def test_what_a_waiting_coroutine_would_misread_is_an_error_in_words(
        self, workers: Workers, problem: BaseException
    ):
        with pytest.raises(RuntimeError, match=f"the handler raised {type(problem).__name__}"):
            await workers.run(raising(problem))

    async def test_the_loop_goes_on_meanwhile(self, workers: Workers):
        held = Held()
        running = asyncio.create_task(workers.run(held))
        await until(held.begun.is_set)
        held.go.set()
        assert await running == "done"

    async def test_many_at_once_all_come_back(self, workers: Workers):
        values = await asyncio.gather(*(workers.run(lambda n=n: n) for n in range(500)))
        assert values == list(range(500))


class TestThreads:
    async def test_one_is_enough_for_one_after_the_other(self, workers: Workers):
        assert len({await workers.run(threading.get_ident) for _ in range(20)}) == 1

    async def test_never_more_than_the_bound(self, workers: Workers):
        running = most = 0
        lock = threading.Lock()

        def count() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.001)
            with lock:
                running -= 1

        await asyncio.gather(*(workers.run(count) for _ in range(40)))
        assert 1 <= most <= 4

    async def test_as_many_as_are_needed(self, workers: Workers):
        together = threading.Barrier(4)
        await asyncio.gather(*(workers.run(lambda: together.wait(PATIENCE)) for _ in range(4)))

    async def test_stopped_they_end_and_new_ones_start_when_needed(self):
        workers = Workers(4)
        before = set(threading.enumerate())
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(workers.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        workers.stop()
        assert await workers.run(lambda: "new") == "new"
        for function in held:
            function.go.set()
        assert await asyncio.gather(*running) == ["done"] * 4
        workers.stop()
        await until(lambda: not set(threading.enumerate()) - before)

    async def test_they_keep_no_process_alive(self, workers: Workers):
        thread = await workers.run(threading.current_thread)
        assert thread.daemon
        assert thread.name.startswith("dovetail-worker-")


class TestCancelling:
    async def test_a_caller_that_is_cancelled_stops_waiting_at_once(self, workers: Workers):
        held = Held()
        running = asyncio.create_task(workers.run(held))
        await until(held.begun.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.go.set()
        assert await workers.run(lambda: "next") == "next"

    async def test_a_function_that_has_not_begun_by_then_never_will(self, workers: Workers):
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(workers.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        late = Held()
        waiting = asyncio.create_task(workers.run(late))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for function in held:
            function.go.set()
        await asyncio.gather(*running)
        await asyncio.gather(*(workers.run(lambda: None) for _ in range(8)))
        assert not late.begun.is_set()

    async def test_and_what_it_holds_is_let_go_although_no_thread_is_free(self, workers: Workers):
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(workers.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        late = Held()
        gone = weakref.ref(late)
        waiting = asyncio.create_task(workers.run(late))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        del late, waiting
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None
        for function in held:
            function.go.set()
        await asyncio.gather(*running)

    async def test_an_error_that_comes_too_late_is_not_reported_as_unseen(self, workers: Workers):
        loop = asyncio.get_running_loop()

        def fail() -> None:
            raise ValueError("too late")

        def cancel() -> None:
            loop.call_soon(running.cancel)

        # In one turn of the loop: the error is there, and its caller is cancelled before it hears of it.
        running = asyncio.create_task(workers.run(fail, cancel))
        with pytest.raises(asyncio.CancelledError):
            await running

    async def test_who_wants_to_know_is_told_when_the_thread_is_free_again(self, workers: Workers):
        held = Held()
        told: list[int] = []
        running = asyncio.create_task(workers.run(held, lambda: told.append(threading.get_ident())))
        await until(held.begun.is_set)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert told == []
        held.go.set()
        await until(lambda: told)
        assert told == [threading.get_ident()]


class TestLoops:
    def test_one_after_the_other(self, workers: Workers):
        for n in range(3):
            assert asyncio.run(workers.run(lambda n=n: n)) == n

    def test_a_loop_that_ended_while_a_thread_was_running_leaves_nothing_stuck(self, workers: Workers):
        held = Held()

        async def leave() -> None:
            running = asyncio.create_task(workers.run(held))
            await until(held.begun.is_set)
            running.cancel()

        asyncio.run(leave())
        held.go.set()

        async def come_back() -> list[Any]:
            return await asyncio.gather(*(workers.run(lambda n=n: n) for n in range(20)))

        assert asyncio.run(come_back()) == list(range(20))

    def test_two_at_once(self, workers: Workers):
        results: dict[int, list[int]] = {}

        async def work(name: int) -> None:
            results[name] = [await workers.run(lambda n=n: n * name) for n in range(200)]

        threads = [threading.Thread(target=lambda name=name: asyncio.run(work(name))) for name in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert results == {name: [n * name for n in range(200)] for name in (1, 2, 3)}
