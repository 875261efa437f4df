"""The suspended calls of one server, and the sealed state by which a retry finds them again."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

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
from dovetail.protocol.seal import MAX_SEALED, KeyRing, invalid_state
from dovetail.runtime.connection import CLEAN_UP_SECONDS
from dovetail.server.invocation import Handle, HandlerServer, Invocation
from dovetail.server.session import ServerCall
from dovetail.storage.contract import Entries
from dovetail.types.base import RetriedParams
from dovetail.types.client_features import InputRequest, InputRequired, method_of
from dovetail.types.serialization import Value

from .suspendable_call import SuspendableCall, load_answer

MAX_SUSPENDED = 1000
"""Calls suspended in this process; beyond it the oldest is cancelled, and its retry runs from the journal."""

MAX_USED = 100_000
"""States remembered as used; beyond it the oldest are forgotten, and states as old as them are refused."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CallState).decode

Answers = dict[str, tuple[Any, Value]]
"""Answers by key, raw and as values."""


class Suspended(NamedTuple):
    """A suspended call, the invocation it resumes with, and the timer that ends its waiting."""

    suspendable: SuspendableCall
    invocation: Invocation
    timer: asyncio.TimerHandle


class SuspendedCalls:
    """Serves calls whose handlers may ask for input in rounds (2026-07-28 mrtr)."""

    def __init__(
        self, ring: KeyRing, seconds: float = MAX_STATE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._ring = ring
        self._seconds = seconds
        self._clock = clock
        self._suspended: OrderedDict[str, Suspended] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()
        self.store: Entries | None = None
        """Marks states as used for all processes that share it."""
        self._forgotten_until = 0.0
        """States that expire by then are refused: it is not known any more whether they were used."""

    def __len__(self) -> int:
        return len(self._suspended)

    async def serve(
        self, server: HandlerServer, call: ServerCall, params: RetriedParams, handle: Handle, *, keep: bool = True
    ) -> Value:
        """Run a handler until it has a result or needs input; resume one that waits for these answers.

        A handler that is not to be kept is cancelled when it asks, and runs again from its journal.
        """
        state, revision = params.request_state, call.terms.revision
        saved = CallState("", 0, 0, {}, {}) if state is None else self._open(state, call)
        answers = _read_answers(saved, params.input_responses or {}, revision)
        if state is not None:
            await self._mark_used(saved)
        waiting = self._pop(saved.id)
        if waiting is not None:
            suspendable, invocation = waiting.suspendable, waiting.invocation
            invocation.resume(call)
            suspendable.resume(answers)
        else:
            if saved.by_hand:
                saved.heard = _by_method(saved, answers)
            suspendable, invocation = _start(server, call, saved, answers, handle)
        outcome = await _outcome(suspendable, invocation)
        if isinstance(outcome, InputRequired) and state is None and outcome.state is None and params.input_responses:
            # A handler without state between the rounds accepts answers from a client that brings no state.
            asked = self._returned(saved, suspendable, outcome)
            if answers := _read_answers(asked, params.input_responses, revision):
                asked.heard = _by_method(asked, answers)
                saved = asked
                suspendable, invocation = _start(server, call, saved, answers, handle)
                outcome = await _outcome(suspendable, invocation)
        if isinstance(outcome, dict):
            return self._suspend(suspendable, invocation, saved, outcome, keep=keep)
        if isinstance(outcome, InputRequired):
            sealed = self._seal(self._returned(saved, suspendable, outcome), call)
            return InputRequired(outcome.requests, sealed, meta=outcome.meta, extra=outcome.extra)
        return outcome

    async def close(self) -> None:
        """Cancel every suspended call; those on this loop may clean up for a moment."""
        here = asyncio.get_running_loop()
        stopping: list[asyncio.Task[None]] = []
        while self._suspended:
            waiting = self._pop(next(iter(self._suspended)))
            if waiting is not None and waiting.suspendable.loop is here:
                stopping.append(asyncio.create_task(waiting.suspendable.stop()))
        if stopping:
            await asyncio.wait(stopping, timeout=CLEAN_UP_SECONDS)

    def _open(self, state: str, call: ServerCall) -> CallState:
        saved = _decode(self._ring.open(state, _bound(call)))
        now = self._clock()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        if saved.expires < now or saved.expires <= self._forgotten_until or saved.id in self._used:
            raise invalid_state()
        return saved

    async def _mark_used(self, saved: CallState) -> None:
        self._used[saved.id] = saved.expires
        while len(self._used) > MAX_USED:
            self._forgotten_until = max(self._forgotten_until, self._used.popitem(last=False)[1])
        if self.store is not None and not await self.store.add(f"state:{saved.id}", b"", self._seconds):
            raise invalid_state()

    def _pop(self, id: str) -> Suspended | None:
        """Remove and return a suspended call; one that belongs to another loop can only be cancelled."""
        waiting = self._suspended.pop(id, None)
        if waiting is None:
            return None
        waiting.timer.cancel()
        if waiting.suspendable.loop is not asyncio.get_running_loop():
            waiting.suspendable.cancel()
            return None
        return waiting

    def _suspend(
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
        try:
            sealed = self._seal(following, invocation.call)
        except ProtocolError:
            suspendable.cancel()
            raise
        if keep:
            timer = suspendable.loop.call_later(self._seconds, self._expire, following.id)
            self._suspended[following.id] = Suspended(suspendable, invocation, timer)
            while len(self._suspended) > MAX_SUSPENDED:
                self._expire(next(iter(self._suspended)))
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

    def _seal(self, saved: CallState, call: ServerCall) -> str:
        if saved.round > MAX_ROUNDS:
            raise too_many_rounds()
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


async def _outcome(suspendable: SuspendableCall, invocation: Invocation) -> Value | dict[str, InputRequest]:
    try:
        outcome = await suspendable.outcome()
    except asyncio.CancelledError:
        await suspendable.stop()
        raise
    if isinstance(outcome, InputRequired):
        invocation.check(outcome)
    return outcome
