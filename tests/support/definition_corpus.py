"""Definitions of real servers, and which of them the inspection would hold back.

They are collected from running servers: the descriptions are other people's, and none of them are kept in this
repository.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail import Client
from dovetail.policy.definitions import Definition, define_all
from dovetail.policy.inspection.inspector import Inspector

MOST_FALSE_ALARMS = 1 / 500
"""Of harmless definitions: whoever is asked about harmless things says yes to the others too."""


async def definitions_of(client: Client) -> list[Definition]:
    """Everything that a server declares."""
    has = client.capabilities
    values = [
        *(await client.tools() if has.tools else []),
        *(await client.prompts() if has.prompts else []),
        *(await client.resource_templates() if has.resources else []),
    ]
    return define_all(values, client.instructions)


async def collect(servers: Mapping[str, Any]) -> dict[str, list[Definition]]:
    """The definitions of servers, by the name that each is given here."""
    found: dict[str, list[Definition]] = {}
    for key, target in servers.items():
        async with Client(target, timeout=50) as client:
            found[key] = await definitions_of(client)
    return found


def held_back(corpus: Mapping[str, Sequence[Definition]]) -> dict[tuple[str, str], list[str]]:
    """The concerns about each definition that a host with all these servers would hold back, by server and name."""
    names = {key: [each.name for each in known if each.kind == "tool"] for key, known in corpus.items()}
    held: dict[tuple[str, str], list[str]] = {}
    for key, known in corpus.items():
        inspector = Inspector(key, names)
        for definition in known:
            if concerns := inspector.definition(definition):
                held[key, str(definition)] = [str(concern) for concern in concerns]
    return held
