"""Handles: ids that stand for state which outlives a call (2026-07-28 tools, "Stateful Tools").

The id is returned to the model, which passes it to other tools. The state is in the store of the server, under a digest
of the id and of the principal: an id that was guessed, that belongs to another principal or that has expired is looked
up in the same way, and not found. In a store that other processes share, the state is encrypted with a key that is
derived from the id, which is stored nowhere: who reads the store cannot read the state, and no rotation of keys limits
how long it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from dovetail.protocol.client_address import client_text
from dovetail.protocol.errors import LocalError, NotFound, ProtocolError, ToolError
from dovetail.protocol.seal import MAX_SEALED, KeyRing
from dovetail.schema.hints.conversion import converter_for
from dovetail.server.context import Context, RequestContext, invocation_of
from dovetail.server.signatures.binding import BadResult
from dovetail.server.signatures.results import json_builtins
from dovetail.server.sync_context import SyncContext, ThreadContext, refuse_in_thread
from dovetail.storage.contract import StoreError
from dovetail.wire import codec

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

    from .tools import RegisteredTool

logger = logging.getLogger("dovetail")

T = TypeVar("T")
V = TypeVar("V")

LOCK_SECONDS = 10.0
"""A call that changes a state keeps others waiting for at most this time."""

WAIT_SECONDS = 15.0
"""Seconds that a call waits for others that change the same state."""

_FIRST_DELAY, _MAX_DELAY = 0.005, 0.1

_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


class Handles(Generic[T]):
    """One kind of state that outlives a call, made by `server.handles(Type)`.

    In an `async def` handler, await the methods and write `async with`; in a plain `def` handler with a `SyncContext`,
    leave out `await` and `async`. Each use of a handle starts its time to live again.
    """

    def __init__(
        self,
        core: ServerCore,
        kind: type[T],
        *,
        ttl: float,
        name: str | None,
        created_by: str | None,
        max_handles: int,
        max_bytes: int,
    ) -> None:
        self.name = _name_of(kind) if name is None else name
        """The name of the state in sentences for models, such as "basket"."""
        self.ttl = ttl
        """Seconds that a state is kept after its last use."""
        self.created_by = created_by
        """The tool that creates handles, by name."""
        if not self.name or not re.fullmatch(r"[\w -]{1,40}", self.name):
            raise LocalError(f"{self.name!r} is no name for a handle: use up to 40 letters, digits and spaces")
        if not (0 < ttl < math.inf):
            raise LocalError(f"The ttl of a {self.name} is a positive number of seconds, not {ttl!r}")
        if not 0 < max_bytes <= MAX_SEALED // 2:
            raise LocalError(f"max_bytes of a {self.name} is a number from 1 to {MAX_SEALED // 2:,}, not {max_bytes!r}")
        self._core = core
        self._converter = converter_for(kind)
        self._max_handles = max_handles
        self._max_bytes = max_bytes
        self._prefix = re.sub(r"[ -]+", "_", self.name)

    @overload
    def create(self, ctx: Context[Any], value: T) -> Coroutine[Any, Any, str]: ...
    @overload
    def create(self, ctx: SyncContext[Any], value: T) -> str: ...
    def create(self, ctx: RequestContext[Any], value: T) -> Any:
        """Store a new state, which belongs to the principal of the call; the id, to be returned to the model."""
        return _run(ctx, "create", lambda: self._reached(ctx, self._create(ctx, value)))

    @overload
    def get(self, ctx: Context[Any], id: str) -> Coroutine[Any, Any, T]: ...
    @overload
    def get(self, ctx: SyncContext[Any], id: str) -> T: ...
    def get(self, ctx: RequestContext[Any], id: str) -> Any:
        """A copy of the state; changes of it are not stored."""
        return _run(ctx, "get", lambda: self._reached(ctx, self._get(ctx, id)))

    @overload
    def open(self, ctx: Context[Any], id: str) -> contextlib.AbstractAsyncContextManager[T]: ...
    @overload
    def open(self, ctx: SyncContext[Any], id: str) -> contextlib.AbstractContextManager[T]: ...
    def open(self, ctx: RequestContext[Any], id: str) -> Any:
        """The state to change: stored when the block ends, and not if an exception leaves it.

        Calls that change the same state wait for each other, in all processes. A block that takes longer than a few
        seconds may be overtaken by another call: then the change that comes second is not stored, and its call fails
        with a `ToolError`.
        """
        if isinstance(ctx, SyncContext):
            return self._open_in_thread(ctx, id)
        _refuse_thread(ctx, "open")
        return self._open(ctx, id)

    @overload
    def delete(self, ctx: Context[Any], id: str) -> Coroutine[Any, Any, None]: ...
    @overload
    def delete(self, ctx: SyncContext[Any], id: str) -> None: ...
    def delete(self, ctx: RequestContext[Any], id: str) -> Any:
        """Remove the state; of several calls at once, all but one fail as for an unknown id."""
        return _run(ctx, "delete", lambda: self._reached(ctx, self._delete(ctx, id)))

    @property
    def lifetime(self) -> str:
        """The lifetime of a state, as a sentence for models; added to the description of the tool that creates it."""
        return f"Each {self.name} is kept for {_duration(self.ttl)} after its last use."

    async def _create(self, ctx: RequestContext[Any], value: T) -> str:
        id = f"{self._prefix}_{secrets.token_urlsafe(16)}"
        key, group = self._key(ctx, id), self._group(ctx)
        content = self._encode(ctx, group, value)
        store = self._core.store
        if not await store.join(group, key, self.ttl, self._max_handles):
            raise _refusal(
                ctx,
                f"There are {self._max_handles:,} already, which is the limit for each {self.name}; "
                "use one that exists, or wait until one expires",
            )
        await store.add(key, self._seal(content, id, key), self.ttl)
        return id

    async def _get(self, ctx: RequestContext[Any], id: str) -> T:
        stored = await self._load(ctx, self._key(ctx, id), id)
        await self._renew(stored)
        return stored.value

    async def _delete(self, ctx: RequestContext[Any], id: str) -> None:
        stored = await self._load(ctx, self._key(ctx, id), id)
        if not await self._core.store.delete(stored.key):
            raise self._missing(ctx)
        await self._core.store.leave(stored.group, stored.key)

    @contextlib.asynccontextmanager
    async def _open(self, ctx: RequestContext[Any], id: str) -> AsyncGenerator[T]:
        lock = self._lock(ctx, id)
        await self._reached(ctx, lock.acquire(ctx))
        try:
            stored = await self._reached(ctx, self._load(ctx, lock.key, id))
            yield stored.value
            await self._reached(ctx, self._save(ctx, stored, id))
        finally:
            await lock.release()

    @contextlib.contextmanager
    def _open_in_thread(self, ctx: SyncContext[Any], id: str) -> Generator[T]:
        lock = self._lock(ctx, id)
        _run(ctx, "open", lambda: self._reached(ctx, lock.acquire(ctx)))
        try:
            stored: _Stored[T] = _run(ctx, "open", lambda: self._reached(ctx, self._load(ctx, lock.key, id)))
            yield stored.value
            _run(ctx, "open", lambda: self._reached(ctx, self._save(ctx, stored, id)))
        finally:
            # A cancelled call cannot reach the loop any more: then the lock expires by itself.
            _run(ctx, "open", lock.release)

    async def _reached(self, ctx: RequestContext[Any], work: Coroutine[Any, Any, V]) -> V:
        """The outcome of work with the store; an error for the caller, without details, if the store fails."""
        try:
            return await work
        except StoreError as problem:
            logger.error("A %s cannot be reached: %s", self.name, problem)
            raise _refusal(ctx, f"The {self.name} cannot be reached at the moment; try again later") from problem

    async def _load(self, ctx: RequestContext[Any], key: str, id: str) -> _Stored[T]:
        store = self._core.store
        sealed = await store.get(key)
        if sealed is None:
            raise self._missing(ctx)
        try:
            content = KeyRing([id.encode()]).open(sealed.decode(), key.encode()) if store.shared else sealed
        except ProtocolError as problem:  # somebody changed the entry
            raise self._missing(ctx) from problem
        group, data = msgspec.json.decode(content)
        try:
            value = self._converter.convert(data)
        except ValueError as problem:
            logger.error("A stored %s does not fit %s: %s", self.name, self._converter.name, problem)
            text = f"This {self.name} cannot be read any more, because the server has changed"
            raise _refusal(ctx, f"{text}; {self._advice(ctx)}") from problem
        return _Stored(key, group, sealed, content, value)

    async def _save(self, ctx: RequestContext[Any], stored: _Stored[T], id: str) -> None:
        content = self._encode(ctx, stored.group, stored.value)
        if content == stored.content:
            await self._renew(stored)
            return
        store = self._core.store
        sealed = self._seal(content, id, stored.key)
        if not await store.replace(stored.key, sealed, self.ttl, expected=stored.sealed):
            if await store.get(stored.key) is None:
                raise self._missing(ctx)
            text = (
                f"Another call changed this {self.name} at the same time, so that this change was not made; try again"
            )
            raise _refusal(ctx, text)
        await store.join(stored.group, stored.key, self.ttl, self._max_handles)

    async def _renew(self, stored: _Stored[T]) -> None:
        store = self._core.store
        await store.touch(stored.key, self.ttl)
        await store.join(stored.group, stored.key, self.ttl, self._max_handles)

    def _encode(self, ctx: RequestContext[Any], group: str, value: T) -> bytes:
        """The state as it is stored, with the group that it is counted in; it can be read again as the type."""
        try:
            data = json_builtins(value, f"the {self.name}")
            self._converter.convert(data)
        except (BadResult, ValueError) as problem:
            raise LocalError(f"The {self.name} cannot be stored as {self._converter.name}: {problem}") from problem
        content = codec.encode([group, data])
        if len(content) > self._max_bytes:
            text = f"The {self.name} would take {len(content):,} bytes, and {self._max_bytes:,} is the most"
            raise _refusal(ctx, f"{text}; keep less in it")
        return content

    def _seal(self, content: bytes, id: str, key: str) -> bytes:
        if not self._core.store.shared:
            return content
        return KeyRing([id.encode()]).seal(content, key.encode(), os.urandom(12)).encode()

    def _key(self, ctx: RequestContext[Any], id: str) -> str:
        return f"handle:{self._digest(ctx.principal, id)}"

    def _group(self, ctx: RequestContext[Any]) -> str:
        return f"handles:{self._digest(client_text(invocation_of(ctx).call.client_key))}"

    def _digest(self, *parts: Any) -> str:
        named = codec.encode([self._core.info.name, self.name, *parts])
        return blake2b(named, digest_size=16, person=b"dovetail-handle").hexdigest()

    def _lock(self, ctx: RequestContext[Any], id: str) -> _Lock:
        return _Lock(self._core, self._key(ctx, id), self.name)

    def _missing(self, ctx: RequestContext[Any]) -> Exception:
        text = f"There is no {self.name} with this id, or it has expired; {self._advice(ctx)}"
        return _refusal(ctx, text)

    def _advice(self, ctx: RequestContext[Any]) -> str:
        if self.created_by is None:
            return "create a new one"
        return f"create one with {_prefix_of_call(self._core, ctx)}{self.created_by}"


class _Stored(NamedTuple, Generic[T]):
    """A state that was read."""

    key: str
    group: str
    """The group in which the handles of the client that created it are counted."""
    sealed: bytes
    content: bytes
    value: T


class _Lock:
    """Keeps other calls from changing a state, here and in other processes, for a limited time.

    It saves calls from failing; that no change is lost does not depend on it.
    """

    def __init__(self, core: ServerCore, key: str, name: str) -> None:
        self.key = key
        self._store = core.store
        self._entry = f"{key}:lock"
        self._name = name
        self._expires = 0.0

    async def acquire(self, ctx: RequestContext[Any]) -> None:
        delay, give_up = _FIRST_DELAY, time.monotonic() + WAIT_SECONDS
        while not await self._store.add(self._entry, b"", LOCK_SECONDS):
            if time.monotonic() > give_up:
                raise _refusal(ctx, f"Other calls are changing this {self._name}; try again")
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)
        self._expires = time.monotonic() + LOCK_SECONDS / 2

    async def release(self) -> None:
        # One that may have expired is maybe that of another call already.
        if time.monotonic() < self._expires:
            with contextlib.suppress(StoreError):
                await self._store.delete(self._entry)


def make_handles(
    core: ServerCore, kind: type[T], *, ttl: float, name: str | None, created_by: str | None, max_handles: int,
    max_bytes: int,
) -> Handles[T]:  # fmt: skip
    """Register a kind of state with a server."""
    handles = Handles(
        core, kind, ttl=ttl, name=name, created_by=created_by, max_handles=max_handles, max_bytes=max_bytes
    )
    if handles.name in core.handles:
        raise LocalError(f"There are handles of the name {handles.name!r} already; give these another name=")
    core.handles[handles.name] = handles
    if created_by is not None and (tool := core.tools.get(created_by)) is not None:
        describe_lifetime(handles, tool)
        core.announce("tools")
    return handles


def describe_lifetime(handles: Handles[Any], tool: RegisteredTool) -> None:
    """Add to the description of the tool that creates handles how long their state is kept."""
    described = (tool.definition.description or "").strip()
    text = f"{described}\n\n{handles.lifetime}" if described else handles.lifetime
    tool.definition = msgspec.structs.replace(tool.definition, description=text)


def _run(ctx: RequestContext[Any], method: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """A coroutine for a handler that awaits it; for one in a thread its result."""
    if isinstance(ctx, SyncContext):
        bridge = invocation_of(ctx).bridge
        assert bridge is not None
        return bridge.run(lambda _: work())
    _refuse_thread(ctx, method)
    return work()


def _refuse_thread(ctx: RequestContext[Any], method: str) -> None:
    if isinstance(ctx, ThreadContext):
        refuse_in_thread(f"handles.{method}")


def _refusal(ctx: RequestContext[Any], text: str) -> Exception:
    """The error for a caller: in a tool one that its model reads, elsewhere one of the protocol."""
    return ToolError(text) if invocation_of(ctx).call.request.method == "tools/call" else NotFound(text)


def _prefix_of_call(core: ServerCore, ctx: RequestContext[Any]) -> str:
    """The prefix that the tools of a mounted server have for the caller."""
    called = str(invocation_of(ctx).call.request.params.get("name"))
    prefixes = sorted(_mount_prefixes(core), key=len, reverse=True)
    return next((one for one in prefixes if called.startswith(one) and called[len(one) :] in core.tools), "")


def _mount_prefixes(core: ServerCore) -> Iterator[str]:
    yield ""
    for mount in core.mounted_in:
        for outer in _mount_prefixes(mount.parent):
            yield outer + mount.prefix


def _name_of(kind: Any) -> str:
    name = getattr(kind, "__name__", "") if isinstance(kind, type) else ""
    if not name or getattr(kind, "__origin__", None) is not None or kind.__module__ == "builtins":
        raise LocalError(f'Handles of {kind!r} need a name: server.handles(…, name="basket")')
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.strip("_")).lower()


def _duration(seconds: float) -> str:
    """A duration in the largest unit that says it exactly, or nearly."""
    for size, unit in _UNITS:
        count = seconds / size
        if count >= 10 or (count >= 2 and count == int(count)):
            return f"{int(count):,} {unit}"
    return f"{seconds:g} {'second' if seconds == 1 else 'seconds'}"
