"""Catalogue of a gateway: the names under which clients see what its servers offer, and the way back.

Names are resolved by table and never by taking them apart: a server is called by its key in the configuration, so that
neither what it calls itself nor its tools can take the name of another's.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from dovetail.protocol.bridge import rewrite_ui_meta
from dovetail.protocol.names import MAX_NAME, header_paths, tool_name
from dovetail.types.prompts import Prompt
from dovetail.types.resources import Resource, ResourceTemplate
from dovetail.types.tools import Tool, ToolExecution
from dovetail.uri_template.template import UriTemplate

from .search_mode import definition_tokens
from .servers.connection import Offers

URI_PREFIX = "gateway:"
"""Begins the URI of a resource whose own URI does not say which server it belongs to: `gateway:notes:file:///a`."""

_PAGES = "ui://"
PAGE_PREFIX = f"{_PAGES}gateway/"
"""The same for pages of MCP Apps, which hosts know by their scheme: `ui://gateway/notes/chart`."""

_HASH_LENGTH = len(tool_name("", "")) - len("__")
"""The characters that `tool_name` adds to a name that would not be clear without a hash."""

T = TypeVar("T", Tool, Prompt)

_numbers = itertools.count(1)


class Owned(NamedTuple):
    """A tool or prompt: the key of its server, and its definition as the server gives it."""

    server: str
    definition: Any


class ServerOffers(NamedTuple):
    """The offers of one server."""

    server: str
    offers: Offers


class Catalogue:
    """The offers of several servers together, under the names of one view of the gateway."""

    def __init__(self, parts: Sequence[ServerOffers], *, prefixed: bool = True) -> None:
        """Without `prefixed` there is one server, whose names and URIs stay as they are."""
        self.number = next(_numbers)
        """Another one for each catalogue."""
        self._prefixed = prefixed
        self._parts = parts
        self._resource_owners = _owners((part.server, (one.uri for one in part.offers.resources)) for part in parts)
        self._template_owners = _owners(
            (part.server, (one.uri_template for one in part.offers.templates)) for part in parts
        )
        self._tokens: dict[str, int] = {}
        self._matchers: dict[str, list[UriTemplate]] = {}
        """The templates of each server, as far as they were needed."""
        self._owners: dict[str, list[str]] = {}
        """The servers of each URI that is listed, as far as they were looked for: every list needs them."""
        self.task_tools: set[str] = set()
        """The names of tools whose calls may be tasks."""
        self.tools: dict[str, Owned] = {}
        self.prompts: dict[str, Owned] = {}
        for part in parts:
            for tool in part.offers.tools:
                name = self.name(part.server, tool.name)
                self.tools.setdefault(name, Owned(part.server, tool))
                if tool.name in part.offers.tasks:
                    self.task_tools.add(name)
            for prompt in part.offers.prompts:
                self.prompts.setdefault(self.name(part.server, prompt.name), Owned(part.server, prompt))

    def name(self, server: str, name: str) -> str:
        """The name of a tool or prompt for clients."""
        return tool_name(server, name) if self._prefixed else name

    def listed_tools(self) -> list[tuple[str, Tool]]:
        """The tools by their names for clients, with definitions that have these names."""
        return [(name, self._listed_tool(name, owned)) for name, owned in self.tools.items()]

    def _listed_tool(self, name: str, owned: Owned) -> Tool:
        tool = _renamed(owned.definition, name, self._rewrite_ui(owned.server, owned.definition))
        if name in self.task_tools and tool.execution is None:
            # For clients of 2025-11-25, who decide which calls are tasks.
            return msgspec.structs.replace(tool, execution=ToolExecution("optional"))
        return tool

    def listed_prompts(self) -> list[tuple[str, Prompt]]:
        """The prompts by their names for clients."""
        return [(name, _renamed(owned.definition, name, owned.definition.meta)) for name, owned in self.prompts.items()]

    def listed_resources(self) -> list[tuple[str, Resource]]:
        """The resources by their URIs for clients."""
        listed: dict[str, Resource] = {}
        for part in self._parts:
            for one in part.offers.resources:
                uri = self.shown_uri(part.server, one.uri)
                listed.setdefault(uri, one if uri == one.uri else msgspec.structs.replace(one, uri=uri))
        return list(listed.items())

    def listed_templates(self) -> list[tuple[str, ResourceTemplate]]:
        """The resource templates by their URI templates for clients."""
        listed: dict[str, ResourceTemplate] = {}
        for part in self._parts:
            for template in part.offers.templates:
                uri = template.uri_template
                if self._prefixed and len(self._template_owners[uri]) > 1:
                    uri = prefixed_uri(part.server, uri)
                    listed.setdefault(uri, msgspec.structs.replace(template, uri_template=uri))
                else:
                    listed.setdefault(uri, template)
        return list(listed.items())

    def tokens_of(self, name: str) -> int:
        """About how many tokens the definition of a tool takes."""
        known = self._tokens.get(name)
        if known is None:
            known = self._tokens[name] = definition_tokens(self.tools[name].definition)
        return known

    def mirrored(self) -> dict[str, Any]:
        """The arguments that HTTP requests mirror into headers, by the names of tools for clients."""
        found: dict[str, Any] = {}
        for name, owned in self.tools.items():
            try:
                paths = header_paths(owned.definition.input_schema)
            except ValueError:
                continue  # a client leaves such a tool out
            if paths:
                found[name] = paths
        return found

    def shown_uri(self, server: str, uri: str) -> str:
        """The URI by which clients reach a resource of a server: its own, if that leads to this server."""
        return uri if self.owner_of(uri) == (server, uri) else self.unique_uri(server, uri)

    def unique_uri(self, server: str, uri: str) -> str:
        """The URI of a resource that names its server, where there is more than one."""
        return prefixed_uri(server, uri) if self._prefixed else uri

    def owner_of(self, uri: str) -> tuple[str, str] | None:
        """The server of a URI that a client has sent, and the URI as that server knows it; None if it is not clear."""
        owners = self.owners_of(uri)
        return owners[0] if len(owners) == 1 else None

    def owners_of(self, uri: str) -> list[tuple[str, str]]:
        """The servers that have a URI which a client has sent, each with the URI as that server knows it."""
        if not self._prefixed:
            return [(part.server, uri) for part in self._parts[:1]]
        if uri.startswith((URI_PREFIX, PAGE_PREFIX)):
            for part in self._parts:
                if (own := own_uri(part.server, uri)) is not None:
                    return [(part.server, own)]
        owners = self._owners.get(uri)
        if owners is None:
            # A server that lists a URI which the template of another matches has no better right to it.
            owners = [part.server for part in self._parts if self.has_uri(part.server, uri)]
            if uri in self._resource_owners:
                self._owners[uri] = owners
        return [(server, uri) for server in owners]

    def has_uri(self, server: str, uri: str) -> bool:
        """True if a server lists a resource or template, or has a template that matches."""
        if server in self._resource_owners.get(uri, ()) or server in self._template_owners.get(uri, ()):
            return True
        return any(template.match(uri) is not None for template in self._templates(server))

    def owners_below(self, uri: str) -> list[str]:
        """The servers that have resources below a URI, as of a folder that a client subscribes to."""
        return [
            part.server
            for part in self._parts
            if any(one.uri.startswith(uri) for one in part.offers.resources)
            or any(one.uri_template.partition("{")[0].startswith(uri) for one in part.offers.templates)
        ]

    def _templates(self, server: str) -> list[UriTemplate]:
        found = self._matchers.get(server)
        if found is None:
            found = self._matchers[server] = []
            for part in self._parts:
                for one in part.offers.templates if part.server == server else ():
                    with contextlib.suppress(ValueError):  # one that a client cannot expand either
                        found.append(UriTemplate(one.uri_template))
        return found

    def _rewrite_ui(self, server: str, definition: Tool) -> dict[str, Any] | None:
        return rewrite_ui_meta(definition.meta, lambda uri: self.shown_uri(server, uri))


def may_be_of(server: str, name: str) -> bool:
    """True if a tool or prompt of this server could have this name for clients; for some others it may be true too."""
    plain, shown = f"{server}__", tool_name(server, "x")
    start = plain if shown == f"{plain}x" else shown[:-_HASH_LENGTH].removesuffix("x")
    return name.startswith(start[: MAX_NAME - _HASH_LENGTH])


def named_server(uri: str, servers: Iterable[str]) -> str | None:
    """The server that a URI of the gateway names."""
    if not uri.startswith((URI_PREFIX, PAGE_PREFIX)):
        return None
    return next((server for server in servers if own_uri(server, uri) is not None), None)


def prefixed_uri(server: str, uri: str) -> str:
    """The URI of the gateway that names the server of a resource."""
    page = uri.removeprefix(_PAGES)
    return f"{_start_of(server)}{uri}" if page == uri else f"{_start_of_pages(server)}{page}"


def own_uri(server: str, uri: str) -> str | None:
    """The URI at a server that a URI of the gateway stands for; None for one that does not name this server."""
    if uri.startswith(start := _start_of(server)):
        return uri[len(start) :]
    return f"{_PAGES}{uri[len(start) :]}" if uri.startswith(start := _start_of_pages(server)) else None


def _start_of(server: str) -> str:
    # The key is encoded, so that it has no colon and no slash, and ends at the first.
    return f"{URI_PREFIX}{quote(server, safe='')}:"


def _start_of_pages(server: str) -> str:
    return f"{PAGE_PREFIX}{quote(server, safe='')}/"


def _owners(named: Iterable[tuple[str, Iterable[str]]]) -> dict[str, dict[str, None]]:
    owners: dict[str, dict[str, None]] = {}
    for server, uris in named:
        for uri in uris:
            owners.setdefault(uri, {})[server] = None
    return owners


def _renamed(definition: T, name: str, meta: dict[str, Any] | None) -> T:
    if definition.name == name and meta is definition.meta:
        return definition
    return msgspec.structs.replace(definition, name=name, meta=meta)
