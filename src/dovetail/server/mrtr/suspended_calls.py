"""The desk where calls that wait for answers are kept, and where their sealed state is checked."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError
from dovetail.protocol.mrtr import (
    MAX_ROUNDS,
    MAX_STATE_SECONDS,
    Asked,
    Entry,
    Journal,
    Record,
    binding,
    too_many_rounds,
)
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.seal import LONGEST, KeyRing, refused
from dovetail.runtime.call import Call
from dovetail.runtime.connection import CLEAN_UP_SECONDS
from dovetail.storage.contract import Entries
from dovetail.types.base import RetriedParams
from dovetail.types.client_features import InputRequest, InputRequired, method_of
from dovetail.types.serialization import Value

from .suspendable_call import Interview, load_answer

MAX_PARKED = 1000
"""Calls kept waiting in this process; beyond it the oldest is stopped, and its retry runs from the journal."""

MAX_USED = 100_000
"""States remembered as used; beyond it the oldest are forgotten, and states as old as them are refused."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class Given(msgspec.Struct, frozen=True):
    """What a handler that asks by hand is given when it runs again."""

    state: str | None = None
    answers: dict[str, Value] = {}


Begin = Callable[[Interview, Given], Callable[[], Awaitable[Value]]]
"""Prepares the handler for an interview."""

Answers = dict[str, tuple[Any, Value]]
"""Answers by key, as they came and as values."""


class Parked(NamedTuple):
    """A call that waits, and the alarm that ends its waiting."""

    interview: Interview
    alarm: asyncio.TimerHandle


class Desk:
    """The waiting calls of one server."""

    def __init__(
        self, ring: KeyRing, seconds: float = MAX_STATE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._ring = ring
        self._seconds = seconds
        self._clock = clock
        self._parked: OrderedDict[str, Parked] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()
        self.store: Entries | None = None
        """Where states are marked as used for all processes that share it."""
        self._forgotten = 0.0
        """States that expire by then are refused: whether they were used is not known any more."""

    @property
    def waiting(self) -> int:
        """How many calls wait here."""
        return len(self._parked)

    async def serve(self, call: Call, params: RetriedParams, begin: Begin, *, keep: bool = True) -> Value:
        """Run a handler until it has a result or needs answers; take up one that waits for these answers.

        A handler that is not to be kept is stopped when it asks, and runs again from its journal.
        """
        state, revision = params.request_state, call.terms.revision
        record = Record("", 0, 0, {}, {}) if state is None else self._opened(state, call)
        answers = _read(record, params.input_responses or {}, revision)
        if state is not None:
            await self._use(record)
        interview = self._take(record.id)
        if interview is not None:
            interview.go_on(answers, call)
        else:
            if record.by_hand:
                record.heard = _heard(record, answers)
            interview = _again(revision, record, answers)
            interview.start(begin(interview, _given(revision, record)))
        outcome = await _outcome(interview)
        if isinstance(outcome, InputRequired) and state is None and outcome.state is None and params.input_responses:
            # Who keeps no state between the rounds takes answers from a client that brings none.
            asked = self._by_hand(record, interview, outcome)
            if answers := _read(asked, params.input_responses, revision):
                asked.heard = _heard(asked, answers)
                record, interview = asked, _again(revision, asked, answers)
                interview.start(begin(interview, _given(revision, record)))
                outcome = await _outcome(interview)
        if isinstance(outcome, dict):
            return self._ask(interview, record, outcome, call, keep=keep)
        if isinstance(outcome, InputRequired):
            return self._asked_by_hand(interview, record, outcome, call)
        return outcome

    async def close(self) -> None:
        """Stop every call that waits; those on this loop may clean up for a moment."""
        here = asyncio.get_running_loop()
        stopping: list[asyncio.Task[None]] = []
        while self._parked:
            interview = self._take(next(iter(self._parked)))
            if interview is not None and interview.loop is here:
                stopping.append(asyncio.create_task(interview.stop()))
        if stopping:
            await asyncio.wait(stopping, timeout=CLEAN_UP_SECONDS)

    def _opened(self, state: str, call: Call) -> Record:
        record = _decode(self._ring.open(state, _bound(call)))
        now = self._clock()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        if record.expires < now or record.expires <= self._forgotten or record.id in self._used:
            raise refused()
        return record

    async def _use(self, record: Record) -> None:
        self._used[record.id] = record.expires
        while len(self._used) > MAX_USED:
            self._forgotten = max(self._forgotten, self._used.popitem(last=False)[1])
        if self.store is not None and not await self.store.add(f"state:{record.id}", b"", self._seconds):
            raise refused()

    def _take(self, id: str) -> Interview | None:
        """The call that waits under an id; one that belongs to another loop can only be stopped."""
        parked = self._parked.pop(id, None)
        if parked is None:
            return None
        interview, alarm = parked
        alarm.cancel()
        if interview.loop is not asyncio.get_running_loop():
            interview.cancel()
            return None
        return interview

    def _ask(
        self, interview: Interview, record: Record, questions: dict[str, InputRequest], call: Call, *, keep: bool
    ) -> InputRequired:
        following = self._following(record, interview, interview.asked)
        following.state, following.heard = record.state, record.heard
        try:
            sealed = self._seal(following, call)
        except ProtocolError:
            interview.cancel()
            raise
        if keep:
            self._park(following.id, interview)
        else:
            interview.cancel()
        return InputRequired(questions or None, sealed)

    def _asked_by_hand(self, interview: Interview, record: Record, asked: InputRequired, call: Call) -> InputRequired:
        sealed = self._seal(self._by_hand(record, interview, asked), call)
        return InputRequired(asked.requests, sealed, meta=asked.meta, extra=asked.extra)

    def _by_hand(self, record: Record, interview: Interview, asked: InputRequired) -> Record:
        questions = {key: Asked(method_of(question)) for key, question in (asked.requests or {}).items()}
        following = self._following(record, interview, questions)
        following.by_hand, following.state = True, asked.state
        return following

    def _park(self, id: str, interview: Interview) -> None:
        alarm = interview.loop.call_later(self._seconds, self._expire, id)
        self._parked[id] = Parked(interview, alarm)
        while len(self._parked) > MAX_PARKED:
            self._expire(next(iter(self._parked)))

    def _expire(self, id: str) -> None:
        interview = self._take(id)
        if interview is not None:
            interview.cancel()

    def _following(self, record: Record, interview: Interview, asked: dict[str, Asked]) -> Record:
        expires = self._clock() + self._seconds
        return Record(os.urandom(12).hex(), expires, record.round + 1, interview.journal.entries, asked)

    def _seal(self, record: Record, call: Call) -> str:
        if record.round > MAX_ROUNDS:
            raise too_many_rounds()
        sealed = self._ring.seal(_encode(record), _bound(call), os.urandom(12))
        if len(sealed) > LONGEST:
            raise ProtocolError(INTERNAL_ERROR, "The answers and steps of this call are too large to be remembered")
        return sealed


def _bound(call: Call) -> bytes:
    return binding(call.terms.principal, call.request.method, call.request.params)


def _read(record: Record, answers: dict[str, Any], revision: Revision) -> Answers:
    """The answers to what was asked; others are ignored (mrtr, "Error Handling")."""
    return {
        key: (answers[key], load_answer(revision, asked.method, answers[key]))
        for key, asked in record.asked.items()
        if key in answers
    }


def _heard(record: Record, answers: Answers) -> dict[str, tuple[str, Any]]:
    return {key: (record.asked[key].method, raw) for key, (raw, _) in answers.items()}


async def _outcome(interview: Interview) -> Value | dict[str, InputRequest]:
    try:
        return await interview.outcome()
    except asyncio.CancelledError:
        await interview.stop()
        raise


def _again(revision: Revision, record: Record, answers: Answers) -> Interview:
    """A handler that runs from the top, with everything it was told so far."""
    journal = Journal(record.journal)
    if not record.by_hand:
        for key, (raw, _) in answers.items():
            journal.write(key, Entry(record.asked[key].digest, raw))
    # A handler that asks by hand as well may have good reason not to ask again what it asked before that.
    by_hand = record.by_hand or record.heard or record.state is not None
    return Interview(revision, journal, set() if by_hand else journal.answers())


def _given(revision: Revision, record: Record) -> Given:
    heard = {key: load_answer(revision, method, raw) for key, (method, raw) in record.heard.items()}
    return Given(record.state, heard)
