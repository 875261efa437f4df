"""`Server`: the class that authors write servers with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack, overload

from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension
from dovetail.transports.base import Channel
from dovetail.types.capabilities import Icon, Implementation

from .core import MAX_HANDLE_BYTES, MAX_HANDLES, PAGE_SIZE, ServerCore, Verify, Visible
from .explained_options import explain_options
from .features.tools import ToolOptions, make_tool

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Middleware
    from dovetail.storage.contract import Store

    from .features.handles import Handles
    from .features.prompts import PromptOptions
    from .features.resources import ResourceOptions
    from .http.asgi_app import AsgiApp
    from .http.options import AsgiOptions
    from .run.http import RunOptions
    from .run.sockets import SocketServer
    from .run.store_options import StoreOptions

HttpName: TypeAlias = Literal["http", "streamable-http", "sse"]
TransportName: TypeAlias = Literal["stdio", "unix", "tcp"] | HttpName
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Lifespan = Callable[["Server"], contextlib.AbstractAsyncContextManager[Any]]


class Server:
    """Tools, resources and prompts, served to every client on every revision."""

    @explain_options("A server", "CONSTRUCTOR_OPTIONS")
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
        lenient_arguments: bool = False,
    ) -> None:
        """Create a server without tools, resources or prompts.

        `middleware` wraps every request, the first one outermost. `visible` decides which principal sees which tool,
        resource or prompt; what is not visible does not exist for that principal. `list_ttl` is for how many seconds
        clients may cache lists. `completion_rate` limits the completions a second of one client. `auth` is a
        `Verifier`, or a function that returns the owner of a token, or None to refuse it; over HTTP every request then
        needs a token. An owner known by name only has no scopes. `lenient_arguments` repairs mistakes of models in the
        arguments of tools, such as `"1"` for 1; each tool may say otherwise.
        """
        self._lenient_arguments = lenient_arguments
        self._core = ServerCore(
            Implementation(name, version, title, description, website_url, list(icons) if icons else None),
            public=self,
            instructions=instructions,
            lifespan=None if lifespan is None else lambda: lifespan(self),
            extensions=extensions,
            experimental=experimental,
            revisions=revisions,
            page_size=page_size,
            state_keys=state_keys,
            visible=visible,
            list_ttl=list_ttl,
            completion_rate=completion_rate,
            auth=auth,
        )
        for one in middleware:
            self.use(one)

    if not TYPE_CHECKING:  # for a type checker every attribute would exist

        def __getattr__(self, name: str) -> Any:
            from .other_names import SERVER_MEMBERS, unknown_member

            raise unknown_member(f"{type(self).__name__!r} object", name, SERVER_MEMBERS)

        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_"):
                import inspect

                from .other_names import refuse_assignment

                refuse_assignment(name, inspect.signature(Server.__init__).parameters)
            super().__setattr__(name, value)

    @property
    def info(self) -> Implementation:
        """Name, version and what else the server tells clients of itself."""
        return self._core.info

    @property
    def instructions(self) -> str | None:
        """The instructions for models that use the server."""
        return self._core.instructions

    @overload
    def tool(self, function: Function, /, **options: Unpack[ToolOptions]) -> Function: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[Function], Function]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Offer a function as a tool: as a bare decorator, with options, or called with the function.

        Options:
            name: The name of the tool; by default that of the function.
            title: A name for display.
            description: What the tool does, for models; by default the docstring.
            read_only: True if the tool changes nothing.
            destructive: True if the tool may delete or overwrite something.
            idempotent: True if calling it twice has the effect of calling it once.
            open_world: True if the tool works with things outside the server, such as the web.
            timeout: Seconds after which a call is stopped and fails.
            concurrency: Number of calls that run at once; others wait.
            scopes: Scopes that a token must have; over stdio nothing is required.
            icons: A list of `Icon`.
            meta: The `_meta` of the definition.
            input_schema: A JSON Schema of the arguments, instead of the type hints.
            output_schema: A JSON Schema of the result, instead of the type hint; None for results as text only.
            structured: False for results as text only.
            task: "optional" or "required" if calls may or must run as tasks; or seconds after which they become one.
            resume: True if a task may be begun again, from its journal, after the process that ran it died.
            ttl: Seconds for which a task is kept after its last change; by default a day.
            max_tasks: Tasks of the tool that may be open at once, over all clients; one more is refused.
            lenient_arguments: Repair mistakes of models in arguments; by default as the server says.
        """
        _refuse_misplaced("tool", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            options.setdefault("lenient_arguments", self._lenient_arguments)
            tool = make_tool(function, **options)
            for handles in self._core.handles.values():
                if handles.created_by == tool.name:
                    from .features.handles import describe_lifetime

                    describe_lifetime(handles, tool)
            self._core.tools.add(tool.name, tool)
            return function

        return add if function is None else add(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[Function], Function]:
        """Offer what a function returns as the resource at a URI, or at all that fit an RFC 6570 template.

        Options:
            name: The name of the resource; by default that of the function.
            title: A name for display.
            description: What the resource is; by default the docstring.
            mime_type: The type of the content; by default `application/json` where the function returns data.
            size: The size in bytes.
            icons: A list of `Icon`.
            annotations: Audience and priority.
            ttl: Seconds for which clients may cache the content.
            public: True if the content is the same for every caller, so that caches may share it.
            meta: The `_meta` of the definition.
        """
        from dovetail.server.features.resources import make_resource

        _refuse_misplaced("resource", uri, not callable(uri), '("config://app")')

        def add(function: Function) -> Function:
            resource = make_resource(function, uri, **options)
            (self._core.resources if resource.template is None else self._core.templates).add(uri, resource)
            return function

        return add

    @overload
    def prompt(self, function: Function, /, **options: Unpack[PromptOptions]) -> Function: ...

    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[Function], Function]: ...

    def prompt(self, function: Callable[..., Any] | None = None, /, **options: Unpack[PromptOptions]) -> Any:
        """Offer a function as a prompt: its parameters are the prompt's arguments.

        Options:
            name: The name of the prompt; by default that of the function.
            title: A name for display.
            description: What the prompt is for; by default the docstring.
            arguments: A list of `PromptArgument`, instead of the parameters of the function.
            icons: A list of `Icon`.
            meta: The `_meta` of the definition.
        """
        from dovetail.server.features.prompts import make_prompt

        _refuse_misplaced("prompt", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            prompt = make_prompt(function, **options)
            self._core.prompts.add(prompt.definition.name, prompt)
            return function

        return add if function is None else add(function)

    def completion(self, reference: str, argument: str) -> Callable[[Function], Function]:
        """Suggest values for an argument of a prompt, by name, or for a variable of a resource template.

        The function takes what was typed so far and, if it wants, the arguments settled already. A list of
        strings that it returns is put in order of relevance; a `Completion` is taken as it is. The prompt or template
        may be registered later, but before the server starts.
        """
        from .startup_checks import check_completion

        def add(function: Function) -> Function:
            check_completion(self._core, reference, argument)
            self._core.completions.add(reference, argument, function)
            return function

        return add

    def handles(
        self,
        kind: type[T],
        *,
        ttl: float = 86400,
        name: str | None = None,
        created_by: str | None = None,
        max_handles: int = MAX_HANDLES,
        max_bytes: int = MAX_HANDLE_BYTES,
    ) -> Handles[T]:
        """Keep state of a type between calls, under ids that a model passes from one tool to another.

        The type is one that tools may take as an argument: a dataclass, a TypedDict, or a model of msgspec, attrs or
        pydantic. The state is in memory, or in the store that the server is started with.

        Options:
            ttl: Seconds that a state is kept after its last use.
            name: The name in ids and in sentences for models; by default that of the type, in lower case.
            created_by: The tool that creates the state, by name. Its description gets a sentence with the lifetime, and
                the error for an id that is unknown or has expired names it.
            max_handles: States that one principal has at once; without authentication, one client.
            max_bytes: The size of one state as JSON.
        """
        from .features.handles import make_handles

        return make_handles(
            self._core, kind, ttl=ttl, name=name, created_by=created_by, max_handles=max_handles, max_bytes=max_bytes
        )

    def use(
        self, middleware: Middleware, *, methods: Iterable[str] | None = None, outermost: bool = False
    ) -> Middleware:
        """Wrap requests: all, or those of some methods; inside of the middleware that there is, or `outermost`."""
        self._core.use(middleware, methods, outermost=outermost)
        return middleware

    @explain_options("server.mount", "MOUNT_OPTIONS")
    def mount(self, other: Server, *, prefix: str | None = None) -> None:
        """Offer what another server offers, now and later: its tools and prompts as `prefix_name`.

        URIs stay as they are. Its handlers run with its own lifespan.
        """
        from .mount import mount

        mount(self._core, other._core, prefix)

    def remove_tool(self, name: str) -> None:
        """Remove a tool; clients are notified."""
        self._core.tools.remove(name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a resource template; clients are notified."""
        core = self._core
        (core.templates if core.templates.get(uri) else core.resources).remove(uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt; clients are notified."""
        self._core.prompts.remove(name)

    def notify_resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource, or of one above it, that it has changed. Safe from any thread."""
        self._core.announce_update(uri)

    def notify_tools_changed(self) -> None:
        """Notify clients that the tools have changed; adding and removing does so by itself."""
        self._core.announce("tools")

    def notify_resources_changed(self) -> None:
        """Notify clients that the resources have changed; adding and removing does so by itself."""
        self._core.announce("resources")

    def notify_prompts_changed(self) -> None:
        """Notify clients that the prompts have changed; adding and removing does so by itself."""
        self._core.announce("prompts")

    def notify_elicitation_complete(self, id: str | None) -> None:
        """Notify the client that asked its user to open a page that the user is done there.

        The id is that of the answer to `ctx.elicit_url`, or of `URLElicitationRequired`. Unknown ids, and None, as on
        revisions without elicitation ids, notify nobody. Safe from any thread.
        """
        self._core.url_elicitations.complete(id)

    async def revoke_token(self, token: str, *, expires_at: float | None = None) -> None:
        """Refuse a token from now on, and end the streams that it opened; with a shared store at every replica.

        It is remembered until `expires_at` (seconds since 1970), by default the expiry in the token; one that has none
        is refused for good. Raises `StoreError` if the store could not be reached: then only this process refuses it.
        Only a digest is stored. Works on any event loop.
        """
        if self._core.auth is None:
            raise LocalError("This server has no auth, so that there are no tokens to revoke")
        await self._core.revoked_tokens.revoke(token, expires_at)

    @overload
    def run(
        self, transport: Literal["stdio"] = "stdio", *, grace: float = 5.0, **options: Unpack[StoreOptions]
    ) -> None: ...

    @overload
    def run(self, transport: HttpName, *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None: ...

    @overload
    def run(
        self, transport: Literal["unix"], *, path: str, grace: float = 5.0, **options: Unpack[StoreOptions]
    ) -> None: ...

    @overload
    def run(
        self,
        transport: Literal["tcp"],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        grace: float = 5.0,
        **options: Unpack[StoreOptions],
    ) -> None: ...

    def run(self, transport: TransportName = "stdio", *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None:
        """Serve until the client goes or a signal says to end: over stdio, "http", "unix" (path) or "tcp" (host, port).

        "streamable-http" and "sse" are other names of "http", which serves both.

        Options:
            grace: Seconds in which calls that run when a signal comes may finish.
            host: The address to listen at, for "http" and "tcp"; by default this machine only.
            port: The port; by default 8000 for "http".
            path: The path of the endpoint for "http", by default `/mcp`; the socket for "unix".
            store: The store of what outlives a call, or its URL, over every transport.
            tasks: "here", or "workers" if tasks are left to `dovetail worker` processes that share the store.
            workers: Processes that share the port, for "http". It takes the options of `asgi` as well.
        """
        from .run.transport_names import resolve_transport
        from .startup_checks import check_before_start

        kind = resolve_transport(transport, options)
        check_before_start(self._core)
        if kind == "http":
            from .run.http import run_http

            run_http(self._core, grace=grace, **options)
        elif kind == "stdio":
            from .run.stdio import run_stdio

            run_stdio(self._core, grace, _store_options(options))
        elif kind == "unix":
            from .run.sockets import run_unix

            run_unix(self._core, options.get("path", ""), grace, _store_options(options))
        else:
            from .run.sockets import run_tcp

            run_tcp(
                self._core, options.get("host", "127.0.0.1"), options.get("port", 0), grace, _store_options(options)
            )

    @overload
    async def run_async(
        self, transport: Literal["stdio"] = "stdio", *, grace: float = 5.0, **options: Unpack[StoreOptions]
    ) -> None: ...

    @overload
    async def run_async(self, transport: HttpName, *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None: ...

    @overload
    async def run_async(
        self, transport: Literal["unix"], *, path: str, grace: float = 5.0, **options: Unpack[StoreOptions]
    ) -> None: ...

    @overload
    async def run_async(
        self,
        transport: Literal["tcp"],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        grace: float = 5.0,
        **options: Unpack[StoreOptions],
    ) -> None: ...

    async def run_async(
        self, transport: TransportName = "stdio", *, grace: float = 5.0, **options: Unpack[RunOptions]
    ) -> None:
        """Serve on the event loop that runs, with the options of `run` except `workers`.

        It ends when the client of stdio goes, or when it is cancelled, as Ctrl-C does under `asyncio.run`: calls that
        run then have the grace period to finish. It handles no signals itself.
        """
        from .run.running_loop import serve_on_running_loop
        from .run.transport_names import resolve_transport
        from .startup_checks import check_before_start

        check_before_start(self._core)
        await serve_on_running_loop(self._core, resolve_transport(transport, options), grace, **options)

    def run_worker(self, *, store: Store | str | os.PathLike[str] | None = None, grace: float = 5.0) -> None:
        """Run the tasks of a store that other processes serve, until a signal says to end; see `dovetail worker`.

        Options:
            store: The store that the servers have, or its URL; by default that of `DOVETAIL_STORE`.
            grace: Seconds in which tasks that cannot be resumed may finish then; others are handed over at once.
        """
        from .run.store_runner import run_worker
        from .startup_checks import check_before_start

        check_before_start(self._core)
        run_worker(self._core, {} if store is None else {"store": store}, grace)

    def asgi(self, **options: Unpack[AsgiOptions]) -> AsgiApp:
        """The server as an ASGI application, for uvicorn or to be mounted in another application.

        It does not need the lifespan of the application that it is mounted in.
        """
        from .http.asgi_app import AsgiApp
        from .http.options import Settings

        return AsgiApp(self._core, Settings.of(options))

    async def serve(self, channel: Channel, *, grace: float = 5.0) -> None:
        """Serve one client over a channel until it goes."""
        from .run.stdio import ConnectionRunner
        from .startup_checks import check_names

        check_names(self._core)
        await ConnectionRunner(self._core, channel, grace).run()


def _store_options(options: RunOptions) -> StoreOptions:
    """The options of a transport that has no others of its own."""
    given: StoreOptions = {}
    if "store" in options:
        given["store"] = options["store"]
    if "tasks" in options:
        given["tasks"] = options["tasks"]
    return given


def _refuse_misplaced(noun: str, given: object, fits: bool, example: str) -> None:
    if not fits:
        raise LocalError(f"@server.{noun} cannot take {given!r} there; write @server.{noun}{example}")


async def listen_unix(
    server: Server,
    path: str | os.PathLike[str],
    *,
    grace: float = 5.0,
    mode: int = 0o600,
    max_clients: int = 1000,
    started: Callable[[SocketServer], None] | None = None,
) -> None:
    """Serve every client that connects to a Unix socket, until cancelled; `mode` are the permissions of its file.

    `started` is called when clients can connect, with an object that stops gracefully.
    """
    from .run import sockets

    await sockets.listen_unix(
        server._core,  # pyright: ignore[reportPrivateUsage]
        path,
        grace=grace,
        mode=mode,
        max_clients=max_clients,
        started=started,
    )


async def listen_tcp(
    server: Server,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    grace: float = 5.0,
    allow_remote: bool = False,
    max_clients: int = 1000,
    started: Callable[[SocketServer], None] | None = None,
) -> None:
    """Serve every client that connects to a TCP port of this machine, until cancelled.

    There is neither encryption nor authentication: `allow_remote` is for networks where every machine is trusted.
    """
    from .run import sockets

    await sockets.listen_tcp(
        server._core,  # pyright: ignore[reportPrivateUsage]
        host,
        port,
        grace=grace,
        allow_remote=allow_remote,
        max_clients=max_clients,
        started=started,
    )
