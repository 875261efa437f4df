"""Remote calls: a request that reaches one replica is served by another, which holds what the request belongs to.

The caller offers the call to the other replica. Exactly one of the two gets it: both try to add the same entry to the
store, the claim. If the other replica does not claim it in time, because it is gone, suspended or has lost what the
call belongs to, the caller claims it and serves it itself. Messages and the outcome come back over a relay log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError, outcome_unknown
from dovetail.runtime.serve import as_protocol_error
from dovetail.storage.contract import StoreError
from dovetail.transports.base import MessageSink

from .messages import RemoteCallCancelled, RemoteCallOffered, RemoteCallRead
from .relay_log import RELAY_SECONDS, Abandoned, RelayReader, RelayWriter, encode
from .replica import Replica

if TYPE_CHECKING:
    from dovetail.server.session import ServerCall

logger = logging.getLogger("dovetail")

CLAIM_SECONDS = 1.0
"""Seconds for which a replica that is alive may take to claim a call."""

WATCH_SECONDS = 2.0
"""Seconds between two looks at the heartbeat of the other replica."""

CONTACT_SECONDS = 10.0
"""Seconds without a sign of the other replica, or of the store, after which a call is given up."""

CLOSE_SECONDS = 2.0
MAX_OFFER = 16 * 1024 * 1024
"""The largest request in bytes that is offered to another replica; a larger one is served where it is."""


class AlreadyClaimed(Exception):
    """Another request has claimed the call."""


class PreparedCall(Protocol):
    """A call that this replica could serve for another one."""

    async def run(self, sink: MessageSink) -> bytes:
        """Serve it; messages to the client go to the sink. Returns the result, or raises ProtocolError."""
        ...

    def cancel(self) -> None:
        """Another replica serves it: release what it needs."""
        ...


Prepare: TypeAlias = "Callable[[bytes], PreparedCall | None]"
"""Finds what the body of an offer belongs to; None if it is not here."""


@contextlib.contextmanager
def serving_for_another(call: ServerCall) -> Generator[None]:
    """Serve a request for another replica: errors become those for its client, and nothing is reported after it."""
    try:
        yield
    except Exception as problem:
        raise as_protocol_error(call, problem) from problem
    finally:
        if call.progress_reporter is not None:
            call.progress_reporter.flush()
        call.silent = True


class Offer(NamedTuple):
    """A call for another replica."""

    kind: str
    claim: str
    """The entry that the replica which serves the call adds to the store."""
    claim_seconds: float
    body: bytes
    headers: Mapping[bytes, bytes]
    """The headers of the request, without credentials."""


class RemoteCalls:
    """The calls that one replica serves for others, and those that others serve for it."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._store = replica.store
        self._kinds: dict[str, Prepare] = {}
        self._serving: dict[str, RelayWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        replica.on(RemoteCallOffered, self._offered)
        replica.on(RemoteCallCancelled, self._cancelled)
        replica.on(RemoteCallRead, self._was_read)

    @property
    def replica(self) -> Replica:
        """The replica that serves them."""
        return self._replica

    def serve(self, kind: str, prepare: Prepare) -> None:
        """Serve the calls of one kind that other replicas offer."""
        self._kinds[kind] = prepare

    async def call(self, to: str, offer: Offer, sink: MessageSink, *, patience: float = CLAIM_SECONDS) -> bytes | None:
        """The result of a call that another replica serves; None if this replica has claimed it and has to serve it.

        `patience` is how many seconds the other one may take to claim it, as long as it is alive.

        Raises `AlreadyClaimed`; ProtocolError if the call failed, or if its outcome is unknown because the other
        replica is gone; and StoreError if the store fails before it is known who has the call.
        """
        if len(offer.body) > MAX_OFFER or not await self._replica.is_alive(to):
            await self._claim_here(offer, None)
            return None
        id = os.urandom(12).hex()
        reader = RelayReader(sink, lambda size, wait: self._spawn(self._acknowledge(to, id, size, sink, wait)))
        subscription = await self._store.follow(_log(id), 0, reader.received)
        try:
            headers = list(offer.headers.items())
            offered = RemoteCallOffered(id, self._replica.id, *offer[:4], headers, sink.no_requests)
            await self._replica.send(to, offered)
            await self._wait_for_claim(to, reader, patience)
            if not (reader.started.done() and reader.started.result()) and await self._claim_here(offer, id, reader):
                return None
            outcome = await self._outcome(to, id, reader)
        finally:
            subscription.close()
            self._spawn(self._leave(to, id, ended=reader.outcome.done()))
        if isinstance(outcome, ProtocolError):
            raise outcome
        return outcome

    async def _wait_for_claim(self, to: str, reader: RelayReader, patience: float) -> None:
        """Wait until the other replica has claimed or declined a call, is gone, or its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while (left := until - loop.time()) > 0:
            await asyncio.wait([reader.started], timeout=min(left, CLAIM_SECONDS))
            if reader.started.done() or (left > CLAIM_SECONDS and not await self._replica.is_alive(to)):
                return

    async def finish(self, grace: float) -> None:
        """Serve no further calls, let those that run end within the grace period, and cancel the others."""
        self._closing = True
        if running := [task for task in self._tasks if task.get_name() == _SERVING]:
            _, late = await asyncio.wait(running, timeout=grace)
            for task in late:
                task.cancel()

    async def close(self) -> None:
        """Wait for a moment until other replicas have been told of what has ended; then stop."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()

    async def _claim_here(self, offer: Offer, id: str | None, reader: RelayReader | None = None) -> bool:
        """True if this replica has the call now; False if the other one has claimed it for this request."""
        if await self._store.add(offer.claim, b"", offer.claim_seconds):
            return True
        if id is None or await self._store.get(offer.claim) != id.encode():
            raise AlreadyClaimed
        # It could not find out that its claim succeeded, and has declined: then the claim is ours.
        return reader is not None and reader.started.done() and not reader.started.result()

    async def _outcome(self, to: str, id: str, reader: RelayReader) -> bytes | ProtocolError:
        """Wait for the outcome, as long as the other replica is alive."""
        loop = asyncio.get_running_loop()
        contact, closed = loop.time(), False
        while True:
            await asyncio.wait([reader.outcome], timeout=WATCH_SECONDS)
            if reader.outcome.done():
                return reader.outcome.result()
            with contextlib.suppress(StoreError):
                if await self._replica.is_alive(to):
                    # Its log exists as long as it runs the call: one that gave the call up lets it expire.
                    if reader.started.done() and await self._store.last(_log(id)):
                        contact = loop.time()
                elif closed or await self._abandon(id):
                    return outcome_unknown("the replica that ran the call has ended")
                else:
                    closed = True  # by the other replica, before it ended: its last entry is on the way
            if loop.time() - contact > CONTACT_SECONDS:
                return outcome_unknown("the replica that ran the call cannot be reached")

    async def _abandon(self, id: str) -> bool:
        """Let nothing more be written to a relay log; False if it was closed already."""
        return await self._store.append(_log(id), [encode(Abandoned(0))], RELAY_SECONDS, close=True) is not None

    async def _leave(self, to: str, id: str, *, ended: bool) -> None:
        """Remove the relay log of a call that has ended; end one that has not."""
        with contextlib.suppress(StoreError):
            if ended:
                await self._store.drop(_log(id))
            elif await self._abandon(id):
                await self._replica.send(to, RemoteCallCancelled(id))

    async def _acknowledge(self, to: str, id: str, size: int, sink: MessageSink, wait: bool) -> None:
        if wait:
            await sink.drained()
        with contextlib.suppress(StoreError):
            await self._replica.send(to, RemoteCallRead(id, size))

    def _offered(self, offer: RemoteCallOffered) -> None:
        self._spawn(self._serve_offer(offer), _SERVING)

    def _cancelled(self, message: RemoteCallCancelled) -> None:
        if (writer := self._serving.get(message.call)) is not None:
            writer.close()

    def _was_read(self, message: RemoteCallRead) -> None:
        if (writer := self._serving.get(message.call)) is not None:
            writer.was_read(message.size)

    async def _serve_offer(self, offer: RemoteCallOffered) -> None:
        writer = RelayWriter(self._store, _log(offer.call), dict(offer.headers), offer.no_requests)
        self._serving[offer.call] = writer
        try:
            prepared = self._prepare(offer)
            if prepared is None:
                await writer.decline()
                return
            claimed = False
            try:
                claimed = await self._claim_for(offer) and not writer.closed
            finally:
                if not claimed:
                    prepared.cancel()
            if claimed:
                await self._run(offer, prepared, writer)
            elif not writer.closed:
                await writer.decline()
        finally:
            del self._serving[offer.call]

    def _prepare(self, offer: RemoteCallOffered) -> PreparedCall | None:
        prepare = self._kinds.get(offer.kind)
        if prepare is None or self._closing:
            return None
        try:
            return prepare(offer.body)
        except Exception:
            logger.exception("An offer of another replica could not be read")
            return None

    async def _claim_for(self, offer: RemoteCallOffered) -> bool:
        with contextlib.suppress(StoreError):
            return await self._store.add(offer.claim, offer.call.encode(), offer.claim_seconds)
        return False

    async def _run(self, offer: RemoteCallOffered, prepared: PreparedCall, writer: RelayWriter) -> None:
        loop = asyncio.get_running_loop()
        writer.start()
        running = loop.create_task(prepared.run(writer))
        writer.on_closed = running.cancel
        watcher = loop.create_task(self._watch(offer.by, writer, running))
        try:
            outcome: bytes | ProtocolError = await running
        except ProtocolError as problem:
            outcome = problem
        except asyncio.CancelledError:
            if writer.closed:
                return
            # This replica ends, or that of the client: if it was only suspended, it finds out why it has no result.
            await asyncio.wait([running])
            outcome = outcome_unknown("the replica that ran the call has stopped it")
        except Exception:
            logger.exception("Serving a call for another replica failed")
            outcome = ProtocolError(INTERNAL_ERROR, "Internal error")
        finally:
            watcher.cancel()
        writer.on_closed = None
        await writer.end(outcome)

    async def _watch(self, by: str, writer: RelayWriter, running: asyncio.Task[bytes]) -> None:
        """Cancel a call whose caller has ended, or does not wait for it any more."""
        while not writer.closed:
            await asyncio.sleep(WATCH_SECONDS)
            with contextlib.suppress(StoreError):
                await writer.touch()
                if not await self._replica.is_alive(by):
                    running.cancel()
                    return

    def _spawn(self, work: Coroutine[Any, Any, None], name: str = "dovetail-remote-call") -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_SERVING = "dovetail-serving-remote-call"


def _log(id: str) -> str:
    return f"relay:{id}"
