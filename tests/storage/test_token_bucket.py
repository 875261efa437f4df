"""The arithmetic of a token bucket, with values only."""

import pytest

from dovetail.storage.token_bucket import take


@pytest.mark.parametrize(
    ("full_at", "tokens", "expected"),
    [
        pytest.param(0.0, 1, (100.5, 0.0), id="a full bucket of 4 gives one, and is full again in half a second"),
        pytest.param(100.0, 4, (102.0, 0.0), id="a full bucket gives all"),
        pytest.param(101.0, 2, (102.0, 0.0), id="half full gives half"),
        pytest.param(101.0, 3, (101.0, 0.5), id="half full does not give more, and one token takes half a second"),
        pytest.param(102.0, 1, (102.0, 0.5), id="an empty one gives nothing"),
        pytest.param(102.0, 0, (102.0, 0.0), id="nothing can always be taken"),
        pytest.param(0.0, 5, (0.0, float("inf")), id="more than its size is never there"),
    ],
)
def test_a_bucket_is_known_by_the_time_at_which_it_is_full(
    full_at: float, tokens: float, expected: tuple[float, float]
) -> None:
    assert take(full_at, 100.0, 2.0, 4.0, tokens) == expected


def test_over_a_long_time_a_bucket_gives_its_rate() -> None:
    full_at, now, given = 0.0, 1_000_000.0, 0
    for _ in range(1000):
        full_at, wait = take(full_at, now, 3.0, 5.0, 1.0)
        given += not wait
        now += 0.1
    assert given == 5 + 299
