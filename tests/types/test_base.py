"""What params and results have in common."""

from dovetail.types.base import CacheableResult, EmptyParams, PageParams, PageResult, Result, RetriedParams
from dovetail.types.serialization import dump, load


def test_empty_ones_are_empty_objects() -> None:
    assert dump(EmptyParams()) == dump(Result()) == dump(PageParams()) == dump(RetriedParams()) == {}


def test_base_types_have_their_wire_names() -> None:
    page = PageResult(next_cursor="c", ttl_ms=5, cache_scope="public", result_type="complete")
    plain = {"nextCursor": "c", "ttlMs": 5, "cacheScope": "public", "resultType": "complete"}
    assert dump(page) == plain
    assert load(PageResult, plain) == page
    assert isinstance(page, CacheableResult)


def test_answers_of_a_retry_stay_plain_objects() -> None:
    params = load(RetriedParams, {"inputResponses": {"q": {"action": "accept"}}, "requestState": "s"})
    assert params.input_responses == {"q": {"action": "accept"}}
    assert params.request_state == "s"
