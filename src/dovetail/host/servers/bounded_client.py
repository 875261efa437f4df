"""Client for a server that is not trusted: lists are bounded, and no call is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from dovetail.client.client import Client
from dovetail.client.listing import ListLimits
from dovetail.client.retry_policy import RetryPolicy
from dovetail.client.targets.resolve import Target
from dovetail.host.limits import Limits
from dovetail.protocol.errors import DovetailError, InvalidAnswer, NotFound
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.base import PageResult
from dovetail.types.prompts import Prompt
from dovetail.types.resources import Resource, ResourceTemplate
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from dovetail.client.tasks.task import Task

ListKind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]
KINDS: tuple[ListKind, ...] = ("tools", "prompts", "resources", "templates")


class ServerFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """Tools, prompts, resources, templates and instructions of a server."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    instructions: str | None = None
    problems: dict[ListKind, str] = {}
    """Lists that could not be taken, and why."""


class BoundedClient(Client):
    """A client for a server that nobody vouches for: lists are bounded, and no call is ever sent twice.

    Its word that a second call does no harm is not taken (tools, "Tool": annotations are untrusted).
    """

    def __init__(self, target: Target, limits: Limits, on_problem: Callable[[str], None], **options: Any) -> None:
        super().__init__(target, max_message_bytes=limits.max_message_bytes, **options)
        self._limits = limits
        self._list_limits = ListLimits(limits.max_items, limits.max_list_bytes, limits.max_pages)
        self._on_problem = on_problem
        self._retry_policy = _Never()

    async def lost(self) -> str:
        """Wait until the server is gone; why."""
        supervisor = self._connected()
        await supervisor.wait_lost()
        return supervisor.connection.gone or "the connection was closed"

    def complain(self, problem: str) -> None:
        """Say what is wrong with the server."""
        self._on_problem(problem)

    @property
    def gone(self) -> bool:
        """True if the server is gone, which its keeper may not have noticed yet."""
        return self._supervisor is None or self._supervisor.connection.gone is not None

    @property
    def era(self) -> Literal["handshake", "envelope"]:
        """The era of the agreed revision."""
        return self._connected().agreement.revision.era

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], timeout: float | None, progress: OnProgress | None
    ) -> CallToolResult | Task:
        """Call a tool; a task that the server makes of the call is returned, and not waited for."""
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        if self._decides_tasks and await self._task_support(name) != "forbidden":
            params["task"] = {}
        result = await self._call_tool(params, timeout, progress)
        if isinstance(result, CallToolResult):
            return await self._complete_call(name, result, None, check=False)
        from dovetail.client.tasks.calls import make_driver
        from dovetail.client.tasks.state import TaskState
        from dovetail.client.tasks.task import Task

        services = self._task_services()
        driver, update = make_driver(services, result)
        return Task(services, driver, name, TaskState(update))

    def knows(self, method: str) -> bool:
        """True if the agreed revision has a method."""
        return method in self._connected().agreement.revision.methods

    async def _list(self, method: str, kind: type[PageResult], field: str, strict: bool | None) -> list[Any]:
        items = await super()._list(method, kind, field, strict)
        return [item for item in items if self._is_small(method, item)]

    def _is_small(self, method: str, item: Any) -> bool:
        cost = _size(item)
        if cost > self._limits.max_definition_bytes:
            self._on_problem(f"{method}: {_called(item)!r} takes {cost} bytes and was left out")
        return cost <= self._limits.max_definition_bytes

    def _warn_of_list(self, problem: str) -> None:
        self._on_problem(problem)

    def _warn_of_missing(self, problem: str) -> None:
        self._on_problem(problem)


class _Never(RetryPolicy):
    """Learns of no tool that it may be called twice."""

    def learn(self, tools: object) -> None:
        """Take nobody's word for it."""


async def fetch_list(client: BoundedClient, kind: ListKind, seconds: float) -> tuple[Any, ...]:
    """One list, each name in it once; raises `DovetailError`."""
    listings = {
        "tools": client.tools,
        "prompts": client.prompts,
        "resources": client.resources,
        "templates": client.resource_templates,
    }
    try:
        async with asyncio.timeout(seconds):
            items = await listings[kind]()
    except NotFound:
        return ()
    except TimeoutError as problem:
        if isinstance(problem, DovetailError):
            raise
        raise InvalidAnswer(f"The list of {kind} did not end within {seconds:g} s") from None
    unique: dict[str, Any] = {}
    for item in items:
        # A second tool of the same name could not be called, but might be what a user reads.
        if unique.setdefault(_called(item), item) is not item:
            client.complain(f"The list of {kind} has {_called(item)[:200]!r} more than once; only the first is taken")
    return tuple(unique.values())


def offered_kinds(client: BoundedClient) -> list[ListKind]:
    """The lists that a server says it has."""
    has = client.capabilities
    given = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources, "templates": has.resources}
    return [kind for kind in KINDS if given[kind] is not None]


def _called(item: Tool | Prompt | Resource | ResourceTemplate) -> str:
    if isinstance(item, Resource):
        return item.uri
    return item.uri_template if isinstance(item, ResourceTemplate) else item.name


def _size(item: Value) -> int:
    return len(msgspec.json.encode(item))
