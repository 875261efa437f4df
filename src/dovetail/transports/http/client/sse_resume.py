"""SSE streams over GET: the stream of server-initiated messages, and resumption of streams that broke off.

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

FIRST_DELAY = 1.0
MAX_DELAY = 30.0
MAX_ATTEMPTS = 6
"""Attempts in a row that may fail; a successful connection resets the count."""

_GET = {"accept": "text/event-stream"}

SessionHeaders = Callable[[str | None], dict[str, str]]


class GetStream:
    """Connects over GET and reconnects with backoff."""

    def __init__(self, requester: HttpRequester, session_headers: SessionHeaders) -> None:
        self._requester = requester
        self._session_headers = session_headers
        self._answered = asyncio.Event()
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None
        self.gave_up = False
        """The server could not be reached; worth another attempt once it answers a POST again."""

    def start(self, reader: SseReader, session: str | None, on_session_ended: Callable[[str], None]) -> None:
        """Open the stream of server-initiated messages, in a task of its own."""
        self.cancel()
        self.gave_up = False
        self._answered = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        self._task = loop.create_task(
            self._keep_open(reader, session, on_session_ended, self._answered), name="dovetail-get-stream"
        )

    async def wait_answered(self, seconds: float) -> None:
        """Wait until the server has answered the GET, at most so many seconds after it was sent."""
        if self._task is None or self._answered.is_set():
            return
        try:
            async with asyncio.timeout_at(self._started + seconds):
                await self._answered.wait()
        except TimeoutError:
            pass

    def cancel(self) -> None:
        """Close the stream."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Close the stream and wait for it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def resume(self, reader: SseReader, session: str | None, reason: str) -> None:
        """Resume a stream that broke off until its answer has come; raises `ConnectionLost` when that fails."""
        failures = 0
        while not reader.answered:
            await asyncio.sleep(_delay(reader, failures))
            try:
                response = await self._connect(reader, session)
            except _NotOffered as problem:
                raise ConnectionLost(f"{self._requester.url}: {reason}; it cannot be resumed: {problem}") from None
            except SessionEnded:
                raise
            except ConnectionLost as problem:
                failures += 1
                if failures >= MAX_ATTEMPTS:
                    raise ConnectionLost(f"{reason}; it could not be resumed: {problem}") from None
                continue
            failures = 0
            await self._read(reader, response)

    async def _keep_open(
        self,
        reader: SseReader,
        session: str | None,
        on_session_ended: Callable[[str], None],
        answered: asyncio.Event,
    ) -> None:
        failures = 0
        try:
            while failures < MAX_ATTEMPTS:
                try:
                    response = await self._connect(reader, session)
                except _NotOffered as problem:
                    logger.debug("The server offers no stream of its own: %s", problem)
                    return
                except SessionEnded as problem:
                    on_session_ended(problem.session)
                    return
                except ConnectionLost as problem:
                    failures += 1
                    logger.debug("Opening the stream failed: %s", problem)
                else:
                    failures = 0
                    answered.set()
                    await self._read(reader, response)
                await asyncio.sleep(_delay(reader, failures))
            self.gave_up = True
            logger.warning("%s cannot be listened to any more; calls may still work", self._requester.url)
        except DovetailError as problem:
            logger.warning("%s cannot be listened to any more: %s", self._requester.url, problem)
        finally:
            answered.set()

    async def _connect(self, reader: SseReader, session: str | None) -> ClientResponse:
        headers = {**_GET, **self._session_headers(session)}
        if reader.last_event_id is not None:
            headers["last-event-id"] = reader.last_event_id
        response = await self._requester.send("GET", headers)
        try:
            if response.status == 200:
                if media_type(response) == "text/event-stream":
                    return response
                raise _NotOffered(str(unexpected_content(response, self._requester.url)))
            if response.status == 404 and session is not None:
                raise SessionEnded(session, ran=True)
            problem = await read_error(response, self._requester.url, None, 64 * 1024)
            if response.status >= 500 and isinstance(problem, HttpStatus):
                raise problem
            raise _NotOffered(str(problem))
        except BaseException:
            response.close()
            raise

    async def _read(self, reader: SseReader, response: ClientResponse) -> None:
        try:
            await reader.read(response)
        except ConnectionLost as problem:
            logger.debug("A stream broke off: %s", problem)
        finally:
            response.close()


class _NotOffered(Exception):
    """The server does not offer the stream."""


def _delay(reader: SseReader, failures: int) -> float:
    """The delay that the server asks for, doubled after each failed attempt."""
    first = FIRST_DELAY if reader.retry is None else reader.retry
    return first if not failures else max(first, min(max(first, FIRST_DELAY) * 2**failures, MAX_DELAY))
