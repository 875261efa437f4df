"""SSE streams over GET: the stream of server-initiated messages, and resumption of streams that broke off.

2025-11-25 transports, "Listening for Messages from the Server", "Resumability and Redelivery".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from dovetail.protocol.errors import ConnectionLost, DovetailError, OutcomeUnknown, SessionEnded
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.requester import HttpRequester, media_type, read_error, retry_after, unexpected_content
from dovetail.transports.reconnection import LASTING_SECONDS, TEMPORARY_STATUSES, Reconnection

from .sse_reader import SseReader

logger = logging.getLogger("dovetail")

TICK_SECONDS = 0.05
MAX_WAIT_SECONDS = 10.0
"""The unit and the largest number of the seconds that `wait_answered` takes."""

_GET = {"accept": "text/event-stream"}

SessionHeaders = Callable[[str | None], dict[str, str]]


class GetStream:
    """Connects over GET and reconnects with backoff."""

    def __init__(self, requester: HttpRequester, session_headers: SessionHeaders) -> None:
        self._requester = requester
        self._session_headers = session_headers
        self._answered = asyncio.Event()
        self._waited = 0.0
        self._ticking: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.gave_up = False
        """The server could not be reached; worth another attempt once it answers a POST again."""

    def start(
        self,
        reader: SseReader,
        session: str | None,
        on_session_ended: Callable[[str], None],
        on_interrupted: Callable[[], None],
    ) -> None:
        """Open the stream of server-initiated messages, in a task of its own.

        `on_interrupted` is called when messages may have been lost: another stream follows one without event ids, or
        none can be opened.
        """
        self.cancel()
        self.gave_up = False
        self._answered = asyncio.Event()
        self._waited = 0.0
        self._tick()
        self._task = asyncio.get_running_loop().create_task(
            self._keep_open(reader, session, on_session_ended, on_interrupted, self._answered),
            name="dovetail-get-stream",
        )

    async def wait_answered(self, seconds: float) -> None:
        """Wait until the server has answered the GET, at most so many seconds after it was sent.

        The seconds are counted in ticks of the event loop: on a busy machine a process may not run for a second, and
        time in which it could neither send the GET nor read the answer tells nothing about the server.
        """
        if self._task is None:
            return
        answered = self._answered
        while not answered.is_set() and self._waited < seconds and answered is self._answered:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await answered.wait()

    def cancel(self) -> None:
        """Close the stream."""
        if self._task is not None:
            self._task.cancel()
        self._stop_ticking()

    async def stop(self) -> None:
        """Close the stream and wait for it."""
        self._stop_ticking()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _tick(self) -> None:
        self._waited += TICK_SECONDS
        if not self._answered.is_set() and self._waited < MAX_WAIT_SECONDS:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _stop_ticking(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()

    async def resume(self, reader: SseReader, session: str | None, reason: str, *, broken: bool) -> None:
        """Resume a stream that ended until its answer has come; raises `OutcomeUnknown` when that fails.

        Whichever server process answers can resume it. `broken` is a stream that did not end properly.
        """
        now, reconnection = asyncio.get_running_loop().time, Reconnection()
        pause = reconnection.after_end(now(), useful=True, broken=broken, retry=reader.retry)
        while not reader.answered:
            await asyncio.sleep(pause)
            try:
                response = await self._connect(reader, session)
            except _NotOffered as problem:
                raise OutcomeUnknown(f"{self._requester.url}: {reason}; it cannot be resumed: {problem}") from None
            except _Unavailable as problem:
                later = reconnection.after_failure(now(), retry=problem.retry_after)
                if later is None:
                    raise OutcomeUnknown(f"{reason}; it could not be resumed: {problem}") from None
                pause = later
            else:
                pause = await self._read(reader, response, reconnection)

    async def _keep_open(
        self,
        reader: SseReader,
        session: str | None,
        on_session_ended: Callable[[str], None],
        on_interrupted: Callable[[], None],
        answered: asyncio.Event,
    ) -> None:
        now, reconnection = asyncio.get_running_loop().time, Reconnection()
        pause: float | None = 0.0
        try:
            while pause is not None:
                await asyncio.sleep(pause)
                try:
                    response = await self._connect(reader, session)
                except _NotOffered as problem:
                    logger.debug("The server offers no stream of its own: %s", problem)
                    return
                except SessionEnded as problem:
                    on_session_ended(problem.session)
                    return
                except _Unavailable as problem:
                    logger.debug("Opening the stream failed: %s", problem)
                    pause = reconnection.after_failure(now(), retry=problem.retry_after)
                else:
                    if answered.is_set() and reader.last_event_id is None:
                        on_interrupted()
                    answered.set()
                    pause = await self._read(reader, response, reconnection)
            self.gave_up = True
            on_interrupted()
            logger.warning("%s cannot be listened to any more; calls may still work", self._requester.url)
        except DovetailError as problem:
            logger.warning("%s cannot be listened to any more: %s", self._requester.url, problem)
        finally:
            answered.set()

    async def _connect(self, reader: SseReader, session: str | None) -> ClientResponse:
        headers = {**_GET, **self._session_headers(session)}
        if reader.last_event_id is not None:
            headers["last-event-id"] = reader.last_event_id
        try:
            response = await self._requester.send("GET", headers)
        except ConnectionLost as problem:
            raise _Unavailable(str(problem)) from problem
        try:
            if response.status == 200:
                if media_type(response) == "text/event-stream":
                    return response
                raise _NotOffered(str(unexpected_content(response, self._requester.url)))
            if response.status == 404 and session is not None:
                raise SessionEnded(session, ran=True)
            problem = await read_error(response, self._requester.url, None, 64 * 1024)
            if response.status in TEMPORARY_STATUSES:
                raise _Unavailable(str(problem), retry_after(response))
            raise _NotOffered(str(problem))
        except BaseException:
            response.close()
            raise

    async def _read(self, reader: SseReader, response: ClientResponse, reconnection: Reconnection) -> float:
        """Read a connection to its end; returns the seconds to wait before the next one."""
        reconnection.connected()
        now = asyncio.get_running_loop().time
        messages, began, broken = reader.messages, now(), False
        try:
            await reader.read(response)
        except ConnectionLost as problem:
            logger.debug("A stream broke off: %s", problem)
            broken = True
        finally:
            response.close()
        useful = reader.messages > messages or now() - began >= LASTING_SECONDS
        return reconnection.after_end(now(), useful=useful, broken=broken, retry=reader.retry)


class _NotOffered(Exception):
    """The server does not offer the stream."""


class _Unavailable(Exception):
    """The server cannot be reached now, or says so itself; another attempt may succeed."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
