"""The suspended calls of one server, and the sealed state by which a retry finds them again."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dovetail.protocol.client_address import client_text
from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError
from dovetail.protocol.mrtr import (
    MAX_ROUNDS,
    MAX_STATE_SECONDS,
    CallState,
    Journal,
    JournalEntry,
    PendingInput,
    state_binding,
    too_many_rounds,
)
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.seal import MAX_SEALED, KeyRing
from dovetail.runtime.connection import CLEAN_UP_SECONDS
from dovetail.server.invocation import Handle, HandlerServer, Invocation
from dovetail.server.session import ServerCall, Session
from dovetail.types.base import RetriedParams
from dovetail.types.client_features import InputRequest, InputRequired, method_of
from dovetail.types.fair_bounded_dict import FairBoundedDict
from dovetail.types.serialization import Value

from .suspendable_call import SuspendableCall, load_answer
from .used_states import UsedStates

if TYPE_CHECKING:
    from dovetail.server.replicas.remote_calls import RemoteCalls

    from .remote_resumption import RemoteResumption, ResumingServer
    from .stored_keys import StoredKeys

MAX_SUSPENDED = 1000
"""Calls suspended in this process. Above it the oldest of the client with the most is cancelled, and its retry runs
from the journal."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CallState).decode

Answers = dict[str, tuple[Any, Value]]
"""Answers by key, raw and as values."""


class Suspended(NamedTuple):
    """A suspended call, the invocation it resumes with, its state as it was sealed, and when its waiting ends."""

    suspendable: SuspendableCall
    invocation: Invocation
    saved: CallState
    timer: asyncio.TimerHandle


class StillRunning(NamedTuple):
    """A call whose handler still runs after the time that the request may take."""

    suspendable: SuspendableCall
    invocation: Invocation


class TakenCall:
    """A suspended call that another replica has a retry for."""

    def __init__(self, calls: SuspendedCalls, waiting: Suspended) -> None:
        self._calls = calls
        self._waiting = waiting

    @property
    def session(self) -> Session:
        """The client of the call."""
        return self._waiting.invocation.call.session

    async def resume(self, call: ServerCall) -> Value | bytes:
        """Go on with the answers of the retry, which the other replica has checked."""
        params = call.terms.revision.accept("client", call.request.method, call.request.params)
        assert isinstance(params, RetriedParams)
        return await self._calls.resume(self._waiting, call, params.input_responses or {})

    def cancel(self) -> None:
        """Cancel the handler."""
        self._waiting.suspendable.cancel()


class SuspendedCalls:
    """Serves calls whose handlers may ask for input in rounds (2026-07-28 mrtr)."""

    def __init__(
        self,
        ring: KeyRing,
        seconds: float = MAX_STATE_SECONDS,
        clock: Callable[[], float] = time.time,
        used: UsedStates | None = None,
    ) -> None:
        self._ring = ring
        self.stored_keys: StoredKeys | None = None
        """Fetches the keys of the ring, where they are in a store."""
        self._seconds = seconds
        self._clock = clock
        self._suspended: FairBoundedDict[str, str, Suspended] = FairBoundedDict(MAX_SUSPENDED)
        self._remote: RemoteResumption | None = None
        self.used = used or UsedStates(seconds, clock())

    def __len__(self) -> int:
        return len(self._suspended)

    def share(self, remote_calls: RemoteCalls, server: ResumingServer) -> None:
        """Resume calls where they wait, also if their retries reach another replica."""
        from .remote_resumption import RemoteResumption

        self._remote = RemoteResumption(remote_calls, server, self._take)

    async def serve(
        self, server: HandlerServer, call: ServerCall, params: RetriedParams, handle: Handle, *, keep: bool = True
    ) -> Value | bytes:
        """Run a handler until it has a result or needs input; resume one that waits for these answers.

        A handler that is not to be kept is cancelled when it asks, and runs again from its journal. The result is
        encoded already if another replica made it.
        """
        result = await self.serve_for(None, server, call, params, handle, keep=keep)
        assert not isinstance(result, StillRunning)
        return result

    async def serve_for(
        self,
        seconds: float | None,
        server: HandlerServer,
        call: ServerCall,
        params: RetriedParams,
        handle: Handle,
        *,
        keep: bool = True,
    ) -> Value | bytes | StillRunning:
        """Serve a call, but hand its handler over to the caller if it still runs after so many seconds."""
        state, revision = params.request_state, call.terms.revision
        # A handler that goes on at another replica cannot be handed over here: it runs again from its journal.
        keep = keep and (seconds is None or self._remote is None)
        saved = CallState("", 0, 0, {}, {}) if state is None else await self._open(state, call)
        answers = _read_answers(saved, params.input_responses or {}, revision)
        if state is not None and (result := await self._claim(saved, call)) is not None:
            return result
        waiting = self._pop(saved.id)
        if waiting is not None:
            suspendable, invocation = waiting.suspendable, waiting.invocation
            invocation.resume(call)
            suspendable.resume(answers)
        else:
            if saved.by_hand:
                saved.heard = _by_method(saved, answers)
            suspendable, invocation = _start(server, call, saved, answers, handle)
        if seconds is not None and not await suspendable.until_round_ends(seconds):
            return StillRunning(suspendable, invocation)
        outcome = await _outcome(suspendable, invocation)
        if isinstance(outcome, InputRequired) and state is None and outcome.state is None and params.input_responses:
            # A handler without state between the rounds accepts answers from a client that brings no state.
            asked = self._returned(saved, suspendable, outcome)
            if answers := _read_answers(asked, params.input_responses, revision):
                asked.heard = _by_method(asked, answers)
                saved = asked
                suspendable, invocation = _start(server, call, saved, answers, handle)
                outcome = await _outcome(suspendable, invocation)
        return await self._end_round(suspendable, invocation, saved, outcome, keep=keep)

    async def _claim(self, saved: CallState, call: ServerCall) -> bytes | None:
        """Use a state up: None to serve the call here, or the result of the replica where it waits."""
        if self._remote is None or not saved.replica or saved.replica == self._remote.replica_id:
            await self.used.mark(saved)
            return None
        return await self._remote.resume(saved.replica, self.used.claim_of(saved), saved.id, call)

    def _take(self, id: str, principal: str | None) -> TakenCall | None:
        """The call that another replica has a retry for, if it waits here and is that of the same principal."""
        waiting = self._suspended.get(id)
        if waiting is None or waiting.invocation.call.terms.principal != principal:
            return None
        waiting = self._pop(id)
        return None if waiting is None else TakenCall(self, waiting)

    def give_up(self, suspendable: SuspendableCall) -> bool:
        """Cancel a call that waits here, in favour of others; False if it does not wait. Its retry runs it again."""
        id = next((entry.key for entry in self._suspended.entries() if entry.value.suspendable is suspendable), None)
        if id is None:
            return False
        self._expire(id)
        return True

    async def resume(self, waiting: Suspended, call: ServerCall, given: dict[str, Any]) -> Value | bytes:
        """Resume a call that was taken out, with answers by key."""
        answers = _read_answers(waiting.saved, given, call.terms.revision)
        waiting.invocation.resume(call)
        waiting.suspendable.resume(answers)
        outcome = await _outcome(waiting.suspendable, waiting.invocation)
        return await self._end_round(waiting.suspendable, waiting.invocation, waiting.saved, outcome, keep=True)

    async def _end_round(
        self,
        suspendable: SuspendableCall,
        invocation: Invocation,
        saved: CallState,
        outcome: Value | bytes | dict[str, InputRequest],
        *,
        keep: bool,
    ) -> Value | bytes:
        """The result of the request: the outcome, or the questions with the state of the call."""
        if isinstance(outcome, dict):
            return await self._suspend(suspendable, invocation, saved, outcome, keep=keep)
        if isinstance(outcome, InputRequired):
            sealed = await self._seal(self._returned(saved, suspendable, outcome), invocation.call)
            return InputRequired(outcome.requests, sealed, meta=outcome.meta, extra=outcome.extra)
        return outcome

    async def close(self) -> None:
        """Cancel every suspended call; those on this loop may clean up for a moment."""
        here = asyncio.get_running_loop()
        stopping: list[asyncio.Task[None]] = []
        while (oldest := self._suspended.oldest()) is not None:
            waiting = self._pop(oldest.key)
            if waiting is not None and waiting.suspendable.loop is here:
                stopping.append(asyncio.create_task(waiting.suspendable.stop()))
        if stopping:
            await asyncio.wait(stopping, timeout=CLEAN_UP_SECONDS)

    async def _open(self, state: str, call: ServerCall) -> CallState:
        if self.stored_keys is not None:
            await self.stored_keys.prepare_for(state)
        saved = _decode(self._ring.open(state, _bound(call)))
        self.used.check(saved, self._clock())
        return saved

    def _pop(self, id: str) -> Suspended | None:
        """Remove and return a suspended call; one that belongs to another loop can only be cancelled."""
        waiting = self._suspended.pop(id)
        if waiting is None:
            return None
        waiting.timer.cancel()
        if waiting.suspendable.loop is not asyncio.get_running_loop():
            waiting.suspendable.cancel()
            return None
        return waiting

    async def _suspend(
        self,
        suspendable: SuspendableCall,
        invocation: Invocation,
        saved: CallState,
        questions: dict[str, InputRequest],
        *,
        keep: bool,
    ) -> InputRequired:
        following = self._next_round(saved, suspendable, suspendable.asked)
        following.state, following.heard = saved.state, saved.heard
        if keep and self._remote is not None:
            following.replica = self._remote.replica_id
        try:
            sealed = await self._seal(following, invocation.call)
        except BaseException:
            suspendable.cancel()
            raise
        if keep:
            timer = suspendable.loop.call_later(self._seconds, self._expire, following.id)
            evicted = self._suspended.add(
                following.owner, following.id, Suspended(suspendable, invocation, following, timer)
            )
            if evicted is not None:
                evicted.value.timer.cancel()
                evicted.value.suspendable.cancel()
        else:
            suspendable.cancel()
        return InputRequired(questions or None, sealed)

    def _returned(self, saved: CallState, suspendable: SuspendableCall, asked: InputRequired) -> CallState:
        """The state of a handler that returned its questions itself."""
        questions = {key: PendingInput(method_of(question)) for key, question in (asked.requests or {}).items()}
        following = self._next_round(saved, suspendable, questions)
        following.by_hand, following.state = True, asked.state
        return following

    def _expire(self, id: str) -> None:
        waiting = self._pop(id)
        if waiting is not None:
            waiting.suspendable.cancel()

    def _next_round(self, saved: CallState, suspendable: SuspendableCall, asked: dict[str, PendingInput]) -> CallState:
        expires = self._clock() + self._seconds
        return CallState(os.urandom(12).hex(), expires, saved.round + 1, suspendable.journal.entries, asked)

    async def _seal(self, saved: CallState, call: ServerCall) -> str:
        if saved.round > MAX_ROUNDS:
            raise too_many_rounds()
        if self.stored_keys is not None:
            await self.stored_keys.prepare()
        saved.owner = client_text(call.client_key)
        sealed = self._ring.seal(_encode(saved), _bound(call), os.urandom(12))
        if len(sealed) > MAX_SEALED:
            raise ProtocolError(INTERNAL_ERROR, "The answers and steps of this call are too large to be remembered")
        return sealed


def _start(
    server: HandlerServer, call: ServerCall, saved: CallState, answers: Answers, handle: Handle
) -> tuple[SuspendableCall, Invocation]:
    """Run a handler from the top, with all answers so far in its journal."""
    revision = call.terms.revision
    journal = Journal(saved.journal)
    if not saved.by_hand:
        for key, (raw, _) in answers.items():
            journal.write(key, JournalEntry(saved.asked[key].digest, raw))
    # A handler that also returns questions itself may have good reason not to ask again what it asked before that.
    by_hand = saved.by_hand or saved.heard or saved.state is not None
    suspendable = SuspendableCall(revision, journal, set() if by_hand else journal.answers())
    invocation = Invocation(server, call)
    invocation.suspendable, invocation.request_state = suspendable, saved.state
    invocation.answers = {key: load_answer(revision, method, raw) for key, (method, raw) in saved.heard.items()}
    suspendable.start(functools.partial(handle, invocation))
    return suspendable, invocation


def _bound(call: ServerCall) -> bytes:
    return state_binding(call.terms.principal, call.request.method, call.request.params)


def _read_answers(saved: CallState, answers: dict[str, Any], revision: Revision) -> Answers:
    """The answers to what was asked; others are ignored (mrtr, "Error Handling")."""
    return {
        key: (answers[key], load_answer(revision, asked.method, answers[key]))
        for key, asked in saved.asked.items()
        if key in answers
    }


def _by_method(saved: CallState, answers: Answers) -> dict[str, tuple[str, Any]]:
    return {key: (saved.asked[key].method, raw) for key, (raw, _) in answers.items()}


async def _outcome(suspendable: SuspendableCall, invocation: Invocation) -> Value | bytes | dict[str, InputRequest]:
    try:
        outcome = await suspendable.outcome()
    except asyncio.CancelledError:
        await suspendable.stop()
        raise
    if isinstance(outcome, InputRequired):
        invocation.check(outcome)
    return outcome
