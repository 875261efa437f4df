"""Definitions of all servers together, given to the inspection as a host with all of them would."""

from dovetail.policy.definitions import Definition
from tests.support.definition_corpus import MOST_FALSE_ALARMS, held_back

from .results import load
from .servers import SERVERS


def inspect() -> tuple[str, list[str]]:
    """A sentence for the page, and the problems: more definitions held back than are acceptable."""
    corpus: dict[str, list[Definition]] = {}
    for server in SERVERS:
        result = load("servers", server.slug)
        saved = [item for visit in result.visits for item in visit.facts.get("definitions", [])] if result else []
        if saved:
            corpus[server.slug] = [Definition(*item) for item in saved]
    total = sum(map(len, corpus.values()))
    held = held_back(corpus)
    sentence = (
        f"\nA host with all servers together would hold back {len(held)} of their {total} definitions"
        f" ({len(corpus)} servers).\n"
    )
    if len(held) <= MOST_FALSE_ALARMS * total:
        return sentence, []
    return sentence, [f"{server}: {what} is held back: {'; '.join(why)}" for (server, what), why in held.items()]
