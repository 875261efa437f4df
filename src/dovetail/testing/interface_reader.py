"""The interface of a server as JSON that is stable until the server changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

from dovetail.client.blocking import BlockingClient
from dovetail.client.client import Client
from dovetail.types.capabilities import ServerCapabilities
from dovetail.types.serialization import Value, dump

Interface: TypeAlias = dict[str, Any]
"""Name, instructions and capabilities of a server, and each list by name or URI; not its version."""

_LISTS = (
    ("tools", "tools", "name"),
    ("resources", "resources", "uri"),
    ("resource_templates", "resources", "uriTemplate"),
    ("prompts", "prompts", "name"),
)
"""Client method, capability that it needs, and key of the items."""


@overload
def interface(client: Client) -> Awaitable[Interface]: ...


@overload
def interface(client: BlockingClient) -> Interface: ...


def interface(client: Client | BlockingClient) -> Awaitable[Interface] | Interface:
    """Request everything that a server offers."""
    if isinstance(client, BlockingClient):
        return _describe(client, [getattr(client, method)() for method in _methods(client)])
    return _request_lists(client)


async def _request_lists(client: Client) -> Interface:
    methods: list[Callable[[], Awaitable[Sequence[Value]]]] = [getattr(client, name) for name in _methods(client)]
    return _describe(client, [await method() for method in methods])


def _methods(client: Client | BlockingClient) -> list[str]:
    return [method for method, _ in _offered(client.capabilities)]


def _offered(capabilities: ServerCapabilities) -> list[tuple[str, str]]:
    return [(method, key) for method, needs, key in _LISTS if getattr(capabilities, needs) is not None]


def _describe(client: Client | BlockingClient, lists: Iterable[Sequence[Value]]) -> Interface:
    described: Interface = {"capabilities": dump(client.capabilities)}
    if client.server is not None:
        described["server"] = {name: item for name, item in dump(client.server).items() if name != "version"}
    if client.instructions is not None:
        described["instructions"] = client.instructions
    for (method, key), items in zip(_offered(client.capabilities), lists, strict=True):
        plain = [dump(item) for item in items]
        described[method] = {item.pop(key): item for item in plain}
    return described
