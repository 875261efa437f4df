"""`Server`: what a person writes a server with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from dovetail.protocol.envelope import SERVER_INFO
from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.workers import Workers
from dovetail.transports.base import Channel
from dovetail.types.capabilities import (
    Icon,
    Implementation,
    ListCapability,
    ResourcesCapability,
    ServerCapabilities,
)
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.prompts import ListPromptsResult
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult
from dovetail.types.shape import Value, dump
from dovetail.types.tools import ListToolsResult

from .lifespan import SharedLifespan
from .listing import Listing
from .registry import Registry
from .session import ServerSession
from .subscriptions import ListKind
from .tools import RegisteredTool, ToolOptions, make_tool

if TYPE_CHECKING:
    from .prompts import PromptOptions, RegisteredPrompt
    from .resources import RegisteredResource, ResourceOptions

Function = TypeVar("Function", bound=Callable[..., Any])
Lifespan = Callable[["Server"], contextlib.AbstractAsyncContextManager[Any]]

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
    ) -> None:
        self.info = Implementation(
            name, version, title, description, website_url, list(icons) if icons else None
        )
        self.instructions = instructions
        self.extensions = Extensions(list(extensions))
        self.served = _chosen(revisions)
        self.workers = Workers()
        self.lifespan_state: Any = None
        self.tools: Registry[RegisteredTool] = Registry("tool", lambda: self._changed("tools"))
        self.resources: Registry[RegisteredResource] = Registry(
            "resource", lambda: self._changed("resources")
        )
        self.templates: Registry[RegisteredResource] = Registry(
            "template", lambda: self._changed("resources")
        )
        self.prompts: Registry[RegisteredPrompt] = Registry("prompt", lambda: self._changed("prompts"))
        self._experimental = dict(experimental) if experimental else None
        self._lifespan = SharedLifespan(lambda: lifespan(self)) if lifespan is not None else None
        self._page_size = page_size
        self._sessions: set[ServerSession] = set()
        self._listings = self._make_listings()
        self._stamp: dict[str, Any] = {SERVER_INFO: dump(self.info)}

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
        from .resources import make_resource

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
        from .prompts import make_prompt

        _refuse_misplaced("prompt", function, function is None or callable(function), "(name=…)")

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            prompt = make_prompt(function, **options)
            self.prompts.add(prompt.definition.name, prompt)
            return function

        return add if function is None else add(function)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; clients that listen are told."""
        self.tools.remove(name)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a resource template away; clients that listen are told."""
        (self.templates if self.templates.get(uri) else self.resources).remove(uri)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; clients that listen are told."""
        self.prompts.remove(name)

    def run(self, transport: str = "stdio", *, grace: float = 5.0) -> None:
        """Serve until the client goes or a signal says to end."""
        from .run import run_stdio

        if transport != "stdio":
            raise LocalError(f"There is no transport {transport!r} yet; there is 'stdio'")
        run_stdio(self, grace)

    async def serve(self, channel: Channel, *, grace: float = 5.0) -> None:
        """Serve one client over a channel until it goes."""
        from .run import Serving

        await Serving(self, channel, grace).run()

    def capabilities(self) -> ServerCapabilities:
        """Exactly what is there."""
        listed = ListCapability(list_changed=True)
        has_resources = self.resources.offered or self.templates.offered
        return ServerCapabilities(
            tools=listed if self.tools.offered else None,
            prompts=listed if self.prompts.offered else None,
            resources=ResourcesCapability(list_changed=True) if has_resources else None,
            extensions=self.extensions.declared or None,
            experimental=self._experimental,
        )

    def honoured(self, wanted: SubscriptionFilter) -> SubscriptionFilter:
        """The part of a subscription that this server can keep."""
        has_resources = self.resources.offered or self.templates.offered
        return SubscriptionFilter(
            tools_list_changed=(wanted.tools_list_changed and self.tools.offered) or None,
            prompts_list_changed=(wanted.prompts_list_changed and self.prompts.offered) or None,
            resources_list_changed=(wanted.resources_list_changed and has_resources) or None,
        )

    def find_resource(self, uri: str) -> tuple[RegisteredResource, dict[str, Any]] | None:
        """Who gives the contents of a URI, and the variables that it holds."""
        if (resource := self.resources.get(uri)) is not None:
            return resource, {}
        for registered in self.templates:
            if registered.template is not None and (found := registered.template.match(uri)) is not None:
                return registered, dict(found)
        return None

    def page(self, method: str, revision: Revision, cursor: str | None) -> bytes:
        """One page of a list, ready to send."""
        return self._listings[method].page(revision, cursor, self._page_size, self.finish)

    def finish(self, revision: Revision, method: str, value: Value) -> dict[str, Any]:
        """A result as it goes over this revision's wire, stamped with who we are where results say so."""
        result = revision.emit_result(method, value)
        if revision.era == "envelope":
            meta = result.get("_meta")
            result["_meta"] = {**meta, **self._stamp} if meta else self._stamp
        return result

    @contextlib.asynccontextmanager
    async def joined(self, session: ServerSession) -> AsyncGenerator[None]:
        """Count a session among those that hear of changes; the first one enters the lifespan."""
        lifespan = self._lifespan
        if lifespan is not None:
            self.lifespan_state = await lifespan.enter()
        self._sessions.add(session)
        try:
            yield
        finally:
            self._sessions.discard(session)
            if not self._sessions:
                self.workers.stop()
            if lifespan is not None:
                await lifespan.leave()

    def _changed(self, kind: ListKind) -> None:
        for listing in self._listings.values():
            listing.forget()
        for session in list(self._sessions):
            with contextlib.suppress(RuntimeError):
                session.loop.call_soon_threadsafe(session.subscriptions.list_changed, kind)

    def _make_listings(self) -> dict[str, Listing]:
        pager = Pager(os.urandom(32))
        return {
            "tools/list": Listing("tools/list", self.tools, ListToolsResult, pager),
            "resources/list": Listing("resources/list", self.resources, ListResourcesResult, pager),
            "resources/templates/list": Listing(
                "resources/templates/list", self.templates, ListResourceTemplatesResult, pager
            ),
            "prompts/list": Listing("prompts/list", self.prompts, ListPromptsResult, pager),
        }


def _refuse_misplaced(noun: str, given: object, fits: bool, example: str) -> None:
    if not fits:
        raise LocalError(f"@server.{noun} cannot take {given!r} there; write @server.{noun}{example}")


def _chosen(revisions: Sequence[str] | None) -> Mapping[str, Revision]:
    if revisions is None:
        return REVISIONS
    unknown = [name for name in revisions if name not in REVISIONS]
    if unknown or not revisions:
        raise LocalError(
            f"Unknown protocol revision {', '.join(unknown) or '(none)'}; there are {', '.join(REVISIONS)}"
        )
    return {name: revision for name, revision in REVISIONS.items() if name in revisions}
