"""What both sides of a request have agreed on: revision, who asks, and what they can do."""

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
    """Who is asking, where the transport has made sure of it."""
    scopes: frozenset[str] | None = None
    """What the token of this request allows; None where there is no authorization, and so nothing to ask for."""
