"""Threads for plain functions: as many as are needed up to a bound, for any number of loops."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from dovetail.runtime import thread_pool
from dovetail.runtime.thread_pool import ThreadPool
from tests.support.waiting import until

PATIENCE = 30.0


@pytest.fixture(params=["eventfd", "lock"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPool]:
    if request.param == "lock":

        def none(*, blocking: bool) -> None:
            """As on a system without eventfd."""

        monkeypatch.setattr(thread_pool, "_eventfd", none)
    threads = ThreadPool(8)  # of which one function of one client gets four
    yield threads
    threads.stop()


class Held:
    """A function that shows when it begins and blocks until `go` is set."""

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
    async def test_the_result_of_the_function_is_returned(self, pool: ThreadPool):
        assert await pool.run(lambda: 40 + 2) == 42

    async def test_the_function_runs_in_another_thread(self, pool: ThreadPool):
        assert await pool.run(threading.get_ident) != threading.get_ident()

    async def test_the_function_runs_in_a_copy_of_the_context_of_the_caller(self, pool: ThreadPool):
        variable = contextvars.ContextVar("variable", default="nothing")
        variable.set("mine")
        assert await pool.run(variable.get) == "mine"
        await pool.run(lambda: variable.set("theirs"))
        assert variable.get() == "mine"

    @pytest.mark.parametrize("problem", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
    async def test_an_exception_of_the_function_is_raised_to_the_caller(self, pool: ThreadPool, problem: BaseException):
        caught: BaseException | None = None
        try:
            await pool.run(raising(problem))
        except BaseException as raised:
            caught = raised
        assert caught is problem
        assert await pool.run(lambda: "alive") == "alive"

    @pytest.mark.parametrize("problem", [StopIteration(), asyncio.CancelledError(), GeneratorExit()])
    async def test_exceptions_that_asyncio_treats_as_signals_become_runtime_errors(
        self, pool: ThreadPool, problem: BaseException
    ):
        with pytest.raises(RuntimeError, match=f"the handler raised {type(problem).__name__}"):
            await pool.run(raising(problem))

    async def test_the_loop_is_not_blocked_by_a_function_that_blocks(self, pool: ThreadPool):
        held = Held()
        running = asyncio.create_task(pool.run(held))
        await until(held.begun.is_set)
        held.go.set()
        assert await running == "done"

    async def test_more_jobs_than_threads_all_return_their_results(self, pool: ThreadPool):
        values = await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(500)))
        assert values == list(range(500))


class TestCallAny:
    async def test_an_async_function_runs_on_the_loop(self, pool: ThreadPool):
        async def here(value: int) -> tuple[int, int]:
            return value, threading.get_ident()

        assert await pool.call_any(here, 7) == (7, threading.get_ident())

    async def test_a_plain_function_runs_in_a_thread(self, pool: ThreadPool):
        value, thread = await pool.call_any(lambda value: (value, threading.get_ident()), 7)  # pyright: ignore[reportUnknownLambdaType]
        assert value == 7
        assert thread != threading.get_ident()

    async def test_a_partial_of_an_async_function_runs_on_the_loop(self, pool: ThreadPool):
        async def here(_: int) -> int:
            return threading.get_ident()

        assert await pool.call_any(functools.partial(functools.partial(here, 1))) == threading.get_ident()

    async def test_an_object_with_an_async_call_method_runs_on_the_loop(self, pool: ThreadPool):
        class Here:
            async def __call__(self) -> int:
                return threading.get_ident()

        assert await pool.call_any(Here()) == threading.get_ident()

    async def test_an_awaitable_that_a_plain_function_returns_is_awaited_on_the_loop(self, pool: ThreadPool):
        async def here() -> int:
            return threading.get_ident()

        assert await pool.call_any(lambda: here()) == threading.get_ident()


class TestThreads:
    async def test_jobs_one_by_one_share_one_thread(self, pool: ThreadPool):
        assert len({await pool.run(threading.get_ident) for _ in range(20)}) == 1

    async def test_threads_never_exceed_the_limit(self, pool: ThreadPool):
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

        await asyncio.gather(*(pool.run(count) for _ in range(40)))
        assert 1 <= most <= 4

    async def test_the_pool_grows_to_the_jobs_that_run_at_once(self, pool: ThreadPool):
        together = threading.Barrier(4)
        await asyncio.gather(*(pool.run(lambda: together.wait(PATIENCE)) for _ in range(4)))

    async def test_a_stopped_pool_ends_its_threads_and_starts_new_ones_for_new_jobs(self):
        pool = ThreadPool(8)
        before = set(threading.enumerate())
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(pool.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        pool.stop()
        assert await pool.run(lambda: "new") == "new"
        for function in held:
            function.go.set()
        assert await asyncio.gather(*running) == ["done"] * 4
        pool.stop()
        await until(lambda: not set(threading.enumerate()) - before)

    async def test_threads_are_daemons_so_that_the_process_can_exit(self, pool: ThreadPool):
        thread = await pool.run(threading.current_thread)
        assert thread.daemon
        assert thread.name.startswith("dovetail-worker-")


class TestCancelling:
    async def test_a_cancelled_caller_stops_waiting_at_once(self, pool: ThreadPool):
        held = Held()
        running = asyncio.create_task(pool.run(held))
        await until(held.begun.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.go.set()
        assert await pool.run(lambda: "next") == "next"

    async def test_a_function_cancelled_before_it_starts_never_runs(self, pool: ThreadPool):
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(pool.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        late = Held()
        waiting = asyncio.create_task(pool.run(late))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for function in held:
            function.go.set()
        await asyncio.gather(*running)
        await asyncio.gather(*(pool.run(lambda: None) for _ in range(8)))
        assert not late.begun.is_set()

    async def test_a_cancelled_function_is_released_while_all_threads_are_busy(self, pool: ThreadPool):
        held = [Held() for _ in range(4)]
        running = [asyncio.create_task(pool.run(function)) for function in held]
        await until(lambda: all(function.begun.is_set() for function in held))
        late = Held()
        gone = weakref.ref(late)
        waiting = asyncio.create_task(pool.run(late))
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

    async def test_an_exception_after_cancellation_is_not_logged_as_never_retrieved(self, pool: ThreadPool):
        go = threading.Event()

        def fail() -> None:
            assert go.wait(PATIENCE)
            raise ValueError("too late")

        def cancel() -> None:
            running.cancel()

        # In one turn of the loop: the error is there, and its caller is cancelled before it sees it.
        running = asyncio.create_task(pool.run(fail, cancel))
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def test_ended_is_called_on_the_loop_when_the_thread_is_free_again(self, pool: ThreadPool):
        held = Held()
        ended: list[int] = []
        running = asyncio.create_task(pool.run(held, lambda: ended.append(threading.get_ident())))
        await until(held.begun.is_set)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert ended == []
        held.go.set()
        await until(lambda: ended)
        assert ended == [threading.get_ident()]


class TestLoops:
    def test_loops_one_after_the_other_share_a_pool(self, pool: ThreadPool):
        for n in range(3):
            assert asyncio.run(pool.run(lambda n=n: n)) == n

    def test_a_loop_closed_while_a_thread_runs_leaves_the_pool_usable(self, pool: ThreadPool):
        held = Held()

        async def leave() -> None:
            running = asyncio.create_task(pool.run(held))
            await until(held.begun.is_set)
            running.cancel()

        asyncio.run(leave())
        held.go.set()

        async def come_back() -> list[Any]:
            return await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(20)))

        assert asyncio.run(come_back()) == list(range(20))

    def test_loops_in_several_threads_share_a_pool(self, pool: ThreadPool):
        results: dict[int, list[int]] = {}

        async def work(name: int) -> None:
            results[name] = [await pool.run(lambda n=n: n * name) for n in range(200)]

        threads = [threading.Thread(target=lambda name=name: asyncio.run(work(name))) for name in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert results == {name: [n * name for n in range(200)] for name in (1, 2, 3)}

    @pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs the proc file system")
    def test_closed_loops_and_stopped_pools_leave_no_descriptors_open(self):
        before = set(threading.enumerate())

        def use_and_drop() -> None:
            pool = ThreadPool(4)
            assert asyncio.run(pool.run(lambda: 1)) == 1
            pool.stop()

        use_and_drop()
        gc.collect()
        opened = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            use_and_drop()
        gc.collect()
        deadline = time.monotonic() + PATIENCE
        while set(threading.enumerate()) - before and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(os.listdir("/proc/self/fd")) <= opened

    def test_no_job_is_lost_when_threads_fall_asleep_as_jobs_arrive(self, pool: ThreadPool):
        async def work(number: int) -> int:
            total = 0
            for n in range(300):
                total += await pool.run(lambda n=n: n)
                if n % 7 == number:
                    await asyncio.sleep(0)
            return total

        async def together() -> list[int]:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.gather(*(work(number) for number in range(6)))

        results: list[list[int]] = []
        threads = [threading.Thread(target=lambda: results.append(asyncio.run(together()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert results == [[sum(range(300))] * 6] * 3

    def test_no_job_is_lost_while_threads_are_scarce(self, pool: ThreadPool):
        """More jobs at once than threads, of several clients and functions, that block for a moment."""

        async def work(client: int) -> int:
            async def one(n: int) -> int:
                return await pool.run(lambda: time.sleep(0.0005 * (n % 3)) or n, None, (client % 4, n % 5))

            total = 0
            for _ in range(10):
                total += sum(await asyncio.gather(*(one(n) for n in range(12))))
            return total

        async def together() -> list[int]:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.gather(*(work(client) for client in range(6)))

        results: list[list[int]] = []
        threads = [threading.Thread(target=lambda: results.append(asyncio.run(together()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert results == [[10 * sum(range(12))] * 6] * 3

    async def test_the_context_of_the_first_caller_is_not_kept(self, pool: ThreadPool):
        class Value:
            pass

        variable: contextvars.ContextVar[Value] = contextvars.ContextVar("variable")

        async def call() -> weakref.ref[Value]:
            value = Value()
            variable.set(value)
            await pool.run(lambda: None)
            return weakref.ref(value)

        gone = await asyncio.create_task(call())
        await until(lambda: gone() is None)


@contextlib.asynccontextmanager
async def blocked(pool: ThreadPool) -> AsyncIterator[list[Held]]:
    """One client's blocking calls of one function, more than there are threads; they take the share of that client."""
    held = [Held() for _ in range(20)]
    running = [asyncio.create_task(pool.run(function, None, ("bob", "slow"))) for function in held]
    await until(lambda: sum(function.begun.is_set() for function in held) == 4)
    yield held
    for function in held:
        function.go.set()
    assert await asyncio.gather(*running) == ["done"] * 20


@pytest.mark.attack("L2")
class TestFairness:
    @pytest.mark.parametrize("share", [("ann", "slow"), ("ann", "quick"), ("bob", "quick")])
    async def test_another_client_or_function_does_not_wait(self, pool: ThreadPool, share: tuple[str, str]):
        async with asyncio.timeout(PATIENCE), blocked(pool):
            assert [await pool.run(lambda n=n: n, None, share) for n in range(50)] == list(range(50))

    async def test_a_job_beyond_the_share_runs_when_a_thread_is_free_again(self, pool: ThreadPool):
        late = Held()
        async with blocked(pool) as held:
            waiting = asyncio.create_task(pool.run(late, None, ("bob", "slow")))
            for _ in range(3):
                await pool.run(lambda: None, None, ("ann", "quick"))
            assert not late.begun.is_set()
            for function in held:
                function.go.set()
            await until(late.begun.is_set)
            late.go.set()
            assert await waiting == "done"

    async def test_a_job_cancelled_while_it_waits_never_runs(self, pool: ThreadPool):
        late = Held()
        async with blocked(pool) as held:
            waiting = asyncio.create_task(pool.run(late, None, ("bob", "slow")))
            await pool.run(lambda: None, None, ("ann", "quick"))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            for function in held:
                function.go.set()
            await until(lambda: all(function.begun.is_set() for function in held))
            await pool.run(lambda: None, None, ("bob", "slow"))
            assert not late.begun.is_set()
