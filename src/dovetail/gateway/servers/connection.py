"""Connection of a gateway to one of its servers, in the name of one client, or of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.client.call_results import load_call_result
from dovetail.client.connection import ClientConnection
from dovetail.client.listing import ListLimits
from dovetail.client.negotiator import ConnectOptions
from dovetail.client.retry_policy import is_temporary
from dovetail.client.subscriptions import Change, watch
from dovetail.client.tasks.calls import finish_call
from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.log_levels import LEVELS, is_at_least
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind
from dovetail.server.features.logging import MESSAGE, wanted_level
from dovetail.server.features.url_elicitation import COMPLETE
from dovetail.types.base import PageResult
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.prompts import ListPromptsResult, Prompt
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult, Resource, ResourceTemplate
from dovetail.types.tasks import TASKS_EXTENSION, CreatedTask, CreateTaskResult
from dovetail.types.tools import CallToolResult, Tool
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

from .relayed_requests import Announcer, RelayedRequests
from .resource_subscriptions import ResourceSubscriptions, Subscriber, Subscribers, has_subscriber, keep_watching
from .shared_task import wait_for_shared

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.gateway.settings import ServerSettings
    from dovetail.runtime.pending_requests import OnProgress
    from dovetail.server.session import ServerCall, Session

UNOWNED_SECONDS = 1.0
"""Seconds for which a connection whose session has ended stays open after it was last used."""

_versions = itertools.count(1)

_CHANGES: dict[str, ListKind] = {f"notifications/{kind}/list_changed": kind for kind in LIST_KINDS}

OnListChanged = Callable[[ListKind], None]


class Offers(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Everything that a server offers to clients of certain capabilities."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    tasks: frozenset[str] = frozenset()
    """The names of tools whose calls may be tasks."""
    fetched: float = 0
    version: int = msgspec.field(default_factory=lambda: next(_versions))
    """The same number only where all items are the same."""

    def of_kind(self, kind: ListKind) -> tuple[object, ...]:
        """The items that notifications of one kind are about."""
        return {"tools": self.tools, "prompts": self.prompts, "resources": (*self.resources, *self.templates)}[kind]

    def has_same_items(self, other: Offers) -> bool:
        """True if all items are the same."""
        return self.tasks == other.tasks and all(self.of_kind(kind) == other.of_kind(kind) for kind in LIST_KINDS)

    def current(self, definition: Tool | Prompt) -> Tool | Prompt | None:
        """The definition here of the tool or prompt that another definition is of."""
        return self._named.get((type(definition), definition.name))

    @functools.cached_property
    def _named(self) -> dict[tuple[type, str], Tool | Prompt]:
        # Of several with one name the first counts, as in the catalogue.
        return {(type(one), one.name): one for one in reversed((*self.tools, *self.prompts))}


def _question_tasks(capabilities: ClientCapabilities) -> dict[str, Any] | None:
    """The questions that a server of 2025-11-25 may send as tasks: the gateway keeps them, and asks as always."""
    requests: dict[str, Any] = {}
    if capabilities.elicitation is not None:
        requests["elicitation"] = {"create": {}}
    if capabilities.sampling is not None:
        requests["sampling"] = {"createMessage": {}}
    return {"list": {}, "cancel": {}, "requests": requests} if requests else None


class UpstreamConnection(ClientConnection):
    """Forwards requests to a server, relays what it asks and reports, and knows what it offers."""

    def __init__(
        self,
        target: ServerTarget,
        info: Implementation,
        capabilities: ClientCapabilities,
        settings: ServerSettings,
        on_list_changed: OnListChanged,
        *,
        shared: bool,
    ) -> None:
        self.relayed = RelayedRequests(capabilities, shared=shared)
        self.declared_by_client = capabilities
        declared = msgspec.structs.replace(
            capabilities, extensions={TASKS_EXTENSION: {}}, tasks=_question_tasks(capabilities)
        )
        options = ConnectOptions(info=info, capabilities=declared, timeout=settings.connect_seconds, raw_results=True)
        tasks = Extension(id=TASKS_EXTENSION, result_types=frozenset({"task"}))
        super().__init__(target, options, self.relayed, Extensions([tasks]), None, list_limits=ListLimits())
        self._settings = settings
        self._max_timeout = settings.max_timeout
        self._on_list_changed = on_list_changed
        self._offers: Offers | None = None
        self._fetching: asyncio.Task[Offers] | None = None
        self._list_watch: asyncio.Task[None] | None = None
        self._subscriptions = ResourceSubscriptions(
            lambda uri, on_subscribed: watch(self._connected(), self._meta, (), (uri,), self.request, on_subscribed),
            lambda: self.is_usable,
            self._resource_updated,
            settings.timeout,
        )
        self._log_level: str | None = None
        self._loop = asyncio.get_running_loop()
        self.shared = shared
        self.tell_replicas = True
        """False if only its own subscribers may hear of updates, because it has the credentials of one caller."""
        self.outlives_session = False
        """True if its session has ended, and it is open only for the tasks that are in progress, if there are any."""
        self.busy = 0
        """Requests in progress."""
        self.last_used = self._loop.time()

    async def open(self) -> None:
        """Connect and negotiate."""
        self._opened = True
        try:
            async with asyncio.timeout(self._settings.connect_seconds + 1):
                await self._connect()
        except BaseException:
            self._opened = False
            raise
        # From here on it is the time for an answer, and not that for a start.
        self._options.timeout = self._settings.timeout
        self._connected().session.notification_callbacks.add(self._notified)
        if self.revision.era == "envelope":
            kinds: list[ListKind] = [kind for kind in LIST_KINDS if self._announces(kind)]
            if kinds:
                self._list_watch = asyncio.create_task(self._watch_lists(kinds), name="dovetail-gateway-lists")

    async def close(self) -> None:
        """Disconnect; a server that was started for it is stopped."""
        self._opened = False
        tasks: list[asyncio.Task[Any]] = [task for task in (self._list_watch, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._subscriptions.close()
        await self._disconnect()

    async def wait_lost(self) -> str:
        """Wait until the connection is lost; why."""
        supervisor = self._connected()
        await supervisor.wait_lost()
        return supervisor.connection.gone or "the connection was closed"

    @property
    def is_usable(self) -> bool:
        """True while requests can be sent."""
        return self._supervisor is not None and self._supervisor.connection.gone is None

    @property
    def is_idle(self) -> bool:
        """True if nobody needs the connection at this moment."""
        return not self.busy and not self._subscriptions

    def is_unused(self, now: float) -> bool:
        """True if it was idle for so long that it is to be closed."""
        seconds = self._settings.idle_seconds
        if self.outlives_session:
            seconds = min(seconds, UNOWNED_SECONDS)
        return self.is_idle and now - self.last_used > seconds

    @property
    def revision(self) -> Revision:
        """The revision that the server speaks here."""
        return self._connected().agreement.revision

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities of the server."""
        return self._connected().agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """The instructions of the server."""
        return self._connected().agreement.instructions

    async def forward(
        self,
        method: str,
        params: dict[str, Any],
        meta: dict[str, Any],
        progress: OnProgress | None = None,
    ) -> bytes:
        """Send a request and return its result as JSON text."""
        body = dict(params)
        extra = {**(self._meta or {}), **meta}
        if extra:
            body["_meta"] = extra
        self.busy += 1
        try:
            return bytes(await self._send(method, body, None, progress, raw=True))
        finally:
            self.busy -= 1
            self.last_used = self._loop.time()

    async def finish_task(self, tool: str, raw: bytes, progress: OnProgress | None) -> CallToolResult[Any]:
        """Wait for the task that a call was answered with, however long it takes; its questions are relayed."""
        created = load_call_result(self.revision, "tools/call", msgspec.json.decode(raw))
        if not isinstance(created, CreatedTask | CreateTaskResult):
            raise InvalidAnswer("tools/call was answered with something else than a task")
        services = self._task_services()
        services.max_timeout = None
        self.busy += 1
        try:
            return await finish_call(services, tool, created, None, None, progress, check=False)
        finally:
            self.busy -= 1
            self.last_used = self._loop.time()

    def _may_be_task(self, tool: Tool) -> bool:
        if self.revision.tasks == "extension":
            return TASKS_EXTENSION in (self.server_capabilities.extensions or {})
        return tool.execution is not None and tool.execution.task_support in ("optional", "required")

    def notify_roots_changed(self) -> None:
        """Tell a server of the handshake era that the roots have changed."""
        if "notifications/roots/list_changed" in self.revision.methods and self.relayed.can_handle(
            "roots/list", self.revision
        ):
            self._connected().connection.notify("notifications/roots/list_changed")

    async def use_log_level(self, level: str | None) -> None:
        """Have the server send the log messages that the client of a request wants (handshake era)."""
        if level is None or level == self._log_level or "logging/setLevel" not in self.revision.methods:
            return
        if self.shared and self._log_level is not None and is_at_least(level, self._log_level):
            return  # other clients want more
        self._log_level = level
        await self._send_log_level(level)

    @property
    def known_offers(self) -> Offers | None:
        """The offers of the server, if they are known."""
        return self._offers

    async def offers(self) -> Offers:
        """The offers of the server now; fetched when they are first needed and after they have changed."""
        if self._offers is not None:
            return self._offers
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(), name="dovetail-gateway-fetch")
            self._fetching.add_done_callback(self._fetched)
        # It is cancelled by `close`: the server has ended, or was removed.
        closed = ConnectionLost("the connection was closed while its lists were read")
        return await wait_for_shared(self._fetching, closed)

    def _fetched(self, task: asyncio.Task[Offers]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._fetching is not task:
            return  # something has changed since it was begun
        self._fetching = None
        if not failed:
            self._offers = task.result()

    def share_offers(self, same: Offers) -> Offers:
        """Keep the offers of another connection in place of these, which are the same."""
        if self._offers is None:
            return same
        self._offers = msgspec.structs.replace(same, fetched=self._offers.fetched)
        return self._offers

    def forget_offers(self) -> None:
        """Something has changed: what is being fetched now may not have it yet, and is not kept."""
        self._offers = self._fetching = None

    async def _fetch(self) -> Offers:
        self.busy += 1
        try:
            async with asyncio.timeout(self._settings.timeout):
                tools, prompts, resources, templates = await asyncio.gather(
                    self._learn_tools(),
                    self._items("prompts/list", ListPromptsResult, "prompts"),
                    self._items("resources/list", ListResourcesResult, "resources"),
                    self._items("resources/templates/list", ListResourceTemplatesResult, "resource_templates"),
                )
        finally:
            self.busy -= 1
            self.last_used = self._loop.time()
        return Offers(
            tools=tuple(tools),
            prompts=tuple(prompts),
            resources=tuple(resources),
            templates=tuple(templates),
            tasks=frozenset(tool.name for tool in tools if self._may_be_task(tool)),
            fetched=self._loop.time(),
        )

    async def _items(self, method: str, kind: type[PageResult], field: str) -> list[Any]:
        return await self._list(method, kind, field, strict=False)

    def _announces(self, kind: str) -> bool:
        declared = getattr(self.server_capabilities, kind)
        return declared is not None and bool(declared.list_changed)

    async def subscribe(self, uri: str, subscribers: Iterable[Subscriber]) -> None:
        """Notify sessions of changes of a resource, under the URIs that their clients know; raises `DovetailError`."""
        await self._subscriptions.add(uri, subscribers)

    def subscribers(self) -> Subscribers:
        """The sessions that are subscribed to each resource, and the URIs that their clients know."""
        return self._subscriptions.accepted()

    def has_subscriber(self, session: Session) -> bool:
        """True if a session is subscribed to any resource."""
        return has_subscriber(self.subscribers(), session)

    def unsubscribe(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """End one subscription of a session, or all."""
        self._subscriptions.remove(session, known_as, request)

    def report_update(self, uri: str) -> None:
        """Notify the subscribers of a resource that it may have changed."""
        self._resource_updated(uri, uri)

    def _resource_updated(self, subscribed: str, uri: str) -> None:
        for session, known_as in self._subscriptions.audience(subscribed):
            # A resource below the one that was subscribed to keeps its own name, behind the prefix of the gateway.
            shown = known_as.removesuffix(subscribed) + uri if known_as.endswith(subscribed) else known_as
            if isinstance(session.server, Announcer) and session.server.has_replicas:
                # The stream of the session may be at another gateway.
                if self.shared and self.tell_replicas:
                    session.server.announce_update(shown)
                    continue
                # What a connection of one client says is not for others who are subscribed to the same URI.
                if session.id is not None:
                    session.server.announce_update(shown, session.id)
                    continue
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.resource_updated, shown)

    async def _watch_lists(self, kinds: Sequence[ListKind]) -> None:
        opened = 0

        def on_subscribed() -> None:
            # Nobody knows what has changed since the watch before.
            for kind in kinds if opened > 1 else ():
                self._list_changed(kind)

        def open_watch() -> AsyncGenerator[Change]:
            nonlocal opened
            opened += 1
            return watch(self._connected(), self._meta, kinds, (), self.request, on_subscribed)

        with contextlib.suppress(DovetailError):
            await keep_watching(
                open_watch,
                lambda change: self._list_changed(_CHANGES[f"notifications/{change.kind}/list_changed"]),
                lambda problem: self.is_usable and is_temporary(problem),
            )

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        """Pass on what the server reports: list changes in the handshake era, log messages, completed pages."""
        kind = _CHANGES.get(method)
        if kind is not None and self.revision.era == "handshake":
            self._list_changed(kind)
        elif method == MESSAGE:
            self._log_message(params)
        elif method == COMPLETE:
            call = self.relayed.last_call
            if call is not None and call.connection is not None and COMPLETE in call.terms.revision.methods:
                server = call.session.server
                stream = server.stream_of(call.session) if isinstance(server, Announcer) else None
                (stream or call.connection).send(codec.notification(method, codec.encode(params)))

    def _list_changed(self, kind: ListKind) -> None:
        self.forget_offers()
        self._on_list_changed(kind)

    def _log_message(self, params: dict[str, Any]) -> None:
        """Pass a log message on to the client whose call is in progress, if it wants messages of this level."""
        invocation, level = self.relayed.newest_of_one_client, params.get("level")
        call = self._last_call_of_session() if invocation is None else invocation.call
        if call is None or level not in LEVELS:
            return
        wanted = wanted_level(call)
        if wanted is None or not is_at_least(str(level), wanted):
            return
        message = {key: value for key, value in params.items() if key != "_meta"}
        if invocation is None and call.connection is not None:
            call.connection.notify(MESSAGE, message)
        elif not call.silent and not call.sink.congested:
            call.notify(MESSAGE, message)

    def _last_call_of_session(self) -> ServerCall | None:
        """The last call of the session that this connection belongs to, if none is in progress (handshake era).

        Its client can be told something between calls; one of the envelope era only in the response to a request.
        """
        call = self.relayed.last_call
        if call is None or self.shared or self.relayed.newest is not None or call.terms.revision.era != "handshake":
            return None
        return None if call.connection is None or call.connection.gone is not None else call
