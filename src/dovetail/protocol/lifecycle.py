"""When a server may be asked what: initialize first, then anything; or terms with each request.

A dual-era server chooses by how the client opens, and may serve both eras on one connection
(versioning, "Backward Compatibility with Initialization-Based Versions").
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.types.capabilities import ClientCapabilities
from dovetail.types.messages import InitializeParams
from dovetail.wire.jsonrpc import Request

from .envelope import VERSION, EnvelopeReader, meta_of, unsupported
from .errors import INVALID_PARAMS, ProtocolError
from .revisions.revision import Revision
from .terms import Terms


class ServerLifecycle:
    """One connection's place in the lifecycle, seen from the server."""

    def __init__(self, served: Mapping[str, Revision]) -> None:
        self._served = served
        self._handshake = [revision for revision in served.values() if revision.era == "handshake"]
        self._envelope = EnvelopeReader(served)
        self.terms: Terms | None = None
        """The terms of the handshake, once there was one."""
        self.ready = False
        """The client has confirmed the handshake: the server may speak first from now on."""

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`, judged by the last terms there were."""
        terms = self.terms or self._envelope.last
        if terms is not None:
            return terms.revision.null_id
        return next(iter(self._served.values())).null_id

    def terms_for(self, request: Request) -> Terms:
        """The terms this request is served under, or the error that it gets."""
        meta = meta_of(request.params)
        if meta is not None and VERSION in meta:
            return self._envelope.terms(meta)
        if self.terms is not None:
            return self.terms
        if request.method in _BEFORE_INITIALIZE and self._handshake:
            return Terms(self._handshake[-1], None, ClientCapabilities())
        if request.method == "initialize":
            raise unsupported(str(request.params.get("protocolVersion")), self._served)
        raise ProtocolError(
            INVALID_PARAMS,
            f"{request.method!r} came before initialize, and its _meta has no {VERSION}",
        )

    def initialize(self, params: InitializeParams) -> Revision:
        """Agree on a revision: the one asked for, else the newest there is (lifecycle, "Version Negotiation").

        A second handshake replaces the first: a gateway that shares one process among its clients passes on the
        handshake of each. Requests that were admitted before keep their terms.
        """
        wanted = self._served.get(params.protocol_version)
        revision = wanted if wanted is not None and wanted in self._handshake else self._handshake[-1]
        self.terms = Terms(revision, params.client_info, params.capabilities)
        self.ready = False
        return revision

    def restore(self, terms: Terms, *, ready: bool) -> None:
        """Take up a handshake that was made before."""
        self.terms = terms
        self.ready = ready

    def initialized(self) -> None:
        """The client's `notifications/initialized` arrived."""
        self.ready = self.terms is not None


_BEFORE_INITIALIZE = frozenset({"initialize", "ping"})
