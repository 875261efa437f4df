"""The estimate of tokens."""

import pytest

from dovetail.text.token_estimate import estimated_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("日本語", 3), ("\ud800", 1)]
)
def test_a_token_is_four_bytes(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens
