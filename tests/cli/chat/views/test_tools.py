"""Finding a tool that the person names."""

import pytest

from dovetail.cli.chat.views.tools import find_tool
from dovetail.cli.parser import UsageError
from dovetail.host.catalogue import HostTool, tool_name
from dovetail.types.tools import Tool


def offered(server: str, name: str) -> HostTool:
    return HostTool(name=tool_name(server, name), server=server, tool=Tool(name, {"type": "object"}))


TOOLS = [offered("desk", "add"), offered("desk", "book"), offered("shop", "add")]


@pytest.mark.parametrize("word", ["desk__book", "book"])
def test_a_tool_is_found_by_either_of_its_names(word: str) -> None:
    assert find_tool(TOOLS, word) is TOOLS[1]


def test_a_name_that_two_servers_have() -> None:
    with pytest.raises(UsageError, match="there are several: desk__add, shop__add"):
        find_tool(TOOLS, "add")


@pytest.mark.parametrize("word", ["bok", "desk__bok"])
def test_a_name_with_a_slip(word: str) -> None:
    with pytest.raises(UsageError, match="did you mean desk__book"):
        find_tool(TOOLS, word)


def test_an_unknown_tool_name_is_an_error() -> None:
    with pytest.raises(UsageError, match="/tools lists them"):
        find_tool([], "add")
