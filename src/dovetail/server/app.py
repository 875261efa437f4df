"""`Server`: the class that authors write servers with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension
from dovetail.transports.base import Channel
from dovetail.types.capabilities import Icon, Implementation

from .core import PAGE_SIZE, ServerCore, Verify, Visible
from .features.tools import ToolOptions, make_tool

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Middleware

    from .features.prompts import PromptOptions
    from .features.resources import ResourceOptions
    from .http.asgi_app import AsgiApp
    from .http.options import AsgiOptions
    from .run.http import RunOptions
    from .run.sockets import SocketServer

Function = TypeVar("Function", bound=Callable[..., Any])
Lifespan = Callable[["Server"], contextlib.AbstractAsyncContextManager[Any]]


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
        """Create a server without tools, resources or prompts.

        `middleware` wraps every request, the first one outermost. `visible` decides which principal sees which tool,
        resource or prompt; what is not visible does not exist for that principal. `list_ttl` is for how many seconds
        clients may cache lists. `completion_rate` limits the completions a second of one client. `auth` is a
        `Verifier`, or a function that returns the owner of a token, or None to refuse it; over HTTP every request then
        needs a token. An owner known by name only has no scopes.
        """
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
        """Offer a function as a tool: as a bare decorator, with options, or called with the function."""
        _refuse_misplaced("tool", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            tool = make_tool(function, **options)
            self._core.tools.add(tool.name, tool)
            return function

        return add if function is None else add(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[Function], Function]:
        """Offer what a function returns as the resource at a URI, or at all that fit an RFC 6570 template."""
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
        """Offer a function as a prompt: its parameters are the prompt's arguments."""
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
        strings that it returns is put in order of relevance; a `Completion` is taken as it is.
        """

        def add(function: Function) -> Function:
            self._core.completions.add(reference, argument, function)
            return function

        return add

    def use(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Wrap requests, inside of the middleware that there is already: all requests, or those of some methods."""
        self._core.use(middleware, methods)
        return middleware

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

    def run(self, transport: str = "stdio", *, grace: float = 5.0, **options: Unpack[RunOptions]) -> None:
        """Serve until the client goes or a signal says to end: over stdio, "http", "unix" (path) or "tcp" (host, port).

        HTTP takes the options of `asgi` as well, and `workers`. Calls that run when a signal comes have the grace
        period to finish.
        """
        if transport == "http":
            from .run.http import run_http

            run_http(self._core, grace=grace, **options)
            return
        takes = {"stdio": (), "unix": ("path",), "tcp": ("host", "port")}.get(transport)
        if takes is None:
            raise LocalError(f"There is no transport {transport!r}; there are stdio, http, unix and tcp")
        if unknown := options.keys() - set(takes):
            raise LocalError(f"A server over {transport} has no option {', '.join(sorted(unknown))}")
        if transport == "stdio":
            from .run.stdio import run_stdio

            run_stdio(self._core, grace)
            return
        from .run.sockets import run_tcp, run_unix

        if transport == "unix":
            run_unix(self._core, options.get("path", ""), grace)
        else:
            run_tcp(self._core, options.get("host", "127.0.0.1"), options.get("port", 0), grace)

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

        await ConnectionRunner(self._core, channel, grace).run()


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
