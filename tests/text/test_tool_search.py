"""Search among tools by words."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.text.tool_search import CALL, DESCRIBE, FINDERS, MAX_FOUND, SEARCH, inner_arguments, search_tools
from dovetail.types.tools import Tool

TOOLS = [
    ("weather", Tool("forecast", {}, description="The weather of the next days in a city.")),
    ("weather", Tool("getAlerts", {}, description="Storm warnings.")),
    ("git", Tool("commit", {}, description="Record changes in a repository.")),
    ("calendar", Tool("add", {}, title="New appointment")),
]


def found(query: str) -> list[str]:
    return search_tools(query, [(tool.name, server, tool) for server, tool in TOOLS])


@pytest.mark.parametrize(
    ("query", "first"),
    [("weather forecast", "forecast"), ("ALERT", "getAlerts"), ("storm", "getAlerts"), ("appointment", "add")],
)
def test_the_tool_that_fits_best_is_first(query: str, first: str) -> None:
    assert found(query)[0] == first


def test_words_that_fit_nothing_find_nothing() -> None:
    assert found("xyzzy") == []
    assert found("") == []


def test_the_number_of_tools_that_are_found_is_limited() -> None:
    many = [(number, "s", Tool(f"storm{number}", {}, description="storm")) for number in range(100)]
    assert len(search_tools("storm", many)) == MAX_FOUND


def test_the_three_tools_have_their_names() -> None:
    assert [tool.name for tool in FINDERS] == [SEARCH, DESCRIBE, CALL]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [({"a": 1}, {"a": 1}), ('{"a": 1}', {"a": 1}), (None, {}), ("[1]", None), ("{", None), (3, None)],
)
def test_arguments_may_be_an_object_or_its_text(given: object, arguments: dict[str, Any] | None) -> None:
    assert inner_arguments(given) == arguments
