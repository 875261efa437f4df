"""An estimate of the tokens of a text, for display and for budgets."""

from __future__ import annotations

CHARACTERS = 4
"""Bytes of UTF-8 that count as one token."""


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a fourth of its bytes in UTF-8, rounded up.

    English has about four letters a token; scripts with three bytes a letter have about one token for each letter
    or somewhat less. No tokenizer is asked: each model has another one.
    """
    return -(-len(text.encode("utf-8", "replace")) // CHARACTERS)
