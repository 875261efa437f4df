"""The clients of a gateway as its servers know them: whose connection it is, and the capabilities declared for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

from dovetail.protocol.bridge import capabilities_key, relayed_capabilities
from dovetail.types.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from dovetail.server.session import ServerCall, Session
    from dovetail.types.capabilities import ClientCapabilities

MAX_DECLARED = 1000
"""Clients whose capabilities are remembered as they are declared to servers."""


class Declared(NamedTuple):
    """The capabilities that are declared to servers in the name of a client, and their key."""

    capabilities: ClientCapabilities
    key: bytes


class DeclaredCapabilities:
    """The capabilities to declare for each client, worked out once for clients that send the same object again."""

    def __init__(self) -> None:
        self._known: BoundedDict[int, tuple[ClientCapabilities, Declared]] = BoundedDict(MAX_DECLARED)

    def of(self, client: ClientCapabilities) -> Declared:
        """The capabilities to declare for a client."""
        known = self._known.get(id(client))
        if known is not None and known[0] is client:
            return known[1]
        capabilities = relayed_capabilities(client)
        declared = Declared(capabilities, capabilities_key(capabilities))
        self._known[id(client)] = (client, declared)
        return declared


def owner_of(call: ServerCall) -> Hashable:
    """The client of a call, which has connections of its own to servers that keep state for each connection.

    In the handshake era that is a session, in the envelope era, which has none, a principal or an address.
    """
    if call.terms.revision.era == "handshake" and call.session.keeps_state:
        return session_owner(call.session)
    return ("client", call.client_key)


def known_client(call: ServerCall) -> Hashable | None:
    """The client of a call, for what no other client may see; None where several may have its address."""
    if call.connection is not None or (call.terms.revision.era == "handshake" and call.session.keeps_state):
        return session_owner(call.session)
    return call.terms.principal


def session_owner(session: Session) -> Hashable:
    """The owner of connections for a session."""
    # The object itself, not its `id()`, which another session may have when this one is gone.
    return ("session", session if session.id is None else session.id)
