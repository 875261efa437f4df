"""Lists of a server: all pages within bounds, and without the items that cannot be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import msgspec

from dovetail.protocol.errors import InvalidAnswer, LocalError, NotFound, RemoteError
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.base import SERVERS_META
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.capabilities import ServerCapabilities
from dovetail.types.serialization import Value

MAX_PAGES = 1000
MAX_ITEMS = 50_000
MAX_LIST_BYTES = 32_000_000
MAX_WARNINGS = 10
"""Items of one page that are left out with a warning each; of the others only the number is told."""

MAX_MISSING = 1000
"""Servers behind a gateway that are remembered as missing."""

MAX_SENTENCE = 1000
"""The most characters of a sentence about one of them."""

MISSING_SERVERS_LOGGER = "dovetail.missing_servers"
"""The logger of warnings about them; `dovetail call` holds these back while they explain nothing."""

_FIELDS = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "resource template"),
}
"""By method: the field of a page that holds the items, and the word for one of them."""

Report = Callable[[str], object]


class ListLimits(msgspec.Struct, frozen=True):
    """The largest list that is taken, over all its pages."""

    max_items: int = MAX_ITEMS
    max_list_bytes: int = MAX_LIST_BYTES
    max_pages: int = MAX_PAGES

    def __post_init__(self) -> None:
        if min(self.max_items, self.max_list_bytes, self.max_pages) < 1:
            raise LocalError("max_items, max_list_bytes and the number of pages are at least 1")


class Page(Protocol):
    """One page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page."""
        ...


class MissingServers:
    """The servers behind a gateway that are missing from its lists, each reported once for each reason."""

    def __init__(self) -> None:
        self._reported: BoundedDict[str, str] = BoundedDict(MAX_MISSING)

    def unreported(self, meta: Mapping[str, Any] | None) -> list[str]:
        """The sentences about servers in the `_meta` of a list that were not reported yet.

        A server that this list no longer names is back: it is reported again if it fails once more.
        """
        if not self._reported and (not meta or SERVERS_META not in meta):
            return []
        from dovetail.protocol.bridge import missing_servers

        missing = {server[:MAX_SENTENCE]: sentence[:MAX_SENTENCE] for server, sentence in missing_servers(meta).items()}
        for server in [server for server in self._reported if server not in missing]:
            del self._reported[server]
        unreported: list[str] = []
        for server, sentence in missing.items():
            if self._reported.get(server) != sentence:
                self._reported.set_and_refresh(server, sentence)
                unreported.append(sentence)
        return unreported


async def read_pages(
    method: str, field: str, request: Callable[[dict[str, Any]], Awaitable[Page]], limits: ListLimits
) -> list[Any]:
    """The items of all pages; raises `InvalidAnswer` for a list above the limits.

    A server without this method has an empty list.
    """
    cursor: str | None = None
    seen: set[str] = set()
    items: list[Any] = []
    size = 0
    for _ in range(limits.max_pages):
        try:
            page = await request({} if cursor is None else {"cursor": cursor})
        except NotFound:
            if cursor is None:
                return items
            raise
        items += getattr(page, field)
        size += len(msgspec.json.encode(page))
        if len(items) > limits.max_items:
            raise InvalidAnswer(f"{method} gave more than max_items={limits.max_items} items; nothing of it was taken")
        if size > limits.max_list_bytes:
            most = f"max_list_bytes={limits.max_list_bytes}"
            raise InvalidAnswer(f"{method} gave more than {most} bytes; nothing of it was taken")
        cursor = page.next_cursor
        if cursor is None:
            return items
        if cursor in seen:
            raise InvalidAnswer(f"{method} led in a circle: the cursor {cursor[:80]!r} came twice")
        seen.add(cursor)
    raise InvalidAnswer(f"{method} has more than {limits.max_pages} pages; nothing of it was taken")


def offers(capabilities: ServerCapabilities, method: str) -> bool:
    """True if a server has declared that it has a list."""
    kind = "resources" if method.startswith("resources/") else method.partition("/")[0]
    return getattr(capabilities, kind) is not None


def load_result(revision: Revision, method: str, raw: Any) -> Value:
    """Load a result; raises `InvalidAnswer` if it is not valid."""
    try:
        return revision.load_result(method, raw)
    except RemoteError as problem:
        raise InvalidAnswer(problem.message) from None


def load_page(revision: Revision, method: str, raw: Any, report: Report) -> Value:
    """Load a page of a list without its invalid items: each is reported with its name and its first problem.

    One malformed tool does not hide the others. The items are loaded one by one only if the page as a whole is invalid.
    """
    try:
        return revision.load_result(method, raw)
    except RemoteError as problem:
        field, word = _FIELDS[method]
        page = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
        items = page.get(field)
        if not isinstance(items, list):
            raise InvalidAnswer(problem.message) from None
    valid: list[Any] = []
    left_out = 0
    for index, item in enumerate(cast("list[Any]", items)):
        try:
            revision.load_result(method, {**page, field: [item]})
        except RemoteError as problem:
            left_out += 1
            if left_out <= MAX_WARNINGS:
                why = problem.message.partition(": ")[2].replace(f"$.{field}[0]", "$")
                report(f"The {word} {_label(item, index)} is left out: {why}")
        else:
            valid.append(item)
    if left_out > MAX_WARNINGS:
        report(f"{left_out - MAX_WARNINGS} more items of {method} are left out: they are invalid too")
    return load_result(revision, method, {**page, field: valid})


def _label(item: Any, index: int) -> str:
    if isinstance(item, dict):
        named = cast("dict[str, Any]", item)
        for key in ("name", "uri", "uriTemplate"):
            if isinstance(named.get(key), str):
                return repr(named[key][:200])
    return f"number {index + 1}"
