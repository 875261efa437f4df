"""`Client`: calling one server."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dovetail import __version__
from dovetail.protocol.envelope import request_meta
from dovetail.protocol.errors import (
    InvalidAnswer,
    LocalError,
    RemoteError,
    ToolFailed,
)
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Trace
from dovetail.runtime.pending import OnProgress, Patience
from dovetail.types.base import PageResult
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.prompts import GetPromptResult, ListPromptsResult, Prompt
from dovetail.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from dovetail.types.shape import Value
from dovetail.types.tools import CallToolResult, ListToolsResult, Tool
from dovetail.wire import codec

from .link import Link
from .outputs import OutputSchemas
from .session import ClientSession
from .targets import Target, find_target

if TYPE_CHECKING:
    from .blocking import BlockingClient
    from .watch import Change

MAX_PAGES = 1000

R = TypeVar("R", bound=Value)


class Client:
    """One server, reached over whatever it is: `async with Client("python server.py") as c`."""

    def __init__(
        self,
        target: Target,
        *,
        revision: str | None = None,
        timeout: float | None = 30,
        max_timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        info: Implementation | None = None,
        extensions: Sequence[Extension] = (),
        experimental: Mapping[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._target = find_target(target, env, cwd)
        self._revision = _find_revision(revision)
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._info = info or Implementation("dovetail", __version__)
        self._extensions = Extensions(list(extensions))
        self._capabilities = ClientCapabilities(
            extensions=self._extensions.declared or None,
            experimental=dict(experimental) if experimental else None,
        )
        self._trace = trace
        self._link: Link | None = None
        self._meta: dict[str, Any] | None = None
        self._outputs = OutputSchemas()

    @staticmethod
    def blocking(target: Target, **options: Any) -> BlockingClient:
        """The same client for code without async: `with Client.blocking("python server.py") as c`."""
        from .blocking import BlockingClient

        return BlockingClient(lambda: Client(target, **options))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect and agree on a revision."""
        if self._link is not None:
            raise LocalError("This client is open already")
        self._link = Link(
            self._target,
            lambda on_lost: ClientSession(self, self._extensions, on_lost),
            self._info,
            self._capabilities,
            self._revision,
            self._timeout,
            self._trace,
        )
        try:
            await self._link.open()
        except BaseException:
            self._link = None
            raise
        agreed = self._link.agreement.revision
        enveloped = agreed.era == "envelope"
        self._meta = request_meta(agreed, self._info, self._capabilities) if enveloped else None
        self._outputs = OutputSchemas()
        self._link.session.listeners.add(self._outputs.notified)

    async def close(self) -> None:
        """Disconnect; a server that this client started is ended."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    @property
    def revision(self) -> str:
        """The protocol revision that both sides agreed on."""
        return self._open_link().agreement.revision.name

    @property
    def server(self) -> Implementation | None:
        """Who the server says it is; not verified."""
        return self._open_link().agreement.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server can do."""
        return self._open_link().agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in words for a model."""
        return self._open_link().agreement.instructions

    async def tools(self) -> list[Tool]:
        """Every tool, over all pages."""
        tools = [tool async for tool in self._pages("tools/list", ListToolsResult, "tools")]
        self._outputs.learn(tools)
        return tools

    async def resources(self) -> list[Resource]:
        """Every resource, over all pages."""
        return [item async for item in self._pages("resources/list", ListResourcesResult, "resources")]

    async def resource_templates(self) -> list[ResourceTemplate]:
        """Every resource template, over all pages."""
        pages = self._pages("resources/templates/list", ListResourceTemplatesResult, "resource_templates")
        return [item async for item in pages]

    async def prompts(self) -> list[Prompt]:
        """Every prompt, over all pages."""
        return [item async for item in self._pages("prompts/list", ListPromptsResult, "prompts")]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult:
        """Call a tool; a result that says `isError` raises `ToolFailed` unless `check` is false.

        Arguments go as keywords, or as one mapping where a name would clash.
        """
        params: dict[str, Any] = {"name": name, "arguments": {**(arguments or {}), **named}}
        result = await self._ask("tools/call", params, CallToolResult, timeout, progress, meta)
        if not result.is_error:
            await self._outputs.check(name, result, self)
        elif check:
            raise ToolFailed(name, result)
        return result

    async def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return await self._ask("resources/read", {"uri": uri}, ReadResourceResult, timeout)

    async def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        **named: str,
    ) -> GetPromptResult:
        """Get a prompt, filled in."""
        params = {"name": name, "arguments": {**(arguments or {}), **named}}
        return await self._ask("prompts/get", params, GetPromptResult, timeout)

    async def ping(self, *, timeout: float | None = None) -> None:
        """See whether the server answers: ping, or discovery where there is no ping any more."""
        method = "ping" if "ping" in self._agreed().methods else "server/discover"
        await self.request(method, timeout=timeout)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send any request and get the bare result; for methods of extensions."""
        agreed, pending = self._agreed(), self._open_link().connection.pending
        id = pending.take_id()
        body = dict(params) if params else {}
        extra = {**(self._meta or {}), **(meta or {})}
        if progress is not None:
            extra["progressToken"] = id
        if extra:
            body["_meta"] = extra
        patience = Patience(self._timeout if timeout is None else timeout, self._max_timeout)
        try:
            encoded = codec.encode(body) if body else None
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise LocalError(f"The params of {method} cannot be written as JSON: {problem}") from problem
        result = await pending.request(method, encoded, patience, id=id, on_progress=progress)
        if agreed.result_type:
            self._check_type(method, result, agreed)
        return result

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification; for methods of extensions."""
        self._open_link().connection.notify(method, dict(params) if params is not None else None)

    def watch(self, *, tools: bool = False, resources: bool = False, prompts: bool = False) -> AsyncGenerator[Change]:
        """Wait for lists to change; the same on every revision."""
        from .watch import watch

        link = self._open_link()
        wanted = {"tools": tools, "resources": resources, "prompts": prompts}
        kinds = [kind for kind in wanted if wanted[kind]]
        if not kinds:
            raise LocalError("There is nothing to watch: say tools=True, resources=True or prompts=True")
        return watch(link, self._meta, kinds)

    async def _ask(
        self,
        method: str,
        params: dict[str, Any],
        kind: type[R],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> R:
        raw = await self.request(method, params, timeout=timeout, progress=progress, meta=meta)
        try:
            result = self._agreed().load_result(method, raw)
        except RemoteError as problem:
            raise InvalidAnswer(problem.message) from None
        if not isinstance(result, kind):
            raise InvalidAnswer(f"{method} was answered with {type(result).__name__}, which this client cannot take")
        return result

    def _check_type(self, method: str, result: Any, agreed: Revision) -> None:
        """A result type that neither side announced is invalid (2026-07-28 basic, "ResultType")."""
        kind = cast("dict[str, Any]", result).get("resultType") if isinstance(result, dict) else None
        if kind is None or kind == "complete":
            return
        if not isinstance(kind, str) or not (kind in agreed.outcomes or kind in self._extensions.result_types):
            raise InvalidAnswer(f"Invalid result of {method}: resultType {kind!r} is unknown")

    async def _pages(self, method: str, kind: type[PageResult], field: str) -> AsyncIterator[Any]:
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            result = await self._ask(method, {} if cursor is None else {"cursor": cursor}, kind)
            for item in getattr(result, field):
                yield item
            cursor = result.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                raise InvalidAnswer(f"{method} led in a circle: the cursor {cursor!r} came twice")
            seen.add(cursor)
        raise InvalidAnswer(f"{method} has more than {MAX_PAGES} pages")

    def _agreed(self) -> Revision:
        return self._open_link().agreement.revision

    def _open_link(self) -> Link:
        if self._link is None:
            raise LocalError("This client is not open: use `async with Client(…)`, or await open()")
        return self._link


def _find_revision(name: str | None) -> Revision | None:
    if name is None:
        return None
    found = REVISIONS.get(name)
    if found is None:
        raise LocalError(f"There is no protocol revision {name!r}; there are {', '.join(REVISIONS)}")
    return found
