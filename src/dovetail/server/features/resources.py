"""Resources and resource templates: what a client sees of one, and how it is read."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack, cast

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, LocalError, ProtocolError
from dovetail.schema.hints.conversion import return_hint
from dovetail.server.context import RequestContext
from dovetail.server.invocation import Invocation
from dovetail.server.signatures.results import data_hint
from dovetail.server.signatures.signature import BadArguments, BadResult, TextBinding, json_builtins, template_binding
from dovetail.types.base import CacheScope
from dovetail.types.capabilities import Icon
from dovetail.types.client_features import InputRequired
from dovetail.types.content import Annotations, BlobContents, TextContents
from dovetail.types.resources import ReadResourceResult, Resource, ResourceTemplate
from dovetail.uri_template.template import UriTemplate
from dovetail.wire import codec

from .invoke import run_handler

Contents = TextContents | BlobContents

_URI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|\{)[^\s\x00-\x1f\x7f]*\Z")
"""Pattern of a URI (RFC 3986, section 3) or a URI template."""


class ResourceOptions(TypedDict, total=False):
    """Options of a resource besides its function."""

    name: str
    title: str
    description: str
    mime_type: str
    size: int
    icons: Iterable[Icon]
    annotations: Annotations
    ttl: float
    """Seconds for which a client may keep what it read (2026-07-28 caching)."""
    public: bool
    """True if the contents are the same for every principal, so that caches may share them."""
    meta: dict[str, Any]


class CacheHints(msgspec.Struct, frozen=True):
    """For how long, and by whom, what was read may be kept."""

    ttl_ms: int
    scope: CacheScope


class RegisteredResource:
    """A function that gives the contents of one URI, or of all that a template matches."""

    def __init__(
        self,
        function: Callable[..., Any],
        binding: TextBinding,
        definition: Resource | ResourceTemplate,
        hints: CacheHints | None = None,
    ) -> None:
        self.function = function
        self.binding = binding
        self.definition = definition
        self.hints = hints
        self.template = UriTemplate(definition.uri_template) if isinstance(definition, ResourceTemplate) else None

    @property
    def key(self) -> str:
        """The URI, or the template of URIs, that it was registered with."""
        definition = self.definition
        return definition.uri_template if isinstance(definition, ResourceTemplate) else definition.uri

    async def read(
        self, invocation: Invocation, uri: str, variables: dict[str, Any]
    ) -> ReadResourceResult | InputRequired:
        """Run the handler; its failure is an internal error that names the problem."""
        try:
            values = self.binding.bind(variables)
        except BadArguments as problem:
            raise ProtocolError(INVALID_PARAMS, f"{uri} does not fit: {problem}", {"uri": uri}) from problem
        value = await run_handler(self.function, self.binding, values, invocation, f"Reading {uri}")
        if isinstance(value, InputRequired):
            return value
        try:
            return self._hinted(
                value if isinstance(value, ReadResourceResult) else ReadResourceResult(self._contents(value, uri))
            )
        except BadResult as problem:
            raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {problem}") from problem

    def _hinted(self, result: ReadResourceResult) -> ReadResourceResult:
        hints = self.hints
        if hints is None:
            return result
        return msgspec.structs.replace(
            result,
            ttl_ms=hints.ttl_ms if result.ttl_ms is None else result.ttl_ms,
            cache_scope=result.cache_scope or hints.scope,
        )

    def _contents(self, value: Any, uri: str) -> list[Contents]:
        if isinstance(value, Contents):
            return [value]
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if items and all(isinstance(item, Contents) for item in items):
                return items
        declared = self.definition.mime_type
        if isinstance(value, str):
            return [TextContents(uri, value, mime_type=declared or "text/plain")]
        if isinstance(value, (bytes, bytearray)):
            return [BlobContents(uri, bytes(value), mime_type=declared or "application/octet-stream")]
        text = codec.encode(json_builtins(value)).decode()
        return [TextContents(uri, text, mime_type=declared or "application/json")]


def make_resource(function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]) -> RegisteredResource:
    """Look at a function once and make it a resource, or a template where the URI has variables."""
    if unknown := options.keys() - ResourceOptions.__annotations__.keys():
        from dovetail.server.other_names import RESOURCE_OPTIONS, unknown_options

        raise LocalError(unknown_options("A resource", unknown, RESOURCE_OPTIONS, ResourceOptions.__annotations__))
    if not _URI.match(uri):
        raise LocalError(f"{uri!r} is no URI: it begins with a scheme, as in 'config://app', and has no blanks")
    try:
        variables = UriTemplate(uri).variables if "{" in uri else ()
    except ValueError as problem:
        raise LocalError(f"{uri!r} is no URI template: {problem}") from problem
    binding = template_binding(function, RequestContext, variables)
    icons = options.get("icons")
    name = options.get("name") or getattr(function, "__name__", uri)
    shared: dict[str, Any] = {
        "title": options.get("title"),
        "description": options.get("description") or binding.description,
        "mime_type": options.get("mime_type") or _data_type(function),
        "icons": list(icons) if icons else None,
        "annotations": options.get("annotations"),
        "meta": options.get("meta"),
    }
    definition = ResourceTemplate(uri, name, **shared) if variables else Resource(uri, name, **shared)
    if isinstance(definition, Resource):
        definition.size = options.get("size")
    return RegisteredResource(function, binding, definition, _hints(uri, **options))


def _data_type(function: Callable[..., Any]) -> str | None:
    """The type of the content of a function that declares to return data; None for text, bytes, and what may be any."""
    hint = return_hint(function)
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if data_hint(hint) is Any:
        return None
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    is_text = any(kind in (str, bytes, bytearray, None, types.NoneType) for kind in kinds)
    return None if is_text else "application/json"


def _hints(uri: str, **options: Unpack[ResourceOptions]) -> CacheHints | None:
    ttl, public = options.get("ttl", 0), options.get("public", False)
    if ttl < 0:
        raise LocalError(f"{uri}: what was read can be kept for some seconds, not for {ttl:g}")
    return CacheHints(round(ttl * 1000), "public" if public else "private") if ttl or public else None
