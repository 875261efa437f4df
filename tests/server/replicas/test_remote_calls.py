"""Remote calls: one of two replicas serves a call, and the client gets everything over the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import pytest

from dovetail.protocol.errors import INVALID_PARAMS, OUTCOME_UNKNOWN, ProtocolError
from dovetail.server.replicas import relay_log, remote_calls
from dovetail.server.replicas.messages import RemoteCallOffered
from dovetail.server.replicas.remote_calls import AlreadyClaimed, Offer, PreparedCall, RemoteCalls
from dovetail.server.replicas.replica import Replica
from dovetail.storage import MemoryStore, StoreError
from dovetail.transports.base import HIGH_WATER, MessageSink
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled, until

Run = Callable[[MessageSink], "asyncio.Future[bytes]"]


class Client:
    """The sink of a client: what it got, and whether it reads."""

    no_requests: str | None = None

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()

    @property
    def congested(self) -> bool:
        return not self.reads.is_set()

    def send(self, line: bytes) -> None:
        self.lines.append(line)

    def finish(self, line: bytes | None) -> None: ...

    def disconnect(self, retry: float) -> None: ...

    async def drained(self) -> None:
        await self.reads.wait()


class Waiting:
    """A call that waits at one replica; a test decides what it does."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lines: list[bytes] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.result: bytes | Exception = b"result"
        self.sink: MessageSink | None = None

    async def run(self, sink: MessageSink) -> bytes:
        self.events.append("run")
        self.sink = sink
        try:
            for line in self.lines:
                sink.send(line)
                if sink.congested:
                    await sink.drained()
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise
        self.events.append("end")
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def cancel(self) -> None:
        self.events.append("released")


class Pair:
    """Two replicas over one store: a call waits at `there`, and its retry comes to `here`."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.here_replica, self.there_replica = Replica(store), Replica(store)
        self.here, self.there = RemoteCalls(self.here_replica), RemoteCalls(self.there_replica)
        self.waiting = Waiting()
        self.client = Client()
        self.prepared: list[bytes] = []
        self.there.serve("resume", self._prepare)

    def _prepare(self, body: bytes) -> PreparedCall | None:
        self.prepared.append(body)
        return self.waiting if body == b"waits" else None

    async def call(self, body: bytes = b"waits", claim: str = "state:1") -> bytes | None:
        offer = Offer("resume", claim, 60, body, {b"x-tenant": b"7"})
        return await self.here.call(self.there_replica.id, offer, self.client)

    async def crash(self) -> None:
        """End the replica where the call waits as a killed process would: without a word."""
        for subscription in self.there_replica._subscriptions:
            subscription.close()
        for writer in self.there._serving.values():
            writer.closed = True
        for task in [*self.there_replica._tasks, *self.there._tasks]:
            task.cancel()
        await self.store.delete(f"replica:{self.there_replica.id}")


@contextlib.asynccontextmanager
async def pair() -> AsyncGenerator[Pair]:
    store = MemoryStore()
    both = Pair(store)
    await both.here_replica.open()
    await both.there_replica.open()
    try:
        yield both
    finally:
        await asyncio.gather(both.here.finish(0), both.there.finish(0))
        await asyncio.gather(both.here.close(), both.there.close())
        await both.here_replica.close()
        await both.there_replica.close()
        await store.close()


async def test_the_result_and_all_messages_arrive_in_order() -> None:
    async with pair() as both:
        both.waiting.lines = [b"%d" % number for number in range(100)]
        assert await both.call() == b"result"
        assert both.client.lines == both.waiting.lines
        assert both.waiting.events == ["run", "end"]
        assert await both.store.get("state:1") is not None


async def test_the_headers_of_the_request_arrive_with_it() -> None:
    async with pair() as both:
        await both.call()
        assert getattr(both.waiting.sink, "request_headers") == {b"x-tenant": b"7"}  # noqa: B009


@pytest.mark.parametrize("size", [relay_log.PART_BYTES, relay_log.PART_BYTES + 1, 3_000_000])
async def test_a_large_result_arrives_in_parts(size: int) -> None:
    async with pair() as both:
        both.waiting.result = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert await both.call() == both.waiting.result


async def test_a_result_that_no_client_would_accept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_log, "MAX_RELAYED", 10)
    async with pair() as both:
        both.waiting.result = b"x" * 11
        with pytest.raises(ProtocolError, match="The result has 11 bytes; one replica can relay 10"):
            await both.call()


async def test_an_error_arrives_with_its_data() -> None:
    async with pair() as both:
        both.waiting.result = ProtocolError(INVALID_PARAMS, "no", {"field": [1]})
        with pytest.raises(ProtocolError) as caught:
            await both.call()
        assert (caught.value.code, caught.value.message, caught.value.data) == (INVALID_PARAMS, "no", {"field": [1]})


async def test_a_call_that_does_not_wait_there_is_claimed_here_at_once() -> None:
    async with pair() as both:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await both.call(b"lost") is None
        assert loop.time() - began < remote_calls.CLAIM_SECONDS
        assert await both.store.get("state:1") is not None
        with pytest.raises(AlreadyClaimed):
            await both.call(b"lost")


async def test_of_many_requests_for_one_call_one_gets_it() -> None:
    async with pair() as both:
        outcomes = await asyncio.gather(*(both.call() for _ in range(10)), return_exceptions=True)
        assert sorted(map(repr, outcomes)) == sorted([repr(b"result"), *["AlreadyClaimed()"] * 9])


async def test_a_replica_that_has_ended_is_not_asked() -> None:
    async with pair() as both:
        await both.crash()
        assert await both.call() is None
        assert both.prepared == []


async def test_a_replica_that_does_not_answer_loses_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_calls, "CLAIM_SECONDS", 0.05)
    async with pair() as both:
        handlers, both.there_replica._handlers = both.there_replica._handlers, {}  # alive, but it does not get to it
        offers: list[RemoteCallOffered] = []
        both.there_replica.on(RemoteCallOffered, offers.append)
        assert await both.call() is None
        both.there_replica._handlers = handlers
        [offer] = offers
        both.there._offered(offer)
        await until(lambda: both.waiting.events == ["released"])


async def test_a_replica_that_claimed_without_saying_so_in_time_serves_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_calls, "CLAIM_SECONDS", 0.05)
    async with pair() as both:
        started = relay_log.RelayWriter.start
        held: list[relay_log.RelayWriter] = []
        monkeypatch.setattr(relay_log.RelayWriter, "start", lambda writer: held.append(writer))
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: bool(held))
        await asyncio.sleep(0.1)
        assert not call.done()
        started(held[0])
        both.waiting.go_on.set()
        assert await call == b"result"
        assert both.waiting.events == ["run", "end"]


async def test_the_outcome_is_unknown_if_the_replica_ends_after_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_calls, "WATCH_SECONDS", 0.05)
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        await both.crash()
        with pytest.raises(ProtocolError, match="the replica that ran the call has ended") as caught:
            await call
        assert caught.value.data == {OUTCOME_UNKNOWN: True}
        with pytest.raises(AlreadyClaimed):
            await both.call()


async def test_a_replica_that_was_suspended_stops_when_it_finds_the_call_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_calls, "WATCH_SECONDS", 0.05)
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        both.there_replica._handlers = {}  # the cancellation is lost as well
        await both.store.delete(f"replica:{both.there_replica.id}")
        with pytest.raises(ProtocolError):
            await call
        await until(lambda: both.waiting.events == ["run", "cancelled"])


async def test_a_client_that_goes_cancels_the_call_where_it_runs() -> None:
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        call.cancel()
        await until(lambda: both.waiting.events == ["run", "cancelled"])


async def test_a_call_is_cancelled_when_the_replica_of_its_client_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_calls, "WATCH_SECONDS", 0.05)
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        await both.store.delete(f"replica:{both.here_replica.id}")
        # It was not gone for good, and its client still waits.
        with pytest.raises(ProtocolError, match="has stopped it"):
            await call
        assert both.waiting.events == ["run", "cancelled"]


async def test_a_call_that_its_replica_has_given_up_without_a_word_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_calls, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(remote_calls, "CONTACT_SECONDS", 0.1)
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        [(id, writer)] = both.there._serving.items()
        writer.on_closed = None
        writer.close()
        await both.store.drop(f"relay:{id}")
        with pytest.raises(ProtocolError, match="cannot be reached") as caught:
            await call
        assert caught.value.data == {OUTCOME_UNKNOWN: True}


async def test_a_handler_waits_for_a_client_that_does_not_read() -> None:
    async with pair() as both:
        both.client.reads.clear()
        both.waiting.lines = [b"x" * 10_000] * 200
        call = asyncio.create_task(both.call())
        await until(lambda: sum(map(len, both.client.lines)) > HIGH_WATER)
        await settled()
        assert sum(map(len, both.client.lines)) <= HIGH_WATER + 20_000
        both.client.reads.set()
        assert await call == b"result"
        assert both.client.lines == both.waiting.lines


async def test_a_store_that_is_away_for_a_moment_loses_and_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair() as both:
        append, failures = both.store.append, iter([True, False, True] * 3 + [False] * 1000)

        async def unreliable(log: str, *args: object, **options: object) -> int | None:
            position = await append(log, *args, **options)  # pyright: ignore[reportArgumentType]
            if log.startswith("relay:") and next(failures):
                raise StoreError("no answer in time")
            return position

        monkeypatch.setattr(both.store, "append", unreliable)
        both.waiting.lines = [b"%d" % number for number in range(10)]
        assert await both.call() == b"result"
        assert both.client.lines == both.waiting.lines


async def test_a_replica_that_shuts_down_lets_calls_end_and_tells_about_the_others() -> None:
    async with pair() as both:
        both.waiting.go_on.clear()
        call = asyncio.create_task(both.call())
        await until(lambda: both.waiting.events == ["run"])
        finishing = asyncio.create_task(both.there.finish(0.05))
        with pytest.raises(ProtocolError, match="has stopped it") as caught:
            await call
        assert caught.value.data == {OUTCOME_UNKNOWN: True}
        await finishing
        assert both.waiting.events == ["run", "cancelled"]
        assert await both.call(claim="state:2") is None


async def test_nothing_is_left_of_a_call_that_has_ended() -> None:
    async with nothing_left_on_the_loop(), pair() as both:
        await both.call()
        await until(lambda: not both.here._tasks and not both.there._tasks)
        assert both.there._serving == {}
