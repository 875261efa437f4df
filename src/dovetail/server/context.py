"""What a handler can do besides returning: report progress, know who asks, and ask back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dovetail.protocol.envelope import PROGRESS_TOKEN
from dovetail.protocol.errors import LocalError
from dovetail.runtime.call import Call
from dovetail.runtime.pending import OnProgress, Patience
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

if TYPE_CHECKING:
    from .app import Server


class Context:
    """The request a handler serves; declare a parameter of this type to get it."""

    __slots__ = ("_call", "server")

    def __init__(self, server: Server, call: Call) -> None:
        self.server = server
        self._call = call

    @property
    def request_id(self) -> Id:
        """The JSON-RPC id of the request."""
        return self._call.request.id

    @property
    def revision(self) -> str:
        """The protocol revision that the request is served under."""
        return self._call.terms.revision.name

    @property
    def client(self) -> Implementation | None:
        """Who the client says it is; not verified, so nothing to decide by."""
        return self._call.terms.client

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared that it can do."""
        return self._call.terms.capabilities

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` that came with the request."""
        return self._call.request.params.get("_meta") or {}

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self.server.lifespan_state

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is; it reaches the client only if it asked for it."""
        await self._call.progress(progress, total, message)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = 30,
        progress: OnProgress | None = None,
    ) -> Any:
        """Send the client a request and get the bare result; for methods of extensions, and for ping.

        Only on revisions where servers may ask directly (2026-07-28 stdio, "Receiving Messages").
        """
        if self._call.terms.revision.server_requests != "direct":
            raise LocalError(f"On revision {self.revision} a server cannot send {method} to its client")
        pending = self._call.connection.pending
        id = pending.take_id()
        body = dict(params) if params else {}
        if progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), PROGRESS_TOKEN: id}
        encoded = codec.encode(body) if body else None
        return await pending.request(method, encoded, Patience(timeout), id=id, on_progress=progress)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification; for methods of extensions."""
        if not self._call.silent:
            self._call.connection.notify(method, dict(params) if params is not None else None)
