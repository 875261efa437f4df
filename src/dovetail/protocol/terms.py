"""Terms: the revision, client, capabilities and principal that a request is served under."""

from __future__ import annotations

import msgspec

from dovetail.types.capabilities import ClientCapabilities, Implementation

from .revisions.revision import Revision


class Terms(msgspec.Struct, frozen=True):
    """The terms a request is served under.

    On the handshake era they are the connection's, on the envelope era each request brings its own.
    """

    revision: Revision
    client: Implementation | None
    capabilities: ClientCapabilities
    log_level: str | None = None
    principal: str | None = None
    """The authenticated caller; None where there is no authentication."""
    scopes: frozenset[str] | None = None
    """The scopes of the caller's token; None where there is no authorization."""
