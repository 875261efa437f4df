r"""Limits of the regular expressions in a JSON Schema: their number, their length, and the size they compile to.

A pattern of ten characters can compile to megabytes: `\p{L}{195}` takes 10 MB. The limits hold for a schema as a
whole, so that many small patterns cannot do what one large pattern may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from dovetail.types.errors import LocalError

MAX_PATTERNS = 100
"""Different patterns in a schema."""

MAX_PATTERN_CHARACTERS = 10_000
"""Characters of all patterns together."""

MAX_TRANSLATION_WORK = 500_000
"""Class escapes times characters, over all patterns: the engine reads a pattern again for each escape."""

MAX_COMPILED_BYTES = 8_000_000
"""Bytes that all patterns of a schema may compile to; each gets an equal share."""

MAX_COMPILED_BYTES_EACH = 2_000_000

_CLASS_ESCAPE = re.compile(r"\\[wWdDsS]")


def compiled_size_limit(schema: dict[str, Any]) -> int:
    """The bytes that each pattern of a schema may compile to.

    Raises LocalError for a schema with too many patterns, or patterns that are too long.
    """
    patterns = set(_patterns(schema))
    if len(patterns) > MAX_PATTERNS:
        raise LocalError(f"the schema has {len(patterns)} different patterns; at most {MAX_PATTERNS} are allowed")
    characters = sum(map(len, patterns))
    if characters > MAX_PATTERN_CHARACTERS:
        raise LocalError(
            f"the patterns of the schema have {characters} characters; at most {MAX_PATTERN_CHARACTERS} are allowed"
        )
    work = sum(len(pattern) * len(_CLASS_ESCAPE.findall(pattern)) for pattern in patterns)
    if work > MAX_TRANSLATION_WORK:
        raise LocalError(
            "the patterns of the schema are too long for the number of escapes such as \\w in them: characters times "
            f"escapes are {work}; at most {MAX_TRANSLATION_WORK} are allowed"
        )
    return min(MAX_COMPILED_BYTES // max(len(patterns), 1), MAX_COMPILED_BYTES_EACH)


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    """All patterns, and other texts in places where a pattern could be."""
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            fields = cast("dict[str, Any]", node)
            if isinstance(fields.get("pattern"), str):
                yield fields["pattern"]
            if isinstance(fields.get("patternProperties"), dict):
                yield from cast("dict[str, Any]", fields["patternProperties"])
            stack.extend(fields.values())
        elif isinstance(node, list):
            stack.extend(cast("list[Any]", node))
