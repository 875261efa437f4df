"""Encoded pages of lists: each is built once a revision and cached until the list changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions.revision import Revision
from dovetail.server.registry import Registry
from dovetail.types.base import PageResult
from dovetail.types.prompts import ListPromptsResult
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult
from dovetail.types.serialization import Value, dump
from dovetail.types.tools import ListToolsResult
from dovetail.wire import codec

MAX_PARTS = 256
"""First pages kept for tokens that allow only some of a list."""

LISTS: dict[str, Callable[[list[Any]], PageResult]] = {
    "tools/list": ListToolsResult,
    "resources/list": ListResourcesResult,
    "resources/templates/list": ListResourceTemplatesResult,
    "prompts/list": ListPromptsResult,
}
"""The lists by method, and their results."""

LISTED: dict[str, Literal["tool", "resource", "prompt"]] = {
    "tools/list": "tool",
    "resources/list": "resource",
    "resources/templates/list": "resource",
    "prompts/list": "prompt",
}
"""The kind of item in each of them."""

EmitResult = Callable[[Revision, str, Value], dict[str, Any]]


class ListPages:
    """The pages of one list."""

    def __init__(
        self,
        method: str,
        registry: Registry[Any],
        result: Callable[[list[Any]], PageResult],
        pager: Pager,
        ttl_ms: int = 0,
    ) -> None:
        self._method = method
        self._registry = registry
        self._result = result
        self._pager = pager
        self._ttl_ms = ttl_ms
        self._pages: dict[tuple[str, int], bytes] = {}
        self._parts: dict[tuple[frozenset[str], str], bytes] = {}

    def __len__(self) -> int:
        return len(self._registry)

    def clear(self) -> None:
        """The list has changed: build its pages again when they are requested."""
        self._pages = {}
        self._parts = {}

    def page(self, revision: Revision, cursor: str | None, size: int, emit_result: EmitResult) -> bytes:
        """One page as JSON bytes of the whole result; a bad cursor is −32602 (pagination)."""
        # Handlers in threads may change the list meanwhile: then this dict is no longer the one in use.
        pages = self._pages
        if cursor is None and (page := pages.get((revision.name, 0))) is not None:
            return page
        registered = self._registry.items()
        part, following = self._pager.page(self._method, [key for key, _ in registered], cursor, size)
        # By position, not by cursor: one place can be named by many strings.
        place = (revision.name, part.start)
        page = pages.get(place)
        if page is None:
            result = self._result([item.definition for _, item in registered[part]])
            result.next_cursor, result.ttl_ms, result.cache_scope = following, self._ttl_ms, "public"
            page = pages[place] = codec.encode(emit_result(revision, self._method, result))
        return page

    def page_within(
        self, scopes: frozenset[str], revision: Revision, cursor: str | None, size: int, emit_result: EmitResult
    ) -> bytes:
        """One page of what a token of these scopes allows; it is kept for others whose tokens allow just the same."""
        parts, registered = self._parts, self._registry.items()
        wanted = frozenset[str]().union(*(item.scopes for _, item in registered))
        if not wanted:
            return self.page(revision, cursor, size, emit_result)
        had = wanted & scopes
        kept = (had, revision.name)
        page = parts.get(kept) if cursor is None else None
        if page is None:
            allowed = [(key, item) for key, item in registered if had.issuperset(item.scopes)]
            page = self._part(allowed, revision, cursor, size, emit_result)
            if cursor is None and len(parts) < MAX_PARTS:
                parts[kept] = page
        return page

    def page_of(
        self, shown: Callable[[str], bool], revision: Revision, cursor: str | None, size: int, emit_result: EmitResult
    ) -> bytes:
        """One page of what somebody may see; nobody else may be given it (2026-07-28 caching, "Cache Scope")."""
        registered = [(key, item) for key, item in self._registry.items() if shown(key)]
        return self._part(registered, revision, cursor, size, emit_result)

    def _part(
        self,
        registered: list[tuple[str, Any]],
        revision: Revision,
        cursor: str | None,
        size: int,
        emit_result: EmitResult,
    ) -> bytes:
        part, following = self._pager.page(self._method, [key for key, _ in registered], cursor, size)
        result = self._result([item.definition for _, item in registered[part]])
        result.next_cursor, result.ttl_ms, result.cache_scope = following, self._ttl_ms, "private"
        return codec.encode(emit_result(revision, self._method, result))


def digest_of_lists(registries: Iterable[Registry[Any]]) -> str:
    """A digest of the names and definitions in some lists."""
    from hashlib import blake2b

    content = [[key, dump(item.definition)] for registry in registries for key, item in registry.items()]
    return blake2b(codec.encode(content), digest_size=16).hexdigest()
