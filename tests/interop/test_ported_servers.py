"""Published servers, migrated with `dovetail migrate` and a few edits by hand, answer as the originals do."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from dovetail import Client
from dovetail.testing.interface_reader import interface
from tests.interop.ported_servers import SERVERS, PortedServer, port

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LINES = {
    "mcp_server_calculator": ((2, 2), (0, 0)),
    "mcp_server_sqlite": ((58, 74), (0, 0)),
    "mcp_server_time": ((17, 14), (26, 0)),
    "mcp_server_motherduck": ((21, 19), (0, 0)),
}
"""Lines removed and added: by machine, and by hand."""


DIFFERING = ("title", "additionalProperties", "outputSchema", "_meta", "capabilities")
"""Parts that differ: generated titles, unknown arguments, titles in output schemas, tags of FastMCP, `listChanged`."""


def comparable(value: Any) -> Any:
    """A definition without what differs; lists of nothing, and white space, make no difference."""
    if isinstance(value, dict):
        items = {key: comparable(item) for key, item in cast("dict[str, Any]", value).items() if key not in DIFFERING}
        return {key: item for key, item in items.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [comparable(item) for item in cast("list[Any]", value)]
    return " ".join(value.split()) if isinstance(value, str) else value


def plain(text: str) -> Any:
    """A text of a result: JSON as its value, and an error without what the libraries write before it."""
    try:
        return json.loads(text)
    except ValueError:
        return re.sub(r"\A(Error (executing|calling) tool '?\w+'?|ValueError): ", "", text)


async def answers(server: PortedServer, command: list[str]) -> tuple[Any, list[tuple[bool, Any]]]:
    async with Client(command, timeout=60, on_stderr=lambda line: None) as client:
        offered = comparable(await interface(client))
        results = [await client.call(name, arguments, check=False) for name, arguments in server.calls]
        return offered, [(bool(result.is_error), plain(result.text)) for result in results]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.package)
async def test_a_migrated_server_answers_as_the_original(server: PortedServer, tmp_path: Path) -> None:
    ported = port(server, tmp_path)
    assert await answers(server, ported.after) == await answers(server, ported.before)
    assert (ported.by_machine, ported.by_hand) == LINES[server.package]
