"""Clients of every revision that write down what they see, for the history of a run with faults."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from dovetail import Client, ConnectionLost, DovetailError, Elicitation, TextContents
from tests.replicas.history import (
    Answered,
    Changed,
    Event,
    Failed,
    Forwarded,
    Heard,
    Issued,
    Killed,
    Ran,
    Seen,
    Sent,
    SessionLost,
    Started,
    StreamOpened,
    Watching,
)
from tests.support.nginx import Nginx
from tests.support.raw_http import SESSIONS, Answer, Session, Site, text_of
from tests.support.replicas import Replicas

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
HTTP_SSE = REVISIONS[0]
WITH_ELICITATION = REVISIONS[2:]
COUNTER = "counter://value"
_KEY = re.compile(r'"key": ?"([^"]*)"')
CALL_SECONDS = 40.0
"""Time limit of a call: one that reaches it failed too late for any fault."""


QUICK_MILLISECONDS = 500
"""A call in a session that takes less is answered with JSON, also on a busy machine."""


class Recorder:
    """The events that clients see, and those that the replicas and nginx have written to files."""

    def __init__(self, folder: Path, nginx: Nginx) -> None:
        self.folder = folder
        self.nginx = nginx
        self.events: list[Event] = []
        self.reopened: Counter[str] = Counter()
        self._keys = itertools.count(1)

    @staticmethod
    def now() -> float:
        return time.time()

    def key(self, client: str) -> str:
        """A name for a call that no other call has."""
        return f"{client}#{next(self._keys)}"

    def add(self, event: Event) -> None:
        self.events.append(event)

    def everything(self) -> list[Event]:
        """All events, those of the replicas and of nginx included."""
        effects = self._lines("effects")
        ran = [Ran(at, key, step, process) for at, key, step, process, _ in effects]
        forwarded = [
            Forwarded(at, key, process)
            for at, key, _, _, port in effects
            if port is not None
            for process in self._processes_at(port, at, at)
        ]
        changed = [Changed(at, number) for number, (at, _) in enumerate(self._lines("counter"), start=1)]
        return [*self.events, *ran, *forwarded, *changed, *self._sent()]

    def _sent(self) -> Iterator[Sent]:
        """The requests of calls, each at the process that listened at its port in that time."""
        for request in self.nginx.requests():
            found = _KEY.search(request.body)
            if found is None or not request.ports:
                continue
            for process in self._processes_at(request.ports[-1], request.began, request.ended):
                yield Sent(request.began, found[1], process, request.ended, request.status)

    def _processes_at(self, port: int, began: float, ended: float) -> Iterator[int]:
        """The processes that listened at a port in a time."""
        gone = {event.process: event.gone for event in self.events if isinstance(event, Killed)}
        for event in self.events:
            if not isinstance(event, Started) or event.port != port:
                continue
            if event.at <= ended and gone.get(event.process, math.inf) >= began:
                yield event.process

    def value(self) -> int:
        """The value of the counter."""
        return len(self._lines("counter"))

    def _lines(self, name: str) -> list[Any]:
        file = self.folder / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class ChaosClient:
    """A client of one revision with a name, which calls until it is told to stop."""

    def __init__(self, recorder: Recorder, replicas: Replicas, name: str, revision: str, seed: int) -> None:
        self.recorder = recorder
        self.name = name
        self.revision = revision
        self.stopped = asyncio.Event()
        self._replicas = replicas
        self._random = random.Random(seed)
        self._handshakes = 0

    def _trace(self, direction: str, message: bytes) -> None:
        """A second handshake of a client says that the server did not know its session."""
        if direction == "sent" and b'"method":"initialize"' in message and self.revision != HTTP_SSE:
            self._handshakes += 1
            if self._handshakes > 1:
                self.recorder.add(SessionLost(self.recorder.now(), self.name))

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """Connect; a replica that is killed meanwhile is no reason to give up."""

        async def answer(question: Elicitation) -> dict[str, int]:
            await asyncio.sleep(self._random.random() / 10)
            return {"value": len(question.message)}

        url = self._replicas.sse_url if self.revision == HTTP_SSE else self._replicas.url
        ends = time.monotonic() + CALL_SECONDS
        while True:
            self._handshakes = 0
            client = Client(
                url,
                revision=self.revision,
                timeout=CALL_SECONDS,
                max_timeout=CALL_SECONDS,
                on_elicit=answer,
                on_sample=lambda _: "said",
                trace=self._trace,
            )
            try:
                await client.open()
                break
            except DovetailError:
                if time.monotonic() > ends:
                    raise
                await asyncio.sleep(0.1)
        try:
            yield client
        finally:
            with contextlib.suppress(DovetailError):
                await client.close()

    async def call(self) -> None:
        """Call one tool after the other."""
        while not self.stopped.is_set():
            async with self._connected() as client:
                if self.revision == HTTP_SSE and not await self._locate(client):
                    continue
                while not self.stopped.is_set() and await self._call_once(client):
                    pass
                if not self.stopped.is_set():
                    self.recorder.reopened[f"{self.revision} caller"] += 1

    async def _locate(self, client: Client) -> bool:
        """Write down where the stream is at which all calls run; False if it is gone already."""
        try:
            process = int((await client.call("process")).text)
        except DovetailError:
            return False
        self.recorder.add(StreamOpened(self.recorder.now(), self.name, process))
        return True

    async def _call_once(self, client: Client) -> bool:
        """Make one call; False if the connection is gone, which only HTTP+SSE allows."""
        kinds = ["once", "report", "ask" if self.revision in WITH_ELICITATION else "sample"]
        kind = self._random.choice(kinds)
        key = self.recorder.key(f"{self.name} {kind}")
        arguments: dict[str, Any] = {"key": key}
        steps, expected, reports = ("body",), key, 0
        if kind == "once":
            arguments["milliseconds"] = self._random.choice((0, 0, 20, 1500))
        elif kind == "report":
            arguments["milliseconds"] = self._random.choice((0, 10, 100))
            arguments["steps"] = reports = self._random.randint(1, 20)
        elif kind == "ask":
            steps = ("before", "between", "after")
            expected = f"{key} {len(f'A number for {key}') + len(f'Another number for {key}')}"
        else:
            steps, expected = ("before", "after"), f"{key} said"
        in_session = self.revision in SESSIONS
        # In a session, a call of more than a second and one that reports are answered with a stream that is stored.
        quick = kind == "once" and arguments["milliseconds"] < QUICK_MILLISECONDS
        alone = quick if in_session else self.revision != HTTP_SSE and kind in ("once", "report")
        issued = Issued(self.recorder.now(), key, self.name, steps, reports, not alone, in_session)
        self.recorder.add(issued)

        def progress(number: float, *_: Any) -> None:
            self.recorder.add(Heard(self.recorder.now(), key, int(number)))

        try:
            result = await client.call(kind, arguments, progress=progress if kind == "report" else None)
        except DovetailError as problem:
            self.recorder.add(Failed(self.recorder.now(), key, f"{type(problem).__name__}: {problem}"))
            return not (self.revision == HTTP_SSE and isinstance(problem, ConnectionLost))
        self.recorder.add(Answered(self.recorder.now(), key, correct=result.text == expected))
        return True

    async def change(self) -> bool:
        """Change the counter; False if it is not known whether it has changed."""
        with contextlib.suppress(DovetailError):
            async with Client(self._replicas.url, revision=self.revision, timeout=CALL_SECONDS) as client:
                await client.call("change")
                return True
        return False

    async def watch(self) -> None:
        """Watch the counter, and read it whenever it may have changed."""
        self.recorder.add(Watching(self.recorder.now(), self.name))
        while not self.stopped.is_set():
            async with self._connected() as client:
                with contextlib.suppress(DovetailError):
                    await self._read(client)
                    async for _ in client.watch(COUNTER):
                        await self._read(client)
                self.recorder.reopened[f"{self.revision} watcher"] += 1

    async def _read(self, client: Client) -> None:
        """Read the counter; a read that fails is repeated, as it changes nothing."""
        attempts = 0
        while (value := await self._value(client)) is None:
            attempts += 1
            if attempts == 100:
                raise ConnectionLost("the counter cannot be read")
            await asyncio.sleep(0.1)
        self.recorder.add(Seen(self.recorder.now(), self.name, value))

    async def _value(self, client: Client) -> int | None:
        try:
            (content,) = (await client.read(COUNTER)).contents
        except DovetailError as problem:
            if self.revision == HTTP_SSE and isinstance(problem, ConnectionLost):
                raise
            return None
        assert isinstance(content, TextContents)
        return int(content.text)


class ResumingClient:
    """A client written by hand that breaks its own streams, and resumes each where it broke."""

    def __init__(self, recorder: Recorder, replicas: Replicas, name: str, revision: str, seed: int) -> None:
        assert revision in SESSIONS
        self.recorder = recorder
        self.name = name
        self.revision = revision
        self.stopped = asyncio.Event()
        self._url, self._path = replicas.nginx.url, replicas.path
        self._random = random.Random(seed)

    async def call(self) -> None:
        """Call one tool after the other in one session."""
        session_id = ""
        while not session_id:
            async with Site(self._url, self._path) as site:
                with contextlib.suppress(AssertionError, ConnectionError, asyncio.IncompleteReadError, KeyError):
                    session_id = (await site.session(self.revision)).id
        while not self.stopped.is_set():
            async with Site(self._url, self._path) as site:
                await self._call_once(Session(site, self.revision, session_id))

    async def _call_once(self, session: Session) -> None:
        key = self.recorder.key(f"{self.name} report")
        steps = self._random.randint(5, 20)
        self.recorder.add(Issued(self.recorder.now(), key, self.name, progress=steps))
        stream = ResumedStream(self, session, key, steps)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer = await stream.answer(self._random)
        except TimeoutError:
            self.recorder.add(Failed(self.recorder.now(), key, "TimeoutError"))
            return
        if isinstance(answer, dict) and "result" in answer:
            self.recorder.add(Answered(self.recorder.now(), key, correct=text_of(answer) == key))
        else:
            error = answer.get("error", {}) if isinstance(answer, dict) else {}
            self.recorder.add(Failed(self.recorder.now(), key, error.get("message") or str(answer)))


class ResumedStream:
    """The stream of one call, over as many connections as it takes."""

    def __init__(self, client: ResumingClient, session: Session, key: str, steps: int) -> None:
        self._client = client
        self._session = session
        self._key = key
        self._steps = steps
        self._last: str | None = None
        self._answer: dict[str, Any] | None = None

    async def answer(self, chance: random.Random) -> dict[str, Any] | str:
        """The response to the call, or the reason why there is none."""
        response: Answer | None = None
        for attempt in itertools.count():
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, AssertionError, ValueError):
                response = await self._post() if attempt == 0 else await self._session.get(last=self._last)
                if response.status == 404:
                    recorder = self._client.recorder
                    recorder.add(SessionLost(recorder.now(), self._client.name))
                    return "404"
                if response.status == 200:
                    await self._read(response, events=chance.randint(1, self._steps))
                if self._answer is not None:
                    return self._answer
            if self._last is None:
                return f"status {response.status}" if response is not None else "the connection broke"
            if response is not None:
                response.line.abort()
            await asyncio.sleep(0.01 if response is not None and response.status == 200 else 0.2)
        raise AssertionError

    async def _post(self) -> Answer:
        arguments = {"key": self._key, "steps": self._steps, "milliseconds": 40}
        return await self._session.call("report", token=self._key, **arguments)

    async def _read(self, response: Answer, events: int) -> None:
        """Read some events of a stream; a response in JSON at once."""
        if response.kind == "application/json":
            self._answer = await response.json()
            return
        for _ in range(events):
            event = await response.next()
            if event is None:
                return
            self._last = event.id or self._last
            if not event.data:
                continue
            message = event.message
            if message.get("method") == "notifications/progress":
                recorder, number = self._client.recorder, message["params"]["progress"]
                recorder.add(Heard(recorder.now(), self._key, int(number), event.id))
            elif "id" in message:
                self._answer = message
                return
