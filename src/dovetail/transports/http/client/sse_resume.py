"""Streams over GET: the one for what answers no request, and streams that broke off and are taken up again.

2025-11-25 transports, "Listening for Messages from the Server", "Resumability and Redelivery".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus, SessionEnded
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.requester import HttpRequester, media_type, read_error, unexpected_content

from .sse_reader import SseReader

logger = logging.getLogger("dovetail")

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
MAX_TRIES = 6
"""Attempts in a row that may fail; a connection that comes about begins the count anew."""

_GET = {"accept": "text/event-stream"}

Headers = Callable[[str | None], dict[str, str]]


class GetStream:
    """Keeps a stream going over GET."""

    def __init__(self, courier: HttpRequester, headers: Headers) -> None:
        self._courier = courier
        self._headers = headers
        self._answered = asyncio.Event()
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None
        self.gave_up = False
        """The server could not be reached to listen to it; it may be worth another try when it answers again."""

    def start(self, stream: SseReader, session: str | None, ended: Callable[[str], None]) -> None:
        """Listen in a task of its own."""
        self.leave()
        self.gave_up = False
        self._answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        self._task = loop.create_task(self._listen(stream, session, ended, self._answered), name="dovetail-listen")

    async def answered(self, seconds: float) -> None:
        """Wait until the server has answered the wish to listen, or did not so long after it."""
        if self._task is None or self._answered.is_set():
            return
        try:
            async with asyncio.timeout_at(self._started + seconds):
                await self._answered.wait()
        except TimeoutError:
            pass

    def leave(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Listen no more, and wait for that."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def resume(self, stream: SseReader, session: str | None, reason: str) -> None:
        """Take up a stream that broke off until its answer is there; raises `ConnectionLost` when that fails."""
        failures = 0
        while not stream.answered:
            await asyncio.sleep(_pause(stream, failures))
            try:
                answer = await self._connect(stream, session)
            except _Unwilling as problem:
                raise ConnectionLost(f"{self._courier.url}: {reason}; it cannot be resumed: {problem}") from None
            except SessionEnded:
                raise
            except ConnectionLost as problem:
                failures += 1
                if failures >= MAX_TRIES:
                    raise ConnectionLost(f"{reason}; it could not be resumed: {problem}") from None
                continue
            failures = 0
            await self._read(stream, answer)

    async def _listen(
        self, stream: SseReader, session: str | None, ended: Callable[[str], None], answered: asyncio.Event
    ) -> None:
        failures = 0
        try:
            while failures < MAX_TRIES:
                try:
                    answer = await self._connect(stream, session)
                except _Unwilling as problem:
                    logger.debug("The server offers no stream of its own: %s", problem)
                    return
                except SessionEnded as problem:
                    ended(problem.session)
                    return
                except ConnectionLost as problem:
                    failures += 1
                    logger.debug("Listening failed: %s", problem)
                else:
                    failures = 0
                    answered.set()
                    await self._read(stream, answer)
                await asyncio.sleep(_pause(stream, failures))
            self.gave_up = True
            logger.warning("%s cannot be listened to any more; calls may still work", self._courier.url)
        except DovetailError as problem:
            logger.warning("%s cannot be listened to any more: %s", self._courier.url, problem)
        finally:
            answered.set()

    async def _connect(self, stream: SseReader, session: str | None) -> ClientResponse:
        headers = {**_GET, **self._headers(session)}
        if stream.last is not None:
            headers["last-event-id"] = stream.last
        answer = await self._courier.send("GET", headers)
        try:
            if answer.status == 200:
                if media_type(answer) == "text/event-stream":
                    return answer
                raise _Unwilling(str(unexpected_content(answer, self._courier.url)))
            if answer.status == 404 and session is not None:
                raise SessionEnded(session, ran=True)
            problem = await read_error(answer, self._courier.url, None, 64 * 1024)
            if answer.status >= 500 and isinstance(problem, HttpStatus):
                raise problem
            raise _Unwilling(str(problem))
        except BaseException:
            answer.close()
            raise

    async def _read(self, stream: SseReader, answer: ClientResponse) -> None:
        try:
            await stream.read(answer)
        except ConnectionLost as problem:
            logger.debug("A stream broke off: %s", problem)
        finally:
            answer.close()


class _Unwilling(Exception):
    """The server does not offer the stream."""


def _pause(stream: SseReader, failures: int) -> float:
    """The time that the server asks for, longer after each attempt that failed."""
    first = FIRST_WAIT if stream.retry is None else stream.retry
    return first if not failures else max(first, min(max(first, FIRST_WAIT) * 2**failures, LONGEST_WAIT))
