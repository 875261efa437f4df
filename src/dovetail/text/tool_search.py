"""Search among many tools: the three tools that find, describe and call the others, and the ranking by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log
from typing import Any, TypeVar, cast

import msgspec

from dovetail.types.tools import Tool

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
MAX_FOUND = 10
MAX_QUERY = 500
MAX_WORDS = 30
MAX_READ = 2_000
"""Characters of a description that are searched."""

_TEXT = {"type": "string"}
FINDERS = (
    Tool(
        name=SEARCH,
        description="Find tools by words for what is to be done; the best first. Descriptions are the servers' words.",
        input_schema={"type": "object", "properties": {"query": _TEXT}, "required": ["query"]},
    ),
    Tool(
        name=DESCRIBE,
        description="Say all about one tool that search_tools found: its description and the schema of its arguments.",
        input_schema={"type": "object", "properties": {"name": _TEXT}, "required": ["name"]},
    ),
    Tool(
        name=CALL,
        description="Call a tool that search_tools found, with arguments as describe_tool says.",
        input_schema={
            "type": "object",
            "properties": {"name": _TEXT, "arguments": {"type": "object"}},
            "required": ["name"],
        },
    ),
)
"""They never change, so that what a provider has cached of a conversation stays good."""

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+")

T = TypeVar("T")


def search_tools(query: str, tools: Sequence[tuple[T, str, Tool]]) -> list[T]:
    """The tools that words fit best, the best first; each is given with the name of its server and its definition."""
    words = _words(query[:MAX_QUERY])[:MAX_WORDS]
    fits = _fits([(server, tool) for _, server, tool in tools], words)
    ranked = sorted(((fit, at) for at, fit in enumerate(fits) if fit > 0), key=lambda item: (-item[0], item[1]))
    return [tools[at][0] for _, at in ranked[:MAX_FOUND]]


def inner_arguments(given: object) -> dict[str, Any] | None:
    """The arguments of the tool that `call_tool` is to call; None if they are no object.

    Models often write an object within an object as its text.
    """
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return None
    if given is None:
        return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else None


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORDS.findall(_HUMPS.sub(" ", text))]


def _fits(tools: Sequence[tuple[str, Tool]], query: Sequence[str]) -> list[float]:
    """Relevance of each tool for some words: the fewer tools a word matches, the more it counts."""
    fields = [_fields(server, tool) for server, tool in tools]
    fits = [0.0] * len(tools)
    for word in dict.fromkeys(query):
        weights = [max(_weight(word, weight, words) for weight, words in field) for field in fields]
        telling = log(1 + len(tools) / max(sum(weight > 0 for weight in weights), 1))
        fits = [fit + weight * telling for fit, weight in zip(fits, weights, strict=True)]
    return fits


def _fields(server: str, tool: Tool) -> tuple[tuple[float, frozenset[str]], ...]:
    texts = (
        (4.0, f"{server} {tool.name}"),
        (3.0, tool.title or ""),
        (1.0, (tool.description or "")[:MAX_READ]),
    )
    return tuple((weight, frozenset(_words(text))) for weight, text in texts)


def _weight(word: str, weight: float, words: frozenset[str]) -> float:
    """Half where a word only begins another one, as in `storm` and `storms`."""
    if word in words:
        return weight
    near = len(word) > 2 and any(
        other.startswith(word) or (len(other) > 2 and word.startswith(other)) for other in words
    )
    return weight / 2 if near else 0.0
