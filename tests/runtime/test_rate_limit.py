"""How often something may happen, by a clock that the test holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import LocalError
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS, TokenBucket, TokenBuckets, rate_limit_error


class TestBucket:
    def test_the_burst_passes_and_then_the_rate(self):
        bucket = TokenBucket(rate=2, burst=3)
        assert [bucket.take(10.0) for _ in range(3)] == [0, 0, 0]
        assert bucket.take(10.0) == pytest.approx(0.5)
        assert bucket.take(10.25) == pytest.approx(0.25)
        assert bucket.take(10.5) == 0
        assert bucket.take(10.5) == pytest.approx(0.5)

    def test_a_bucket_fills_up_to_the_burst_and_no_further(self):
        bucket = TokenBucket(rate=100, burst=2)
        assert [bucket.take(0.0) for _ in range(2)] == [0, 0]
        assert [bucket.take(1000.0) > 0 for _ in range(3)] == [False, False, True]

    def test_a_clock_that_goes_back_gives_nothing(self):
        bucket = TokenBucket(rate=1, burst=1)
        assert bucket.take(100.0) == 0
        assert bucket.take(50.0) == 1
        assert bucket.take(100.0) == 1

    @given(st.lists(st.floats(0, 5), max_size=200), st.floats(0.5, 20), st.integers(1, 10))
    def test_a_bucket_never_gives_more_than_burst_and_rate_allow(self, steps: list[float], rate: float, burst: int):
        bucket, now, taken = TokenBucket(rate, burst), 0.0, 0
        for step in steps:
            now += step
            taken += bucket.take(now) == 0
        assert taken <= burst + now * rate + 1e-6

    @pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0), (1, 0.5), (float("nan"), 1)])
    def test_a_limit_that_lets_nothing_pass_is_refused(self, rate: float, burst: float):
        with pytest.raises(LocalError, match="A rate limit needs"):
            TokenBucket(rate, burst)
        with pytest.raises(LocalError):
            TokenBuckets(rate, burst)


class TestBuckets:
    def test_each_key_counts_by_itself(self):
        buckets = TokenBuckets(rate=1, burst=1)
        assert buckets.take("a", 0.0) == 0
        assert buckets.take("a", 0.0) == 1
        assert buckets.take(None, 0.0) == 0

    def test_the_longest_unused_is_forgotten(self):
        buckets = TokenBuckets(rate=0.001, burst=1, most=2)
        for key in ("a", "b", "a", "c"):
            buckets.take(key, 0.0)
        assert len(buckets) == 2
        assert buckets.take("a", 0.0) > 0
        assert buckets.take("b", 0.0) == 0


def test_the_error_says_when_to_come_again():
    error = rate_limit_error("questions", 0.25)
    assert (error.code, error.data) == (TOO_MANY_REQUESTS, {"retryAfterMs": 250})
    assert error.message == "Too many questions; try again in 250 ms"
    assert rate_limit_error("questions", 0.0).data == {"retryAfterMs": 1}
