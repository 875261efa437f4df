"""Base types of params and results: paging, caching, retries of multi round-trip requests."""

from typing import Any, Literal

from .serialization import Value

CacheScope = Literal["public", "private"]


SERVERS_META = "dovetail/servers"
"""Key in the `_meta` of a list of a gateway: the servers whose part is missing or old, and why."""


class EmptyParams(Value):
    """Params that hold nothing but `_meta`."""


class PageParams(Value):
    """Params of a request for one page of a list."""

    cursor: str | None = None


class Result(Value, kw_only=True):
    """The result of a request; by itself an empty one.

    Absent, `result_type` means "complete" (2026-07-28 basic, "ResultType").
    """

    result_type: str | None = None


class CacheableResult(Result, kw_only=True):
    """A result that may be cached: for how long, and whether by shared caches (2026-07-28 server/utilities/caching)."""

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PageResult(CacheableResult, kw_only=True):
    """One page of a list; `next_cursor` requests the next one."""

    next_cursor: str | None = None


class RetriedParams(Value, kw_only=True):
    """Params of a request that the server may answer with `input_required`; the client then retries it with the input.

    The input responses are plain objects: the type of each follows from its input request (2026-07-28
    basic/patterns/mrtr).
    """

    input_responses: dict[str, Any] | None = None
    request_state: str | None = None
