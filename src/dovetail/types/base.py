"""What params and results have in common."""

from typing import Any, Literal

from .serialization import Value

CacheScope = Literal["public", "private"]


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
    """A result that says for how long, and by whom, it may be kept (2026-07-28 server/utilities/caching)."""

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PageResult(CacheableResult, kw_only=True):
    """One page of a list; `next_cursor` leads to the next."""

    next_cursor: str | None = None


class RetriedParams(Value, kw_only=True):
    """Params of a request that the server may answer with questions, and that then comes again with answers.

    The answers are plain objects: which result each of them is follows from the question (2026-07-28
    basic/patterns/mrtr).
    """

    input_responses: dict[str, Any] | None = None
    request_state: str | None = None
