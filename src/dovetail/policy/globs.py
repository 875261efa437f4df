"""Patterns with `*` and `?`, matched in time that grows with pattern and text and no faster than both."""

from __future__ import annotations


def glob_matches(pattern: str, text: str) -> bool:
    """True if all of a text fits: `*` is any number of characters, `?` is one; there are no other signs.

    Only the last `*` is ever tried again, so a hostile pattern or text costs their product at most.
    """
    if pattern == "*":
        return True
    at = p = 0
    star, resume = -1, 0
    while at < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, resume = p, at
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", text[at]):
            p += 1
            at += 1
        elif star >= 0:
            resume += 1
            p, at = star + 1, resume
        else:
            return False
    return all(sign == "*" for sign in pattern[p:])
