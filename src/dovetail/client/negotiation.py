"""Finding out what a server speaks: a request of the envelope era first, the handshake after it.

2026-07-28 stdio and Streamable HTTP, "Backward Compatibility": a discover result or a modern error means the
envelope era; any other error, or silence, means the handshake. Over HTTP, where that is refused too, HTTP+SSE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import SERVER_INFO, request_meta
from dovetail.protocol.errors import MODERN_CODES, HttpStatus, InvalidAnswer, RemoteError
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS, Revision
from dovetail.runtime.connection import Connection
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.messages import DiscoverResult, InitializeParams, InitializeResult
from dovetail.types.serialization import Value, load

PROBE_SECONDS = 5.0
SSE = "sse"
"""What is remembered of a server behind a URL that speaks over HTTP+SSE only."""

_MOST_REMEMBERED = 1000
_remembered: dict[Hashable, str] = {}

_KEPT_OUT = frozenset({401, 403, 407, 429})
"""HTTP statuses that say nothing about what a server speaks."""


class Agreement(msgspec.Struct, frozen=True):
    """What came of the first contact."""

    revision: Revision
    server: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | None


def remembered(key: Hashable) -> str | None:
    """The era that a server showed before (versioning: the era is a property of the server)."""
    return _remembered.get(key)


def remember(key: Hashable | None, what: str) -> None:
    """Keep the era, or SSE, for the next time this server is contacted."""
    if key is not None:
        _remembered[key] = what
        while len(_remembered) > _MOST_REMEMBERED:
            del _remembered[next(iter(_remembered))]


def forget(key: Hashable | None) -> None:
    """The assumption failed: probe again next time."""
    _remembered.pop(key, None)


def may_speak_sse(refusal: Exception) -> bool:
    """Whether what refuses a POST of initialize may be a server of HTTP+SSE ("HTTP+SSE Transport")."""
    status = refusal.status if isinstance(refusal, (HttpStatus, RemoteError)) else None
    return status is not None and (400 <= status < 500 or status == 501) and status not in _KEPT_OUT


class Negotiator:
    """The first contact over one connection."""

    def __init__(
        self,
        connection: Connection,
        client: Implementation,
        capabilities: ClientCapabilities,
        timeout: float | None,
        agreed: Callable[[Revision, Implementation | None], None],
        log_level: str | None = None,
    ) -> None:
        self._connection = connection
        self._agreed = agreed
        self._client = client
        self._capabilities = capabilities
        self._timeout = timeout
        self._log_level = log_level

    async def find_out(self) -> Agreement:
        """Probe, and fall back to the handshake."""
        probe = asyncio.ensure_future(self.discover(NEWEST))
        limit = PROBE_SECONDS if self._timeout is None else min(PROBE_SECONDS, self._timeout)
        try:
            done, _ = await asyncio.wait({probe}, timeout=limit)
            while not done and self._connection.pending.paused:
                # A user is logging in; that is no silence of the server's.
                done, _ = await asyncio.wait({probe}, timeout=limit)
            if done:
                return await self._judge(probe)
            # Silence: most likely an old server, or one that is slow to start. It gets the handshake,
            # and should it answer the probe after all, that answer counts.
            try:
                return await self.initialize(NEWEST_HANDSHAKE)
            except (RemoteError, InvalidAnswer):
                if probe.done() and probe.exception() is None:
                    return probe.result()
                raise
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)

    async def _judge(self, probe: asyncio.Future[Agreement]) -> Agreement:
        try:
            return probe.result()
        except RemoteError as answer:
            if answer.code in MODERN_CODES:
                return await self.agree_on(_mutual(answer))
        except HttpStatus as refusal:
            if refusal.status in _KEPT_OUT:
                raise
        except InvalidAnswer:
            pass
        return await self.initialize(NEWEST_HANDSHAKE)

    async def agree_on(self, revision: Revision) -> Agreement:
        """The first contact on a revision that is known to be right."""
        return await (self.discover(revision) if revision.era == "envelope" else self.initialize(revision))

    async def discover(self, revision: Revision) -> Agreement:
        """Ask a server of the envelope era who it is and what it can do."""
        params = {"_meta": request_meta(revision, self._client, self._capabilities, self._log_level)}
        raw = await self._request("server/discover", params)
        found = _read(revision, "server/discover", raw)
        if not isinstance(found, DiscoverResult):
            raise InvalidAnswer("server/discover was answered with something else than a discovery")
        if revision.name not in found.supported_versions:
            other = _newest_of(found.supported_versions, "envelope")
            if other is None:
                raise InvalidAnswer(f"The server speaks {found.supported_versions}, none of which we know")
            revision = other
        server = _server_info(found)
        self._agreed(revision, server)
        return Agreement(revision, server, found.capabilities, found.instructions)

    async def initialize(self, revision: Revision) -> Agreement:
        """The handshake, asking for this revision (lifecycle, "Initialization")."""
        params = InitializeParams(revision.name, self._capabilities, self._client)
        raw = await self._request("initialize", revision.emit(params))
        result = _read(revision, "initialize", raw)
        assert isinstance(result, InitializeResult)
        agreed = REVISIONS.get(result.protocol_version)
        if agreed is None or agreed.era != "handshake":
            raise InvalidAnswer(
                f"The server offers revision {result.protocol_version!r}; we speak {', '.join(HANDSHAKE)}"
            )
        # First ours, then theirs: from the notification on the server may send what the revision allows.
        self._agreed(agreed, result.server_info)
        self._connection.notify("notifications/initialized")
        return Agreement(agreed, result.server_info, result.capabilities, result.instructions)

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        return await self._connection.pending.request(method, params, Timeouts(self._timeout), cancellable=False)


def _server_info(found: DiscoverResult) -> Implementation | None:
    info = (found.meta or {}).get(SERVER_INFO)
    try:
        return None if info is None else load(Implementation, info)
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"server/discover was answered with a bad {SERVER_INFO}: {problem}") from None


def _mutual(answer: RemoteError) -> Revision:
    """The best revision of those that a refusal names."""
    try:
        data = msgspec.convert(answer.data, _Supported)
    except msgspec.ValidationError:
        raise answer from None
    best = _newest_of(data.supported, "envelope") or _newest_of(data.supported, "handshake")
    if best is None:
        raise answer
    return best


def _newest_of(names: list[str], era: str) -> Revision | None:
    spoken = [revision for name, revision in REVISIONS.items() if name in names and revision.era == era]
    return spoken[-1] if spoken else None


def _read(revision: Revision, method: str, raw: object) -> Value:
    try:
        return revision.load_result(method, raw)
    except RemoteError as problem:
        raise InvalidAnswer(problem.message) from None


class _Supported(msgspec.Struct):
    supported: list[str]
