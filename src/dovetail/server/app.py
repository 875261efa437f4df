"""`Server`: what a person writes a server with."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from dovetail.protocol.envelope import SERVER_INFO
from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.features.list_pages import Listing
from dovetail.server.features.subscriptions import ListKind
from dovetail.server.features.tools import RegisteredTool, ToolOptions, make_tool
from dovetail.transports.base import Channel
from dovetail.types.capabilities import Icon, Implementation, ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.prompts import ListPromptsResult
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult
from dovetail.types.serialization import Value, dump
from dovetail.types.tools import ListToolsResult

from .lifespan import SharedLifespan
from .registry import Registry
from .session import ServerSession

if TYPE_CHECKING:
    from dovetail.protocol.seal import KeyRing
    from dovetail.runtime.middleware import Chain, Middleware
    from dovetail.server.auth.verifiers import Verify
    from dovetail.server.features.completion import Completions, RegisteredCompletion
    from dovetail.server.features.prompts import PromptOptions, RegisteredPrompt
    from dovetail.server.features.resources import RegisteredResource, ResourceOptions
    from dovetail.server.features.url_elicitation import Visits
    from dovetail.server.http.asgi_app import Endpoint
    from dovetail.server.http.options import AsgiOptions
    from dovetail.server.mrtr.suspended_calls import Desk
    from dovetail.server.run.http import RunOptions

    from .mount import Mount

Function = TypeVar("Function", bound=Callable[..., Any])
Lifespan = Callable[["Server"], contextlib.AbstractAsyncContextManager[Any]]
Visible = Callable[[str | None, Literal["tool", "resource", "prompt"], str], bool]
"""Whether a principal sees a tool or prompt, by name, or a resource, by its URI or template."""

PAGE_SIZE = 500


class Server:
    """Tools, resources and prompts, served to every client on every revision."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Iterable[Icon] | None = None,
        instructions: str | None = None,
        lifespan: Lifespan | None = None,
        extensions: Sequence[Extension] = (),
        experimental: Mapping[str, Any] | None = None,
        revisions: Sequence[str] | None = None,
        page_size: int = PAGE_SIZE,
        state_keys: Sequence[bytes] = (),
        middleware: Sequence[Middleware] = (),
        visible: Visible | None = None,
        list_ttl: float = 0,
        completion_rate: float = 20,
        auth: Verify | None = None,
    ) -> None:
        """Make a server that offers nothing yet.

        `middleware` wraps every request, the first one outermost. `visible` says who sees what; whatever is
        not visible is not there. `list_ttl` is for how many seconds clients may keep lists. A client may ask
        for `completion_rate` completions a second. `auth` says who a token belongs to, or None: a `Verifier`, or a
        function; over HTTP nobody is served without one then. Who is known by name only has no scopes.
        """
        self.info = Implementation(name, version, title, description, website_url, list(icons) if icons else None)
        self.instructions = instructions
        self.extensions = Extensions(list(extensions))
        self.served = _chosen(revisions)
        self.workers = ThreadPool()
        self.lifespan_state: Any = None
        self.tools: Registry[RegisteredTool] = Registry("tool", lambda: self._changed("tools"))
        self.resources: Registry[RegisteredResource] = Registry("resource", lambda: self._changed("resources"))
        self.templates: Registry[RegisteredResource] = Registry("template", lambda: self._changed("resources"))
        self.prompts: Registry[RegisteredPrompt] = Registry("prompt", lambda: self._changed("prompts"))
        self.middleware: Chain | None = None
        self.visible = visible
        self.auth = auth
        self.list_ttl_ms = round(list_ttl * 1000)
        self._completion_rate = completion_rate
        self._mounts: list[Mount] = []
        self._outer: list[Mount] = []
        self._experimental = dict(experimental) if experimental else None
        self._lifespan = SharedLifespan(lambda: lifespan(self)) if lifespan is not None else None
        self._page_size = page_size
        self._ring = _key_ring(state_keys)
        self._sessions: set[ServerSession] = set()
        self._listings = self._make_listings()
        self._stamp: dict[str, Any] = {SERVER_INFO: dump(self.info)}
        for one in middleware:
            self.use(one)

    @overload
    def tool(self, function: Function, /, **options: Unpack[ToolOptions]) -> Function: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[Function], Function]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Offer a function as a tool: as a bare decorator, with options, or called with the function."""
        _refuse_misplaced("tool", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            tool = make_tool(function, **options)
            self.tools.add(tool.name, tool)
            return function

        return add if function is None else add(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[Function], Function]:
        """Offer what a function returns as the resource at a URI, or at all that fit an RFC 6570 template."""
        from dovetail.server.features.resources import make_resource

        _refuse_misplaced("resource", uri, not callable(uri), '("config://app")')

        def add(function: Function) -> Function:
            resource = make_resource(function, uri, **options)
            (self.resources if resource.template is None else self.templates).add(uri, resource)
            return function

        return add

    @overload
    def prompt(self, function: Function, /, **options: Unpack[PromptOptions]) -> Function: ...

    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[Function], Function]: ...

    def prompt(self, function: Callable[..., Any] | None = None, /, **options: Unpack[PromptOptions]) -> Any:
        """Offer a function as a prompt: its parameters are the prompt's arguments."""
        from dovetail.server.features.prompts import make_prompt

        _refuse_misplaced("prompt", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            prompt = make_prompt(function, **options)
            self.prompts.add(prompt.definition.name, prompt)
            return function

        return add if function is None else add(function)

    def completion(self, reference: str, argument: str) -> Callable[[Function], Function]:
        """Suggest values for an argument of a prompt, by name, or for a variable of a resource template.

        The function takes what was typed so far and, if it wants, the arguments settled already. A list of
        strings that it returns is put in order of relevance; a `Completion` is taken as it is.
        """

        def add(function: Function) -> Function:
            self.completions.add(reference, argument, function)
            return function

        return add

    def use(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Wrap requests, inside of what wraps them already: all of them, or those of some methods."""
        from dovetail.runtime.middleware import Chain

        if self._outer:
            raise LocalError("A mounted server has no middleware of its own; give it to the outer server")
        if self.middleware is None:
            self.middleware = Chain()
        self.middleware.add(middleware, methods)
        return middleware

    def mount(self, other: Server, *, prefix: str | None = None) -> None:
        """Offer what another server offers, now and later: its tools and prompts as `prefix_name`.

        URIs stay as they are. Its handlers run with its own lifespan.
        """
        from .mount import Mount, check_mountable

        check_mountable(self, other)
        mount = Mount(self, other, prefix)
        try:
            mount.take_over()
        except LocalError:
            mount.give_back()
            raise
        self._mounts.append(mount)
        other._outer.append(mount)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; clients that listen are told."""
        self.tools.remove(name)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a resource template away; clients that listen are told."""
        (self.templates if self.templates.get(uri) else self.resources).remove(uri)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; clients that listen are told."""
        self.prompts.remove(name)

    def notify_resource_updated(self, uri: str) -> None:
        """Tell whoever watches a resource, or one above it, that it has changed. Safe from any thread."""
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):
                session.loop.call_soon_threadsafe(session.subscriptions.resource_updated, uri)

    def notify_tools_changed(self) -> None:
        """Tell who listens that the tools have changed; adding and removing does so by itself."""
        self._changed("tools")

    def notify_resources_changed(self) -> None:
        """Tell who listens that the resources have changed; adding and removing does so by itself."""
        self._changed("resources")

    def notify_prompts_changed(self) -> None:
        """Tell who listens that the prompts have changed; adding and removing does so by itself."""
        self._changed("prompts")

    def run(self, transport: str = "stdio", *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None:
        """Serve until the client goes or a signal says to end: over stdio, "http", "unix" (path) or "tcp" (host, port).

        HTTP takes the options of `asgi` as well, and `workers`. Calls that run when a signal comes have the grace
        period to finish.
        """
        if transport == "http":
            from dovetail.server.run.http import run_http

            run_http(self, grace=grace, **options)
            return
        takes = {"stdio": (), "unix": ("path",), "tcp": ("host", "port")}.get(transport)
        if takes is None:
            raise LocalError(f"There is no transport {transport!r}; there are stdio, http, unix and tcp")
        if unknown := options.keys() - set(takes):
            raise LocalError(f"A server over {transport} has no option {', '.join(sorted(unknown))}")
        if transport == "stdio":
            from dovetail.server.run.stdio import run_stdio

            run_stdio(self, grace)
            return
        from dovetail.server.run.sockets import run_tcp, run_unix

        if transport == "unix":
            run_unix(self, options.get("path", ""), grace)
        else:
            run_tcp(self, options.get("host", "127.0.0.1"), options.get("port", 0), grace)

    def asgi(self, **options: Unpack[AsgiOptions]) -> Endpoint:
        """The server as an ASGI application, for uvicorn or to be mounted in another application.

        It needs no lifespan of the application that it is mounted in.
        """
        from dovetail.server.http.asgi_app import make_endpoint

        return make_endpoint(self, options)

    async def serve(self, channel: Channel, *, grace: float = 5.0) -> None:
        """Serve one client over a channel until it goes."""
        from dovetail.server.run.stdio import ConnectionRunner

        await ConnectionRunner(self, channel, grace).run()

    def capabilities(self) -> ServerCapabilities:
        """Exactly what is there."""
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

    def honoured(self, wanted: SubscriptionFilter, principal: str | None = None) -> SubscriptionFilter:
        """The part of a subscription that this server can keep."""
        has_resources = self.resources.offered or self.templates.offered
        return SubscriptionFilter(
            tools_list_changed=(wanted.tools_list_changed and self.tools.offered) or None,
            prompts_list_changed=(wanted.prompts_list_changed and self.prompts.offered) or None,
            resources_list_changed=(wanted.resources_list_changed and has_resources) or None,
            resource_subscriptions=[
                uri for uri in dict.fromkeys(wanted.resource_subscriptions or ()) if self.can_watch(uri, principal)
            ]
            or None,
        )

    def find_resource(self, uri: str) -> tuple[RegisteredResource, dict[str, Any]] | None:
        """Who gives the contents of a URI, and the variables that it holds."""
        if (resource := self.resources.get(uri)) is not None:
            return resource, {}
        for registered in self.templates:
            if registered.template is not None and (found := registered.template.match(uri)) is not None:
                return registered, dict(found)
        return None

    def can_watch(self, uri: str, principal: str | None) -> bool:
        """Whether there is such a resource, or one below it."""
        from dovetail.server.features.subscriptions import is_watchable

        return is_watchable(self, uri, principal)

    def shows(self, principal: str | None, kind: Literal["tool", "resource", "prompt"], name: str) -> bool:
        """Whether a principal sees something."""
        return self.visible is None or self.visible(principal, kind, name)

    def find_completion(self, reference: str, argument: str) -> tuple[Server, RegisteredCompletion] | None:
        """Who suggests values for an argument, and the server that it belongs to."""
        if (found := self.completions.find(reference, argument)) is not None:
            return self, found
        for mount in self._mounts:
            if (inner := mount.find_completion(reference, argument)) is not None:
                return inner
        return None

    @property
    def completes(self) -> bool:
        """Whether there is any completion, here or in what is mounted."""
        own = "completions" in self.__dict__ and bool(self.completions)
        return own or any(mount.child.completes for mount in self._mounts)

    @property
    def guarded(self) -> bool:
        """Whether something stands between clients and what the server offers."""
        return self.middleware is not None or self.visible is not None or self.auth is not None

    @property
    def serving(self) -> bool:
        """Whether there are clients."""
        return bool(self._sessions)

    def inside(self) -> list[Server]:
        """The servers that are mounted in this one, and in those."""
        children = [mount.child for mount in self._mounts]
        return children + [inner for child in children for inner in child.inside()]

    @functools.cached_property
    def completions(self) -> Completions:
        """Who suggests values for what."""
        from dovetail.server.features.completion import Completions

        return Completions(self._completion_rate)

    @functools.cached_property
    def desk(self) -> Desk:
        """Where calls wait that asked something; `state_keys` lets other processes take them up."""
        from dovetail.protocol.seal import KeyRing
        from dovetail.server.mrtr.suspended_calls import Desk

        return Desk(self._ring or KeyRing([os.urandom(32)]))

    @functools.cached_property
    def visits(self) -> Visits:
        """Who was asked to open which page."""
        from dovetail.server.features.url_elicitation import Visits

        return Visits()

    def notify_elicitation_complete(self, id: str | None) -> None:
        """Tell the client that asked its user to open a page that the user is done there.

        The id is that of the answer to `ctx.elicit_url`, or of `URLElicitationRequired`. Unknown ones, and
        None, as on revisions that name no visits, tell nobody. Safe from any thread.
        """
        self.visits.complete(id)

    def page(
        self,
        method: str,
        revision: Revision,
        cursor: str | None,
        principal: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> bytes:
        """One page of a list, ready to send; `scopes` are those of the token, where there is authorization."""
        listing = self._listings[method]
        scoped = scopes if method == "tools/list" else None
        if self.visible is None:
            if scoped is not None:
                return listing.page_within(scoped, revision, cursor, self._page_size, self.finish)
            return listing.page(revision, cursor, self._page_size, self.finish)
        shown = functools.partial(self.shows, principal, _LISTED[method])
        if scoped is not None:
            allowed = {key for key, tool in self.tools.items() if tool.allowed(scoped)}
            return listing.page_of(
                lambda key: key in allowed and shown(key), revision, cursor, self._page_size, self.finish
            )
        return listing.page_of(shown, revision, cursor, self._page_size, self.finish)

    def finish(self, revision: Revision, method: str, value: Value) -> dict[str, Any]:
        """A result as it goes over this revision's wire, stamped with who we are where results say so."""
        result = revision.emit_result(method, value)
        if revision.era == "envelope":
            meta = result.get("_meta")
            result["_meta"] = {**meta, **self._stamp} if meta else self._stamp
        return result

    def header_paths(self, tool: str) -> Mapping[tuple[str, ...], str] | None:
        """The arguments of a tool that HTTP requests mirror into headers."""
        found = self.tools.get(tool)
        return None if found is None else found.binding.header_paths

    def enrol(self, session: ServerSession) -> None:
        """Count a session among those that hear of changes."""
        for server in (self, *self.inside()):
            server._sessions.add(session)

    def dismiss(self, session: ServerSession) -> None:
        """A session has ended."""
        for server in (self, *self.inside()):
            server._sessions.discard(session)

    @contextlib.asynccontextmanager
    async def joined(self, session: ServerSession) -> AsyncGenerator[None]:
        """Count a session among those that hear of changes; the first one enters the lifespan."""
        lifespan = self._lifespan
        if lifespan is not None:
            self.lifespan_state = await lifespan.enter()
        self._sessions.add(session)
        try:
            async with contextlib.AsyncExitStack() as inner:
                for mount in self._mounts:
                    await inner.enter_async_context(mount.child.joined(session))
                inner.push_async_callback(self._left, session)
                yield
        finally:
            self._sessions.discard(session)
            if not self._sessions:
                self.workers.stop()
            if lifespan is not None:
                await lifespan.leave()

    async def _left(self, session: ServerSession) -> None:
        """Stop the calls that wait when nobody can come back for them, while all they may use is still there."""
        self._sessions.discard(session)
        if not self._sessions and "desk" in self.__dict__:
            await self.desk.close()

    def _may_log(self) -> bool:
        """Whether any handler takes a context, which is what can log."""
        registries = (self.tools, self.resources, self.templates, self.prompts)
        return any(item.binding.context_name is not None for registry in registries for item in registry)

    def _changed(self, kind: ListKind) -> None:
        for mount in self._outer:
            mount.take_over()
        for listing in self._listings.values():
            listing.forget()
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):
                session.loop.call_soon_threadsafe(session.subscriptions.list_changed, kind)

    def _make_listings(self) -> dict[str, Listing]:
        pager, ttl = Pager(os.urandom(32)), self.list_ttl_ms
        return {
            "tools/list": Listing("tools/list", self.tools, ListToolsResult, pager, ttl),
            "resources/list": Listing("resources/list", self.resources, ListResourcesResult, pager, ttl),
            "resources/templates/list": Listing(
                "resources/templates/list", self.templates, ListResourceTemplatesResult, pager, ttl
            ),
            "prompts/list": Listing("prompts/list", self.prompts, ListPromptsResult, pager, ttl),
        }


_LISTED: dict[str, Literal["tool", "resource", "prompt"]] = {
    "tools/list": "tool",
    "resources/list": "resource",
    "resources/templates/list": "resource",
    "prompts/list": "prompt",
}


def _refuse_misplaced(noun: str, given: object, fits: bool, example: str) -> None:
    if not fits:
        raise LocalError(f"@server.{noun} cannot take {given!r} there; write @server.{noun}{example}")


def _key_ring(keys: Sequence[bytes]) -> KeyRing | None:
    """The keys, looked at now: one that cannot be used is not to come up when a client is there."""
    if not keys:
        return None
    from dovetail.protocol.seal import KeyRing

    return KeyRing(list(keys))


def _chosen(revisions: Sequence[str] | None) -> Mapping[str, Revision]:
    if revisions is None:
        return REVISIONS
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise LocalError(
            f"Unknown protocol revision {', '.join(unknown) or '(none)'}; there are {', '.join(REVISIONS)}"
        )
    return {name: revision for name, revision in REVISIONS.items() if name in revisions}
