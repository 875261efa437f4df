"""Connection to one Redis server that carries many commands at once, and that reconnects by itself.

redis-py makes the connection (TLS, authentication, database) and parses the replies. Its own client takes a connection
from a pool for each command; here all commands share one, and those issued in the same turn of the event loop are
written together. That costs a tenth of the CPU time, and one round trip for commands that are issued together.

A command that was written is never sent again after its reply was lost: it may have been executed. The only commands
that are sent again are those that Redis refused to execute because it does not know the script.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection

from dovetail.storage.contract import StoreClosed, StoreError, StoreUnavailable

from .address import RedisAddress, format_server
from .errors import from_connecting
from .scripts import Script

logger = logging.getLogger("dovetail")

MAX_WAITING = 10_000
"""Commands without a reply, for each server."""
_GRACE_SECONDS = 0.05
"""Time to read replies that have arrived, after an event loop was busy beyond a deadline."""
_FIRST_RETRY, _LAST_RETRY = 0.1, 1.0
"""Seconds between attempts to connect."""

PushHandler = Callable[[list[Any]], None]


class DirectConnection(Connection):
    """redis-py's connection, with writes that do not wait."""

    def write(self, data: bytes) -> None:
        """Queue data to be sent."""
        if self._writer is not None:
            self._writer.write(data)

    async def read(self) -> Any:
        """The next reply; raises `ResponseError` for one that is an error."""
        return cast("Any", await self.read_response(disconnect_on_error=False))

    async def discard(self) -> None:
        """Close at once, without sending what is queued."""
        if self._writer is not None:
            self._writer.transport.abort()
        await self.disconnect(nowait=True)

    def abort(self) -> None:
        """Let the reader find a closed connection."""
        if self._writer is not None:
            self._writer.transport.abort()


class DirectTlsConnection(DirectConnection, SSLConnection):
    """The same with TLS."""


def make_connection(
    address: RedisAddress, host: str, port: int, timeout: float, *, to_sentinel: bool = False
) -> DirectConnection:
    """A connection, not yet connected, with the credentials of an address."""
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "db": 0 if to_sentinel else address.database,
        "username": address.sentinel_username if to_sentinel else address.username,
        "password": address.sentinel_password if to_sentinel else address.password,
        "socket_connect_timeout": timeout,
        # Reads wait as long as it takes: the deadlines of commands are watched elsewhere.
        "socket_timeout": None,
        # With this protocol every reply is one value, and messages of channels come as lists.
        "protocol": 2,
    }
    if address.tls:
        return DirectTlsConnection(**address.tls_options, **options)
    return DirectConnection(**options)


class _Command:
    """A command, its deadline and the future of its reply."""

    __slots__ = ("deadline", "future", "parts", "script")

    def __init__(
        self, parts: tuple[bytes, ...], script: Script | None, future: asyncio.Future[Any], deadline: float
    ) -> None:
        self.parts = parts
        self.script = script
        self.future = future
        self.deadline = deadline


class LinkState(enum.Enum):
    """The states of a connection, each with the fate of a command that is issued in it."""

    CONNECTING = "it waits for the connection"
    OPEN = "it is written at the end of this turn of the event loop"
    AWAY = "it fails at once; attempts to connect go on"
    CLOSED = "it fails"


class Link:
    """Connection to one server, used from one event loop.

    `dial` makes a connection that is not yet connected, each time anew because the server may have moved. `on_open` is
    called with each new connection, before commands are written; `on_push` gets the messages of channels. With
    `needs_master` a server that is a replica is not used.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[DirectConnection]],
        timeout: float,
        *,
        needs_master: bool = False,
        on_open: Callable[[], None] | None = None,
        on_push: PushHandler | None = None,
    ) -> None:
        self._dial = dial
        self._timeout = timeout
        self._needs_master = needs_master
        self._on_open = on_open
        self._on_push = on_push
        self._loop = asyncio.get_running_loop()
        self._state = LinkState.CONNECTING
        self._connection: DirectConnection | None = None
        self._queue: list[_Command] = []
        """Commands that are not yet written."""
        self._waiting: deque[_Command] = deque()
        """Commands that are written, in the order of their replies."""
        self._known_scripts: set[Script] = set()
        """Scripts that Redis has cached, because they were sent with this connection."""
        self._problem: StoreError = StoreUnavailable("Redis has not been connected")
        self._timer: asyncio.TimerHandle | None = None
        self._overdue: _Command | None = None
        """The command whose deadline was found to have passed."""
        self.server = "?"
        self._task = self._loop.create_task(self._run(), name="dovetail-redis")

    @property
    def state(self) -> LinkState:
        """The state of the connection."""
        return self._state

    def call(
        self, parts: tuple[bytes, ...], script: Script | None = None, *, deadline: float | None = None
    ) -> asyncio.Future[Any]:
        """The future of the reply to a command; with a script, `parts` are the number of its keys and its arguments.

        It fails with a `StoreError`, or with redis-py's `ResponseError` if Redis refused the command.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._state in {LinkState.AWAY, LinkState.CLOSED}:
            future.set_exception(_again(self._problem))
            return future
        if len(self._queue) + len(self._waiting) >= MAX_WAITING:
            future.set_exception(
                StoreUnavailable(f"Redis at {self.server} has {MAX_WAITING} commands to answer already")
            )
            return future
        self._enqueue(_Command(parts, script, future, deadline or self._loop.time() + self._timeout))
        return future

    def give_up(self, problem: StoreError) -> None:
        """Drop the connection, let all commands fail, and connect again after a moment."""
        if self._state is not LinkState.CLOSED:
            if self._state is not LinkState.AWAY:
                logger.debug("%s; trying again until it succeeds", problem)
            self._fail(problem)
            if self._connection is not None:
                self._connection.abort()

    async def close(self, problem: StoreError | None = None) -> None:
        """Let all commands fail, and close the connection."""
        self._state, self._problem = LinkState.CLOSED, problem or StoreClosed("The store is closed")
        self._task.cancel()
        await asyncio.wait([self._task])
        # A task that was cancelled before its first step has not done this.
        self._fail(self._problem)

    def _enqueue(self, command: _Command) -> None:
        if not self._queue and self._state is LinkState.OPEN:
            self._loop.call_soon(self._flush)
        self._queue.append(command)
        if self._timer is None:
            self._timer = self._loop.call_at(command.deadline, self._check_deadlines)

    def _flush(self) -> None:
        """Write what was issued in this turn of the event loop."""
        if self._state is not LinkState.OPEN or self._connection is None:
            return
        queue, self._queue = self._queue, []
        chunks: list[bytes] = []
        for command in queue:
            # A caller that was cancelled before this has not changed anything.
            if not command.future.done():
                chunks.append(self._pack(command))
                self._waiting.append(command)
        self._connection.write(b"".join(chunks))

    def _pack(self, command: _Command) -> bytes:
        parts, script = command.parts, command.script
        if script is not None:
            if script in self._known_scripts:
                parts = (b"EVALSHA", script.digest, *parts)
            else:
                self._known_scripts.add(script)
                parts = (b"EVAL", script.source, *parts)
        return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])

    def _check_deadlines(self) -> None:
        """Give up the connection if the oldest command is overdue: those behind it would not be in time either."""
        self._timer = None
        oldest = self._waiting[0] if self._waiting else self._queue[0] if self._queue else None
        if oldest is None:
            self._overdue = None
        elif self._loop.time() < oldest.deadline:
            self._timer = self._loop.call_at(oldest.deadline, self._check_deadlines)
        elif oldest is not self._overdue:
            # If this event loop was busy, its reply may be here already, and only has to be read.
            self._overdue = oldest
            self._timer = self._loop.call_later(_GRACE_SECONDS, self._check_deadlines)
        else:
            seconds = f"{self._timeout:g} seconds"
            self.give_up(StoreUnavailable(f"Redis at {self.server} did not answer within {seconds}"))

    def _fail(self, problem: StoreError, state: LinkState = LinkState.AWAY) -> None:
        """Let all commands fail; those that follow wait for the connection, or fail too."""
        if self._state is not LinkState.CLOSED:
            self._state, self._problem = state, problem
        commands = [*self._waiting, *self._queue]
        self._waiting.clear()
        self._queue.clear()
        for command in commands:
            if not command.future.done():
                command.future.set_exception(_again(self._problem))

    async def _run(self) -> None:
        """Connect, read until the connection breaks, and begin again."""
        delay = _FIRST_RETRY
        try:
            while True:
                opened = math.inf
                try:
                    connection = await self._connect()
                    opened = self._loop.time()
                    await self._read(connection)
                except StoreError as problem:
                    if self._state is LinkState.CONNECTING:
                        logger.debug("%s; trying again until it succeeds", problem)
                    self._fail(problem)
                except Exception as problem:
                    logger.exception("The connection to Redis at %s failed; trying again", self.server)
                    self._fail(StoreError(f"Redis at {self.server} cannot be used: {type(problem).__name__}"))
                if self._loop.time() - opened > _LAST_RETRY:
                    delay = _FIRST_RETRY
                    if self._state is LinkState.CONNECTING:
                        continue
                # Some randomness keeps the processes of a server that comes back from connecting all at once.
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
                delay = min(2 * delay, _LAST_RETRY)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._fail(StoreClosed("The event loop of the store has ended"), LinkState.CLOSED)

    async def _connect(self) -> DirectConnection:
        connection: DirectConnection | None = None
        try:
            # Less than commands wait, so that they fail with what was wrong with the connection.
            async with asyncio.timeout(0.9 * self._timeout):
                connection = await self._dial()
                self.server = format_server(connection.host, connection.port)
                await connection.connect()
                # A server that is suspended accepts connections, and says nothing.
                await connection.send_command("ROLE" if self._needs_master else "PING", check_health=False)
                with contextlib.suppress(exceptions.ResponseError):
                    answer = await connection.read()
                    if self._needs_master and answer[0] != b"master":
                        raise StoreUnavailable(f"Redis at {self.server} is not the master yet, or not any more")
        except BaseException as problem:
            if connection is not None:
                await connection.discard()
            if isinstance(problem, (exceptions.RedisError, OSError)):
                tls = isinstance(connection, DirectTlsConnection)
                raise from_connecting(problem, self.server, tls=tls) from None
            raise
        return connection

    async def _read(self, connection: DirectConnection) -> None:
        """Resolve the futures of commands until the connection breaks."""
        was_away = self._state is LinkState.AWAY
        self._connection, self._state = connection, LinkState.OPEN
        self._known_scripts.clear()
        if was_away:
            logger.debug("Redis at %s can be reached again", self.server)
        if self._on_open is not None:
            self._on_open()
        self._flush()
        try:
            while True:
                try:
                    reply = await connection.read()
                except exceptions.ResponseError as problem:
                    reply = problem
                self._take(reply)
        except (exceptions.RedisError, OSError) as problem:
            if self._state is LinkState.OPEN:
                refused = isinstance(problem, (exceptions.AuthenticationError, exceptions.BusyLoadingError))
                # A connection that was closed can often be opened again at once, and commands wait for that.
                self._fail(from_connecting(problem, self.server), LinkState.AWAY if refused else LinkState.CONNECTING)
        finally:
            self._connection = None
            await connection.discard()

    def _take(self, reply: Any) -> None:
        """Resolve the future of the oldest command, or hand over a message of a channel."""
        if self._on_push is not None and isinstance(reply, list) and reply[:1] == [b"message"]:
            self._on_push(cast("list[Any]", reply))
            return
        if not self._waiting:
            raise exceptions.ConnectionError("there was a reply without a command")
        command = self._waiting.popleft()
        if command.future.done():
            return
        if isinstance(reply, exceptions.NoScriptError) and command.script is not None:
            # It was not executed, so it may be sent again; Redis forgets scripts when it is told to.
            self._known_scripts.discard(command.script)
            self._enqueue(command)
        elif isinstance(reply, Exception):
            command.future.set_exception(reply)
            if isinstance(reply, exceptions.ReadOnlyError):
                self.give_up(StoreUnavailable(f"Redis at {self.server} is a read-only replica"))
        else:
            command.future.set_result(reply)


def _again(problem: StoreError) -> StoreError:
    """A new exception for each caller, because each adds its own traceback."""
    return type(problem)(*problem.args)


def ignore_outcome(future: asyncio.Future[Any]) -> None:
    """Retrieve an exception that nobody waits for, so that asyncio does not report it."""
    if not future.cancelled():
        future.exception()
