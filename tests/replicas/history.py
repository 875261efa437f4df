"""History of a run with faults, and the rules that it must keep; without I/O.

Clients and servers write down what they see as events. Times are seconds of one clock. A process is a replica's process
id: a replica that was started again is another process.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

PATIENCE = 20.0
"""Seconds after a fault within which a call that it interrupted must have failed.

A replica counts as dead 6 s after its last heartbeat, which others look at every 2 s. The one at which the client has
resumed the stream meanwhile may be cut off from the store for 8 s.
"""


@dataclass(frozen=True)
class Issued:
    """A client sends a call."""

    at: float
    call: str
    client: str
    steps: tuple[str, ...] = ("body",)
    """The effects that the call has when it runs to its end, each once."""
    progress: int = 0
    """The number of progress notifications that it sends, numbered from 1."""
    needs_store: bool = True
    """True if the call needs the store at any replica: it asks, or it is answered with a stream that can be resumed."""
    in_session: bool = True
    """True if a replica that has not served the session yet has to read it from the store first."""


@dataclass(frozen=True)
class Ran:
    """A replica has an effect for a call."""

    at: float
    call: str
    step: str
    process: int


@dataclass(frozen=True)
class Sent:
    """The proxy sends a request of a call to a process, and has its response, or knows that there is none."""

    at: float
    call: str
    process: int
    until: float
    status: int = 200


@dataclass(frozen=True)
class Forwarded:
    """A gateway has sent a call to the server behind it, which may be another gateway than the one that got it."""

    at: float
    call: str
    process: int


@dataclass(frozen=True)
class StreamOpened:
    """A client of HTTP+SSE has its stream at a process: all its calls run there until it opens another."""

    at: float
    client: str
    process: int


@dataclass(frozen=True)
class Heard:
    """A client receives a progress notification; `id` is that of the event, for a client that sees it."""

    at: float
    call: str
    number: int
    id: str | None = None


@dataclass(frozen=True)
class Answered:
    """A call has its result."""

    at: float
    call: str
    correct: bool = True


@dataclass(frozen=True)
class Failed:
    """A call has ended with an error."""

    at: float
    call: str
    error: str


@dataclass(frozen=True)
class SessionLost:
    """A server does not know a session that nobody ended."""

    at: float
    client: str


@dataclass(frozen=True)
class Watching:
    """A client has subscribed to the counter, and stays subscribed until the end."""

    at: float
    client: str


@dataclass(frozen=True)
class Seen:
    """A client was told that the counter has changed, and has read this value."""

    at: float
    client: str
    value: int


@dataclass(frozen=True)
class Changed:
    """The counter has a new value."""

    at: float
    value: int


@dataclass(frozen=True)
class Started:
    """A process begins to start at a port."""

    at: float
    process: int
    port: int


@dataclass(frozen=True)
class Killed:
    """A process was killed: the signal was sent at one time, and the process was gone at another."""

    at: float
    process: int
    gone: float = 0.0


@dataclass(frozen=True)
class StoreOutage:
    """The store could not be reached from one process, or from all."""

    at: float
    until: float
    process: int | None = None
    slow: bool = False
    """True if nothing was done to the store: it was found not to answer in time, as on a machine that is too busy."""


Event: TypeAlias = (
    Issued
    | Ran
    | Sent
    | Forwarded
    | StreamOpened
    | Heard
    | Answered
    | Failed
    | SessionLost
    | Watching
    | Seen
    | Changed
    | Started
    | Killed
    | StoreOutage
)
E = TypeVar("E")


@dataclass(frozen=True)
class Violation:
    """A broken rule, with the events that show it."""

    rule: str
    description: str
    events: tuple[Event, ...]


@dataclass
class CallRecord:
    """All events of one call."""

    issued: Issued
    ran: list[Ran] = field(default_factory=list[Ran])
    sent: list[Sent] = field(default_factory=list[Sent])
    forwarded: list[Forwarded] = field(default_factory=list[Forwarded])
    homes: set[int] = field(default_factory=set[int])
    """The gateways through which the client has reached the server last, before this call and in it."""
    stream: StreamOpened | None = None
    heard: list[Heard] = field(default_factory=list[Heard])
    answers: list[Answered | Failed] = field(default_factory=list["Answered | Failed"])

    @property
    def end(self) -> Answered | Failed | None:
        return self.answers[0] if self.answers else None

    @property
    def processes(self) -> set[int]:
        """The processes that ran a part of it, or had one of its requests."""
        return {event.process for event in (*self.ran, *self.sent, *self.forwarded)} | self.homes

    @property
    def is_passed_on(self) -> bool:
        """True if it reached a gateway that has to pass it on to another one, which needs the store."""
        return bool(self.homes) and not self.homes >= {sent.process for sent in self.sent}

    def events(self) -> tuple[Event, ...]:
        stream = () if self.stream is None else (self.stream,)
        events = (*stream, self.issued, *self.sent, *self.forwarded, *self.ran, *self.heard, *self.answers)
        return tuple(sorted(events, key=lambda event: event.at))


class History:
    """The events of a run, by call and by kind."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.at)
        self.calls = {event.call: CallRecord(event) for event in self.of(Issued)}
        streams: dict[str, StreamOpened] = {}
        homes: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, StreamOpened):
                streams[event.client] = event
            elif isinstance(event, Issued):
                self.calls[event.call].stream = streams.get(event.client)
                if event.in_session and event.client in homes:
                    self.calls[event.call].homes.add(homes[event.client])
            elif isinstance(event, Ran | Sent | Forwarded | Heard | Answered | Failed) and event.call in self.calls:
                record = self.calls[event.call]
                if isinstance(event, Ran):
                    record.ran.append(event)
                elif isinstance(event, Forwarded):
                    record.forwarded.append(event)
                    if record.issued.in_session:
                        record.homes.add(event.process)
                        homes[record.issued.client] = event.process
                elif isinstance(event, Sent):
                    record.sent.append(event)
                elif isinstance(event, Heard):
                    record.heard.append(event)
                else:
                    record.answers.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """All events of a kind, in their order."""
        return [event for event in self.events if isinstance(event, kind)]

    def answered(self) -> list[CallRecord]:
        return [call for call in self.calls.values() if isinstance(call.end, Answered)]

    def knew(self, process: int, call: CallRecord) -> bool:
        """True if a process had served the session of a call before it got the call."""
        arrived = min((sent.at for sent in call.sent if sent.process == process), default=call.issued.at)
        return any(
            sent.process == process and sent.status == 200 and sent.until < arrived
            for other in self.calls.values()
            if other.issued.client == call.issued.client
            for sent in other.sent
        )

    def failed(self) -> list[tuple[CallRecord, Failed]]:
        return [(call, call.end) for call in self.calls.values() if isinstance(call.end, Failed)]


Rule: TypeAlias = Callable[[History], Iterator[tuple[str, Sequence[Event]]]]


def every_call_ends_once(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """No call is without an end, and none has two."""
    for name, call in history.calls.items():
        if len(call.answers) != 1:
            yield f"call {name} ended {len(call.answers)} times", call.events()


def every_result_is_correct(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """A call gets its own result and not that of another."""
    for call in history.answered():
        if isinstance(call.end, Answered) and not call.end.correct:
            yield f"call {call.issued.call} got a wrong result", call.events()


def every_answered_call_ran_exactly_once(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """Each step of an answered call ran once, and no other step."""
    for call in history.answered():
        if Counter(ran.step for ran in call.ran) != Counter(call.issued.steps):
            ran = ", ".join(ran.step for ran in call.ran) or "nothing"
            yield f"call {call.issued.call} was answered and ran {ran} instead of {call.issued.steps}", call.events()


def no_step_ran_twice(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """No call runs twice by itself, however it ends."""
    for call in history.calls.values():
        for step, times in Counter(ran.step for ran in call.ran).items():
            if times > 1 and not isinstance(call.end, Answered):
                yield f"step {step!r} of call {call.issued.call} ran {times} times", call.events()


def every_event_arrives_once(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """The events of a call arrive in order, none twice, none left out, also on a resumed stream."""
    for call in history.calls.values():
        numbers = [heard.number for heard in call.heard]
        ids = [heard.id for heard in call.heard if heard.id is not None]
        if numbers != list(range(1, len(numbers) + 1)) or len(set(ids)) < len(ids):
            yield f"call {call.issued.call} heard {numbers} (event ids {ids})", call.events()
        elif isinstance(call.end, Answered) and len(numbers) != call.issued.progress:
            yield f"call {call.issued.call} heard {len(numbers)} of {call.issued.progress} events", call.events()


def no_session_is_lost(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """A session goes on until it is ended."""
    for lost in history.of(SessionLost):
        yield f"the session of client {lost.client} was not known any more", [lost]


def every_subscriber_hears_of_the_last_change(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """A subscriber may see several changes as one, but never misses the last, and never goes back."""
    last = max(history.of(Changed), key=lambda changed: changed.value, default=None)
    seen: defaultdict[str, list[Seen]] = defaultdict(list)
    for event in history.of(Seen):
        seen[event.client].append(event)
    for watching in history.of(Watching):
        values = [event.value for event in seen[watching.client]]
        if values != sorted(values):
            yield f"client {watching.client} saw the counter go back", [watching, *seen[watching.client]]
        if last is not None and last.at > watching.at and (not values or values[-1] != last.value):
            newest = values[-1] if values else "nothing"
            yield f"client {watching.client} saw {newest}, but not {last.value}", [watching, last]


def every_failure_has_its_fault(history: History) -> Iterator[tuple[str, Sequence[Event]]]:
    """Only calls that a killed replica had fail, or calls that need a store which is away, and they fail soon."""
    faults = [*history.of(Killed), *history.of(StoreOutage)]
    for call, failed in history.failed():
        excuses = [fault for fault in faults if _excuses(fault, call, failed, history)]
        if not excuses:
            near = [fault for fault in faults if _overlaps(fault, call.issued.at, failed.at)]
            yield f"call {call.issued.call} failed ({failed.error}) without a fault", [*call.events(), *near]
        elif failed.at - max(_end(fault) for fault in excuses) > PATIENCE:
            yield f"call {call.issued.call} failed too late ({failed.error})", [*call.events(), *excuses]


def _end(fault: Killed | StoreOutage) -> float:
    return fault.until if isinstance(fault, StoreOutage) else max(fault.at, fault.gone)


def _overlaps(fault: Killed | StoreOutage, start: float, end: float) -> bool:
    return fault.at <= end and _end(fault) >= start


def _excuses(fault: Killed | StoreOutage, call: CallRecord, failed: Failed, history: History) -> bool:
    """True if a fault may have caused a failure."""
    if isinstance(fault, Killed):
        if call.stream is not None and call.stream.process == fault.process:
            # The stream may have broken just before the call, and nobody can resume it.
            return call.stream.at <= _end(fault) and fault.at <= failed.at
        return fault.process in call.processes and _overlaps(fault, call.issued.at, failed.at)
    if not _overlaps(fault, call.issued.at, failed.at):
        return False
    concerned = {process for process in call.processes if fault.process in (None, process)}
    if call.issued.needs_store or call.is_passed_on:
        return bool(concerned)
    return call.issued.in_session and any(not history.knew(process, call) for process in concerned)


RULES: tuple[Rule, ...] = (
    every_call_ends_once,
    every_result_is_correct,
    every_answered_call_ran_exactly_once,
    no_step_ran_twice,
    every_event_arrives_once,
    no_session_is_lost,
    every_subscriber_hears_of_the_last_change,
    every_failure_has_its_fault,
)


def check(events: Iterable[Event]) -> list[Violation]:
    """Return all violations of all rules."""
    history = History(events)
    return [
        Violation(rule.__name__, description, tuple(shown)) for rule in RULES for description, shown in rule(history)
    ]
