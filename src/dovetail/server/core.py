"""Server core: everything that the framework needs of a server. `Server` shows authors the part that is theirs."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dovetail.protocol.envelope import SERVER_INFO
from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.mrtr import MAX_STATE_SECONDS
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import select_revisions
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.seal import KeyRing
from dovetail.protocol.subscriptions import ListKind, may_contain
from dovetail.runtime.serve import Outcome
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.types.capabilities import Implementation, ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.serialization import Value, dump
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Notification

from .features.list_pages import LISTED, LISTS, ListPages, digest_of_lists
from .features.tools import RegisteredTool
from .lifespan import SharedLifespan
from .registry import Registry
from .session import ServerCall, Session, SharedSession

if TYPE_CHECKING:
    from dovetail.auth.token_verification import Principal
    from dovetail.runtime.middleware import Chain, Middleware
    from dovetail.storage.contract import Entries, Store

    from .auth.revoked_tokens import RevokedTokens
    from .features.completion import Completions, RegisteredCompletion
    from .features.handles import Handles
    from .features.prompts import RegisteredPrompt
    from .features.resources import RegisteredResource
    from .features.url_elicitation import UrlElicitations
    from .mount import Mount
    from .mrtr.stored_keys import StoredKeys
    from .mrtr.suspended_calls import SuspendedCalls
    from .replicas.remote_calls import RemoteCalls
    from .replicas.replica import Replica
    from .tasks.request_contexts import CallerKeeper
    from .tasks.tasks import Tasks

Kind: TypeAlias = Literal["tool", "resource", "prompt"]
Visible: TypeAlias = Callable[[str | None, Kind, str], bool]
"""True if a principal sees a tool or prompt, by name, or a resource, by its URI or template."""

Identity: TypeAlias = "Principal | str | None"
Verify: TypeAlias = "Callable[[str], Awaitable[Identity] | Identity]"
"""The owner of a token, by name or with what it allows; None refuses it. A `Verifier` is one, and says more."""

FindSession: TypeAlias = "Callable[[str, str | None], Awaitable[SharedSession | None]]"
"""The session with an id, if it belongs to a principal."""

PAGE_SIZE = 500

MAX_HANDLES = 1_000
"""Handles of one kind that one principal, or one client without authentication, has at once."""

MAX_HANDLE_BYTES = 65_536
"""Bytes of the state of one handle, as JSON."""


class ServerCore:
    """Registries, lists, sessions and services of one server."""

    clock: Callable[[], float] = staticmethod(time.time)
    """The time by which tasks expire, in seconds since 1970."""
    methods: Mapping[str, Callable[[Any, ServerCall, Any], Outcome]] | None = None
    """The methods of a server that answers them in its own way, as a gateway does; None for those of `dispatch`."""
    make_application: Callable[..., Any] | None = None
    """Makes the ASGI application of a server with more than one endpoint (`http/application`); None for the usual."""
    runs_tasks = True
    """False if tasks are left to the workers that share the store."""
    task_namespace: str = ""
    """Keeps its tasks apart from those of servers with other tools on the same store, as the views of a gateway are."""
    find_session: FindSession | None = None
    """Finds a session over HTTP for a request that another replica has passed on; None where none are shared."""
    callers: CallerKeeper | None = None
    """Keeps what this server needs to know of a caller with a task; None if the principal is enough."""
    replaces_another = False
    """True in a process that was reloaded: clients of stored sessions are notified that lists may have changed."""
    # Made when they are first needed.
    _store: Store | None = None
    _completions: Completions | None = None
    _suspended_calls: SuspendedCalls | None = None
    _url_elicitations: UrlElicitations | None = None
    _revoked_tokens: RevokedTokens | None = None
    _tasks: Sequence[Tasks] = ()

    def __init__(
        self,
        info: Implementation,
        *,
        public: Any,
        instructions: str | None,
        lifespan: Callable[[], contextlib.AbstractAsyncContextManager[Any]] | None,
        extensions: Sequence[Extension],
        experimental: Mapping[str, Any] | None,
        revisions: Sequence[str] | None,
        page_size: int,
        state_keys: Sequence[bytes],
        visible: Visible | None,
        list_ttl: float,
        completion_rate: float,
        auth: Verify | None,
    ) -> None:
        self.info = info
        self.public = public
        """The `Server` that its author sees."""
        self.instructions = instructions
        self.extensions = Extensions(list(extensions))
        self.served = select_revisions(revisions)
        """The revisions that it serves, oldest first."""
        self.thread_pool = ThreadPool()
        self.lifespan_state: Any = None
        self.tools: Registry[RegisteredTool] = Registry("tool", lambda: self.announce("tools"))
        self.resources: Registry[RegisteredResource] = Registry("resource", lambda: self.announce("resources"))
        self.templates: Registry[RegisteredResource] = Registry("template", lambda: self.announce("resources"))
        self.prompts: Registry[RegisteredPrompt] = Registry("prompt", lambda: self.announce("prompts"))
        self.middleware: Chain | None = None
        self.visible = visible
        self.auth = auth
        self.list_ttl_ms = round(list_ttl * 1000)
        self.mirrored: dict[str, Mapping[tuple[str, ...], str]] = {}
        """The arguments that HTTP requests mirror into headers, of the tools that have any."""
        self.mounts: list[Mount] = []
        self.mounted_in: list[Mount] = []
        self.handles: dict[str, Handles[Any]] = {}
        """The kinds of state that outlives a call, by name."""
        self._completion_rate = completion_rate
        self._experimental = dict(experimental) if experimental else None
        self._lifespan = SharedLifespan(lifespan) if lifespan is not None else None
        self._page_size = page_size
        self._has_given_keys = self._has_state_keys = bool(state_keys)
        self.key_ring = KeyRing(state_keys or [os.urandom(32)])
        """The keys that seal states and sign cursors: those given, else of this process, or of a shared store."""
        self.stored_keys: StoredKeys | None = None
        """Keeps the keys in a store that is shared; None where they were given, or nothing is shared."""
        self._created = time.time(), os.getpid()
        self._sessions: set[Session] = set()
        self._replicas: list[Replica] = []
        """This process among those that share a store, of each application that serves the server so."""
        self._digests: dict[ListKind, str] = {}
        self.pager = Pager(self.key_ring)
        self._lists = self._make_lists(self.pager)
        self.has_task_tools = False
        """True once there was a tool whose calls may become tasks."""
        self._server_info: dict[str, Any] = {SERVER_INFO: dump(info)}

    def use(self, middleware: Middleware, methods: Iterable[str] | None, *, outermost: bool = False) -> None:
        """Wrap requests, inside of the middleware that there is already, or around it."""
        from dovetail.runtime.middleware import Chain

        if self.mounted_in:
            raise LocalError("A mounted server has no middleware of its own; give it to the outer server")
        if self.middleware is None:
            self.middleware = Chain()
            for replica in self._replicas:
                self.middleware.use_store(replica.store, self.info.name)
        self.middleware.add(middleware, methods, outermost=outermost)

    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server has now."""
        listed = ListCapability(list_changed=True)
        has_resources = self.resources.offered or self.templates.offered
        return ServerCapabilities(
            tools=listed if self.tools.offered else None,
            prompts=listed if self.prompts.offered else None,
            resources=ResourcesCapability(subscribe=True, list_changed=True) if has_resources else None,
            completions={} if self.completes else None,
            logging={} if self._may_log() else None,
            extensions=self.extensions.declared or None,
            experimental=self._experimental,
            tasks=self._task_capability() if self.has_task_tools else None,
        )

    def _task_capability(self) -> dict[str, Any]:
        """The capability of 2025-11-25: callers that are not identified cannot list tasks ("Task Isolation")."""
        tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        return tasks if self.auth is None else {"list": {}, **tasks}

    def accepted_filter(self, wanted: SubscriptionFilter, principal: str | None = None) -> SubscriptionFilter:
        """The part of a subscription that this server can serve."""
        has_resources = self.resources.offered or self.templates.offered
        uris = [uri for uri in dict.fromkeys(wanted.resource_subscriptions or ()) if self.can_subscribe(uri, principal)]
        return SubscriptionFilter(
            tools_list_changed=(wanted.tools_list_changed and self.tools.offered) or None,
            prompts_list_changed=(wanted.prompts_list_changed and self.prompts.offered) or None,
            resources_list_changed=(wanted.resources_list_changed and has_resources) or None,
            resource_subscriptions=uris or None,
        )

    def find_resource(self, uri: str) -> tuple[RegisteredResource, dict[str, Any]] | None:
        """The resource or template that a URI belongs to, and the variables that the URI holds."""
        if (resource := self.resources.get(uri)) is not None:
            return resource, {}
        for registered in self.templates:
            if registered.template is not None and (variables := registered.template.match(uri)) is not None:
                return registered, dict(variables)
        return None

    def can_subscribe(self, uri: str, principal: str | None) -> bool:
        """True if the principal can read the resource, or one below it: the URI may name a folder of resources."""
        if (match := self.find_resource(uri)) is not None:
            return self.shows(principal, "resource", match[0].key)
        return any(
            may_contain(uri, key) and self.shows(principal, "resource", key)
            for registry in (self.resources, self.templates)
            for key, _ in registry.items()
        )

    def shows(self, principal: str | None, kind: Kind, name: str) -> bool:
        """True if a principal sees a tool, resource or prompt."""
        return self.visible is None or self.visible(principal, kind, name)

    def shows_resource(self, session: Session, uri: str) -> bool:
        """True if the principal of a session sees the resource of a URI, or the template that it belongs to.

        A URI that belongs to none, as of a resource that was just removed, is what `visible` is asked about itself.
        """
        if self.visible is None:
            return True
        match = self.find_resource(uri)
        return self.visible(session.principal, "resource", uri if match is None else match[0].key)

    def find_completion(self, reference: str, argument: str) -> tuple[ServerCore, RegisteredCompletion] | None:
        """The completion of an argument, and the server that it belongs to."""
        if self._completions is not None and (completion := self._completions.find(reference, argument)) is not None:
            return self, completion
        for mount in self.mounts:
            if (inner := mount.find_completion(reference, argument)) is not None:
                return inner
        return None

    @property
    def completes(self) -> bool:
        """True if there is any completion, here or in a mounted server."""
        return bool(self._completions) or any(mount.child.completes for mount in self.mounts)

    @property
    def has_lifespan(self) -> bool:
        """True if a lifespan, which may register more, is entered before the first request."""
        return self._lifespan is not None or any(mount.child.has_lifespan for mount in self.mounts)

    @property
    def guarded(self) -> bool:
        """True if middleware, visibility or authorization restricts access."""
        return self.middleware is not None or self.visible is not None or self.auth is not None

    @property
    def serving(self) -> bool:
        """True if there are clients."""
        return bool(self._sessions)

    def mounted(self) -> list[ServerCore]:
        """The servers that are mounted in this one, at any depth."""
        children = [mount.child for mount in self.mounts]
        return children + [inner for child in children for inner in child.mounted()]

    @property
    def completions(self) -> Completions:
        """The completions of this server."""
        if self._completions is None:
            from .features.completion import Completions

            self._completions = Completions(self._completion_rate)
        return self._completions

    @property
    def suspended_calls(self) -> SuspendedCalls:
        """The calls that wait for input; processes with the same keys can resume them."""
        if self._suspended_calls is None:
            from .mrtr.suspended_calls import SuspendedCalls
            from .mrtr.used_states import UsedStates

            used = UsedStates(MAX_STATE_SECONDS, self._created[0])
            self._suspended_calls = SuspendedCalls(self.key_ring, used=used)
            self._suspended_calls.stored_keys = self.stored_keys
        return self._suspended_calls

    @property
    def store(self) -> Store:
        """The store of what outlives a call: the one that was given, else one in memory."""
        if self._store is None:
            from dovetail.storage.memory import MemoryStore

            self._store = MemoryStore()
        return self._store

    def use_store(self, store: Store) -> None:
        """Keep what outlives a call in a store, of this server and of those mounted in it."""
        for server in (self, *self.mounted()):
            # What the handlers of a mounted server keep is sealed with the keys of the server that is served.
            server._store, server.key_ring = store, self.key_ring

    def release_store(self, store: Store) -> None:
        """The store is about to be closed."""
        for server in (self, *self.mounted()):
            if server._store is store:
                server._store = None

    def use_keys(self, keys: Sequence[bytes]) -> None:
        """Seal with the first of these keys, and open with all of them."""
        if self._has_state_keys:
            raise LocalError("This server has keys already (state_keys); leave out keys=, or state_keys")
        self.key_ring.replace(keys)
        self._has_given_keys = True

    def share_keys(self, store: Entries) -> None:
        """Seal with keys in a store that several processes share, unless keys were given."""
        if self._has_given_keys:
            return
        from .mrtr.stored_keys import StoredKeys

        self.stored_keys = StoredKeys(self.key_ring, store, self._clear_pages)
        if self._suspended_calls is not None:
            self._suspended_calls.stored_keys = self.stored_keys
        for server in self.mounted():
            server.stored_keys = self.stored_keys

    def share_used_states(self, store: Entries | None, *, survives_restart: bool) -> str | None:
        """Accept each sealed state once in all processes that share a store; return a warning where none is shared."""
        if store is not None:
            self.suspended_calls.used.share(store, survives_restart=survives_restart)
        elif self._has_given_keys:
            if self._created[1] != os.getpid():
                self.suspended_calls.used.restarted(time.time())
            if self._may_log():  # a handler without a context asks nothing
                from .mrtr.used_states import STATES_NOT_SHARED

                return STATES_NOT_SHARED
        return None

    @property
    def url_elicitations(self) -> UrlElicitations:
        """The clients that were asked to open a page."""
        if self._url_elicitations is None:
            from .features.url_elicitation import UrlElicitations

            self._url_elicitations = UrlElicitations(self._replicas)
        return self._url_elicitations

    @property
    def tasks(self) -> Tasks:
        """The tasks of the event loop that runs."""
        loop = get_running_loop()
        for tasks in self._tasks:
            if tasks.loop is loop and tasks.is_alive:
                return tasks
        from .tasks.tasks import Tasks

        tasks = Tasks(self, next((replica for replica in self._replicas if replica.loop is loop), None))
        self._tasks = [*(other for other in self._tasks if other.is_alive), tasks]
        return tasks

    async def stop_tasks(self) -> None:
        """Stop the handlers of tasks on the event loop that runs; others go on with those that may be resumed."""
        for tasks in self._tasks:
            await tasks.stop()

    def all_tasks(self) -> Sequence[Tasks]:
        """The tasks of all event loops of this process."""
        return self._tasks

    @property
    def revoked_tokens(self) -> RevokedTokens:
        """The tokens that are refused before they expire."""
        if self._revoked_tokens is None:
            from .auth.revoked_tokens import RevokedTokens

            self._revoked_tokens = RevokedTokens()
        return self._revoked_tokens

    def list_page(
        self,
        method: str,
        revision: Revision,
        cursor: str | None,
        principal: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> bytes:
        """One page of a list, encoded; `scopes` are those of the token, where there is authorization.

        Where `needs_keys` is true, `stored_keys` must have been prepared.
        """
        pages = self._lists[method]
        scoped = scopes if method == "tools/list" else None
        if self.visible is None:
            if scoped is not None:
                return pages.page_within(scoped, revision, cursor, self._page_size, self.emit_result)
            return pages.page(revision, cursor, self._page_size, self.emit_result)
        shown = functools.partial(self.shows, principal, LISTED[method])
        if scoped is not None:
            allowed = {key for key, tool in self.tools.items() if tool.allowed(scoped)}
            return pages.page_of(
                lambda key: key in allowed and shown(key), revision, cursor, self._page_size, self.emit_result
            )
        return pages.page_of(shown, revision, cursor, self._page_size, self.emit_result)

    def needs_keys(self, method: str, cursor: str | None) -> bool:
        """True if a page of a list takes keys that may have to be fetched from the store first."""
        keys = self.stored_keys
        if keys is None:
            return False
        return cursor is not None or (len(self._lists[method]) > self._page_size and not keys.is_current)

    def emit_result(self, revision: Revision, method: str, value: Value) -> dict[str, Any]:
        """A result as this revision writes it, with `serverInfo` where results carry it."""
        result = revision.emit_result(method, value)
        if revision.era == "envelope":
            meta = result.get("_meta")
            result["_meta"] = {**meta, **self._server_info} if meta else self._server_info
        return result

    def encode_result(self, call: ServerCall, value: Value) -> bytes:
        """The result of a call as JSON bytes."""
        return codec.encode(self.emit_result(call.terms.revision, call.request.method, value))

    def notified(self, notification: Notification, session: Session | None = None) -> None:
        """Hand a notification to the extension that handles it, if any; `session` is that of its client."""
        handler = self.extensions.notifications.get(notification.method)
        if handler is not None:
            handler(notification.params)

    def announce(self, kind: ListKind) -> None:
        """Notify clients that a list has changed; servers that this one is mounted in take the change over."""
        for mount in self.mounted_in:
            mount.synchronize()
        self._clear_pages()
        self._digests = {}
        if kind == "tools":
            self.mirrored = {
                key: tool.binding.header_paths for key, tool in self.tools.items() if tool.binding.header_paths
            }
            if not self.has_task_tools and any(tool.task is not None for tool in self.tools):
                from .tasks.methods import task_extension

                self.has_task_tools = True
                self.extensions.add(task_extension(self))
        if self._replicas:
            from .replicas.messages import ListChanged

            for replica in self._replicas:
                replica.announce(ListChanged(kind, self.list_digest(kind)))
        else:
            self._notify_list_changed(kind)

    def _notify_list_changed(self, kind: ListKind) -> None:
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.list_changed, kind)

    def announce_update(self, uri: str, session: str | None = None) -> None:
        """Notify the subscribers of a resource, or of one that contains it; only that session, if its id is given."""
        if self._replicas:
            from .replicas.messages import ResourceUpdated

            for replica in self._replicas:
                replica.announce(ResourceUpdated(uri, session))
        else:
            self._notify_updated(uri, session)

    def _notify_updated(self, uri: str, only: str | None) -> None:
        for session in [one for one in list(self._sessions) if only in (None, one.id)]:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.resource_updated, uri)

    def _notify_of_everything(self) -> None:
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.everything_changed)

    def _clear_pages(self) -> None:
        for pages in self._lists.values():
            pages.clear()

    def join(self, replica: Replica) -> None:
        """Work together with other replicas: this server, those mounted in it, and its middleware."""
        from .replicas.messages import ElicitationCompleted, ListChanged, ResourceUpdated

        servers = (self, *self.mounted())

        def elicitation_completed(message: ElicitationCompleted) -> None:
            for server in servers:
                if server._url_elicitations is not None:
                    server._url_elicitations.notify_here(message.id)

        def list_changed(message: ListChanged) -> None:
            # A replica that has another list would tell its clients of a change that they do not find there.
            if message.digest == self.list_digest(message.kind):
                self._notify_list_changed(message.kind)

        replica.on(ElicitationCompleted, elicitation_completed)
        replica.on(ListChanged, list_changed)
        replica.on(ResourceUpdated, lambda message: self._notify_updated(message.uri, message.session))
        replica.on_gap["subscriptions"] = self._notify_of_everything
        for server in servers:
            server._replicas.append(replica)
        if self.middleware is not None:
            self.middleware.use_store(replica.store, self.info.name)

    def share_calls(self, remote_calls: RemoteCalls) -> None:
        """Serve calls for other replicas, and have them serve those that they hold."""
        self.suspended_calls.share(remote_calls, self)

    def leave(self, replica: Replica) -> None:
        """The replica is about to be closed."""
        for server in (self, *self.mounted()):
            if replica in server._replicas:
                server._replicas.remove(replica)

    def list_digest(self, kind: ListKind) -> str:
        """A digest of a list as it is now: of the names and definitions in it."""
        digest = self._digests.get(kind)
        if digest is None:
            digest = self._digests[kind] = digest_of_lists(_LISTS_OF[kind](self))
        return digest

    def add_session(self, session: Session) -> None:
        """Notify a session of changes from now on."""
        for server in (self, *self.mounted()):
            server._sessions.add(session)

    def remove_session(self, session: Session) -> None:
        """Notify a session no more: it has ended, or another replica notifies it now."""
        for server in (self, *self.mounted()):
            server._sessions.discard(session)

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are notified here."""
        return list(self._sessions)

    def session_ended(self, session: Session) -> None:
        """A session over HTTP has ended, or was not used here for so long that its copy is dropped."""

    def needs_session(self, session: Session) -> bool:
        """True if the copy of a session that is not used here is needed for as long as the session exists."""
        return False

    @contextlib.asynccontextmanager
    async def attached(self, session: Session) -> AsyncGenerator[None]:
        """Notify a session of changes for a while; the first session enters the lifespan, the last one leaves it."""
        lifespan = self._lifespan
        if lifespan is not None:
            self.lifespan_state = await lifespan.enter()
        self._sessions.add(session)
        try:
            async with contextlib.AsyncExitStack() as inner:
                for mount in self.mounts:
                    await inner.enter_async_context(mount.child.attached(session))
                inner.push_async_callback(self._detach, session)
                yield
        finally:
            self._sessions.discard(session)
            if not self._sessions:
                self.thread_pool.stop()
            if lifespan is not None:
                await lifespan.leave()

    async def _detach(self, session: Session) -> None:
        """Stop the suspended calls when no client can come back for them, while all they may use is still there."""
        self._sessions.discard(session)
        if not self._sessions:
            if self._suspended_calls is not None:
                await self._suspended_calls.close()
            await self.stop_tasks()

    def _may_log(self) -> bool:
        """True if any handler takes a context, which is what can log."""
        registries = (self.tools, self.resources, self.templates, self.prompts)
        return any(item.binding.context_name is not None for registry in registries for item in registry)

    def _make_lists(self, pager: Pager) -> dict[str, ListPages]:
        registries = (self.tools, self.resources, self.templates, self.prompts)
        lists = zip(LISTS.items(), registries, strict=True)
        return {
            method: ListPages(method, registry, result, pager, self.list_ttl_ms) for (method, result), registry in lists
        }


_LISTS_OF: dict[ListKind, Callable[[ServerCore], Sequence[Registry[Any]]]] = {
    "tools": lambda core: (core.tools,),
    "resources": lambda core: (core.resources, core.templates),
    "prompts": lambda core: (core.prompts,),
}
