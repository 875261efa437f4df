"""Server core: everything that the framework needs of a server. `Server` shows authors the part that is theirs."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dovetail.protocol.envelope import SERVER_INFO
from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.subscriptions import ListKind, covers
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.types.capabilities import Implementation, ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.prompts import ListPromptsResult
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult
from dovetail.types.serialization import Value, dump
from dovetail.types.tools import ListToolsResult
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Notification

from .features.list_pages import ListPages
from .features.tools import RegisteredTool
from .lifespan import SharedLifespan
from .registry import Registry
from .session import ServerCall, Session

if TYPE_CHECKING:
    from dovetail.auth.token_verification import Principal
    from dovetail.protocol.seal import KeyRing
    from dovetail.runtime.middleware import Chain, Middleware

    from .features.completion import Completions, RegisteredCompletion
    from .features.prompts import RegisteredPrompt
    from .features.resources import RegisteredResource
    from .features.url_elicitation import UrlElicitations
    from .mount import Mount
    from .mrtr.suspended_calls import SuspendedCalls

Kind: TypeAlias = Literal["tool", "resource", "prompt"]
Visible: TypeAlias = Callable[[str | None, Kind, str], bool]
"""True if a principal sees a tool or prompt, by name, or a resource, by its URI or template."""

Identity: TypeAlias = "Principal | str | None"
Verify: TypeAlias = "Callable[[str], Awaitable[Identity] | Identity]"
"""The owner of a token, by name or with what it allows; None refuses it. A `Verifier` is one, and says more."""

PAGE_SIZE = 500


class ServerCore:
    """Registries, lists, sessions and services of one server."""

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
        self.served = _select(revisions)
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
        self._completion_rate = completion_rate
        self._experimental = dict(experimental) if experimental else None
        self._lifespan = SharedLifespan(lifespan) if lifespan is not None else None
        self._page_size = page_size
        self._key_ring = _key_ring(state_keys)
        self._sessions: set[Session] = set()
        self._lists = self._make_lists()
        self._completions: Completions | None = None
        self._suspended_calls: SuspendedCalls | None = None
        self._url_elicitations: UrlElicitations | None = None
        self._server_info: dict[str, Any] = {SERVER_INFO: dump(info)}

    def use(self, middleware: Middleware, methods: Iterable[str] | None) -> None:
        """Wrap requests, inside of the middleware that there is already."""
        from dovetail.runtime.middleware import Chain

        if self.mounted_in:
            raise LocalError("A mounted server has no middleware of its own; give it to the outer server")
        if self.middleware is None:
            self.middleware = Chain()
        self.middleware.add(middleware, methods)

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
        )

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
            _may_contain(uri, key) and self.shows(principal, "resource", key)
            for registry in (self.resources, self.templates)
            for key, _ in registry.items()
        )

    def shows(self, principal: str | None, kind: Kind, name: str) -> bool:
        """True if a principal sees a tool, resource or prompt."""
        return self.visible is None or self.visible(principal, kind, name)

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
        """The calls that wait for input; with `state_keys` other processes can resume them."""
        if self._suspended_calls is None:
            from dovetail.protocol.seal import KeyRing

            from .mrtr.suspended_calls import SuspendedCalls

            self._suspended_calls = SuspendedCalls(self._key_ring or KeyRing([os.urandom(32)]))
        return self._suspended_calls

    def prepare_for_fork(self) -> None:
        """Make the key that seals states now, so that all worker processes share it."""
        _ = self.suspended_calls

    @property
    def url_elicitations(self) -> UrlElicitations:
        """The clients that were asked to open a page."""
        if self._url_elicitations is None:
            from .features.url_elicitation import UrlElicitations

            self._url_elicitations = UrlElicitations()
        return self._url_elicitations

    def list_page(
        self,
        method: str,
        revision: Revision,
        cursor: str | None,
        principal: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> bytes:
        """One page of a list, encoded; `scopes` are those of the token, where there is authorization."""
        pages = self._lists[method]
        scoped = scopes if method == "tools/list" else None
        if self.visible is None:
            if scoped is not None:
                return pages.page_within(scoped, revision, cursor, self._page_size, self.emit_result)
            return pages.page(revision, cursor, self._page_size, self.emit_result)
        shown = functools.partial(self.shows, principal, _LISTED[method])
        if scoped is not None:
            allowed = {key for key, tool in self.tools.items() if tool.allowed(scoped)}
            return pages.page_of(
                lambda key: key in allowed and shown(key), revision, cursor, self._page_size, self.emit_result
            )
        return pages.page_of(shown, revision, cursor, self._page_size, self.emit_result)

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

    def notified(self, notification: Notification) -> None:
        """Hand a notification to the extension that handles it, if any."""
        handler = self.extensions.notifications.get(notification.method)
        if handler is not None:
            handler(notification.params)

    def announce(self, kind: ListKind) -> None:
        """Notify clients that a list has changed; servers that this one is mounted in take the change over."""
        for mount in self.mounted_in:
            mount.synchronize()
        for pages in self._lists.values():
            pages.clear()
        if kind == "tools":
            self.mirrored = {
                key: tool.binding.header_paths for key, tool in self.tools.items() if tool.binding.header_paths
            }
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.list_changed, kind)

    def announce_update(self, uri: str) -> None:
        """Notify the subscribers of a resource, or of one that contains it."""
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                session.loop.call_soon_threadsafe(session.subscriptions.resource_updated, uri)

    def add_session(self, session: Session) -> None:
        """Notify a session of changes from now on."""
        for server in (self, *self.mounted()):
            server._sessions.add(session)

    def remove_session(self, session: Session) -> None:
        """A session has ended."""
        for server in (self, *self.mounted()):
            server._sessions.discard(session)

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
        if not self._sessions and self._suspended_calls is not None:
            await self._suspended_calls.close()

    def _may_log(self) -> bool:
        """True if any handler takes a context, which is what can log."""
        registries = (self.tools, self.resources, self.templates, self.prompts)
        return any(item.binding.context_name is not None for registry in registries for item in registry)

    def _make_lists(self) -> dict[str, ListPages]:
        pager, ttl = Pager(os.urandom(32)), self.list_ttl_ms
        return {
            "tools/list": ListPages("tools/list", self.tools, ListToolsResult, pager, ttl),
            "resources/list": ListPages("resources/list", self.resources, ListResourcesResult, pager, ttl),
            "resources/templates/list": ListPages(
                "resources/templates/list", self.templates, ListResourceTemplatesResult, pager, ttl
            ),
            "prompts/list": ListPages("prompts/list", self.prompts, ListPromptsResult, pager, ttl),
        }


_LISTED: dict[str, Kind] = {
    "tools/list": "tool",
    "resources/list": "resource",
    "resources/templates/list": "resource",
    "prompts/list": "prompt",
}


def _may_contain(uri: str, key: str) -> bool:
    """True if some resource of a registered URI or template may lie below the URI."""
    fixed, variable, _ = key.partition("{")
    return covers(uri, fixed) or (bool(variable) and uri.startswith(fixed))


def _key_ring(keys: Sequence[bytes]) -> KeyRing | None:
    """The keys, checked now: an unusable one must not turn up when the first client is there."""
    if not keys:
        return None
    from dovetail.protocol.seal import KeyRing

    return KeyRing(list(keys))


def _select(revisions: Sequence[str] | None) -> Mapping[str, Revision]:
    if revisions is None:
        return REVISIONS
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise LocalError(
            f"Unknown protocol revision {', '.join(unknown) or '(none)'}; there are {', '.join(REVISIONS)}"
        )
    return {name: revision for name, revision in REVISIONS.items() if name in revisions}
