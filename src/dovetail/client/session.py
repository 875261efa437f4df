"""Client's side of one connection: serves the server's requests and distributes its notifications."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.protocol.envelope import meta_of
from dovetail.protocol.errors import METHOD_NOT_FOUND, REJECTED, ProtocolError, Refused
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions import NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS, TokenBucket, rate_limit_error
from dovetail.runtime.serve import Outcome, Work
from dovetail.transports.base import MessageSink
from dovetail.types.base import Result
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.client_features import CreateMessageParams, ElicitParams
from dovetail.types.serialization import Value
from dovetail.types.tasks import RELATED_TASK
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .server_requests import RequestHandlers
from .url_elicitation import RequiredUrlElicitations

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Chain

    from .tasks.received_tasks import ReceivedTasks

_REJECTIONS = {
    "sampling/createMessage": "User rejected sampling request",
    "roots/list": "User rejected roots request",
}

MAX_OPEN_REQUESTS = 64
REQUESTS_PER_SECOND = 10.0
REQUEST_BURST = 100
"""Requests of a server, such as elicitations, that are answered at once, and how often; others get an error."""

NotificationCallback = Callable[[str, dict[str, Any]], None]


class SessionOwner(Protocol):
    """The client that a session belongs to, which handlers of extensions get as their context."""

    middleware: Chain | None


class ClientSession:
    """The service of a client's connection, which serves requests where the revision lets servers send any."""

    def __init__(
        self,
        client: SessionOwner,
        extensions: Extensions,
        on_lost: Callable[[], None],
        handlers: RequestHandlers | None = None,
    ) -> None:
        self._client = client
        self._extensions = extensions
        self._handlers = handlers or RequestHandlers()
        self._on_lost = on_lost
        self.revision: Revision = NEWEST_HANDSHAKE
        self.server: Implementation | None = None
        self._agreed = False
        self._open_requests = 0
        self._received: ReceivedTasks | None = None
        self._request_rate = TokenBucket(REQUESTS_PER_SECOND, REQUEST_BURST)
        self.capabilities = ClientCapabilities()
        self.url_elicitations = RequiredUrlElicitations(self._handlers)
        self.notification_callbacks: set[NotificationCallback] = {self.url_elicitations.notified}
        """Functions that are called with every notification."""
        self.interruption_callbacks: set[Callable[[], None]] = set()
        """Functions that are called when notifications may have been lost, over HTTP."""
        self.subscriptions: Counter[str] = Counter()
        """By URI: how many watchers share the subscription to a resource."""

    def agree(self, revision: Revision, server: Implementation | None) -> None:
        """Use the revision that both sides have agreed on, and the name that the server gives itself."""
        self.revision = revision
        self.server = server
        self._agreed = True

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`."""
        return self.revision.null_id

    @property
    def batching(self) -> bool:
        """True if the agreed revision has batches."""
        return self.revision.batching

    def answers_invalid(self, id: Id | None) -> bool:
        """True if an invalid message is answered: not what a server prints, and nothing where answers are forbidden.

        2026-07-28 stdio, "Sending Messages": the client must not write responses.
        """
        return id is not None and self.revision.server_requests == "direct"

    @property
    def waits_for_reader(self) -> bool:
        """A client does not wait: its server may be waiting for it in the same way."""
        return False

    def admit(self, request: Request, sink: MessageSink, connection: Connection, terms: Terms | None) -> Call:
        """Serve a request under the terms of the connection."""
        return Call(request, Terms(self.revision, None, self.capabilities), sink, connection)

    def dispatch(self, call: Call) -> Outcome:
        """Serve a request of the server; on the envelope era there must be none, and no answer."""
        if self.revision.server_requests != "direct":
            return None
        chain = self._client.middleware
        if chain is None or not chain.wraps(call.request.method):
            return self._dispatch(call)
        from dovetail.runtime.middleware import pass_in

        return pass_in(chain, "client", self.server, call, self._dispatch)

    def _dispatch(self, call: Call) -> Outcome:
        revision, method = self.revision, call.request.method
        if method == "ping":
            return codec.encode(revision.emit_result("ping", Result()))
        if self._agreed and self._handlers.can_handle(method, revision):
            return self._handle(call, revision.accept("server", method, call.request.params))
        if revision.tasks == "core" and method in revision.methods and method.startswith("tasks/"):
            revision.accept("server", method, call.request.params)
            return self._received_tasks(call).dispatch(call, call.request.params)
        if (extension := self._extensions.requests.get(method)) is not None:
            _, handler = extension

            async def work() -> bytes:
                return codec.encode(await handler(call.request.params, self._client))

            return work
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _handle(self, call: Call, params: Value) -> bytes | Work:
        """The work of a handler that the caller gave; request timeouts are paused meanwhile.

        A server that asks too often, or too much at once, gets an error: a user cannot answer a flood of questions.
        """
        assert call.connection is not None
        method, pending = call.request.method, call.connection.pending
        if wait := self._request_rate.take(asyncio.get_running_loop().time()):
            raise rate_limit_error("requests to the client", wait)

        async def answer() -> dict[str, Any]:
            if self._open_requests >= MAX_OPEN_REQUESTS:
                why = f"Too many requests to the client are open; at most {MAX_OPEN_REQUESTS} are answered at once"
                raise ProtocolError(TOO_MANY_REQUESTS, why)
            self._open_requests += 1
            pending.pause()
            try:
                result = await self._handlers.handle(method, params, self.revision, self.server)
            except Refused:
                raise ProtocolError(REJECTED, _REJECTIONS[method]) from None
            finally:
                self._open_requests -= 1
                pending.resume()
            return self.revision.emit_result(method, result)

        if self.revision.tasks == "core":
            if isinstance(params, (CreateMessageParams, ElicitParams)) and params.task is not None:
                return self._received_tasks(call).create(call, answer, params.task)
            if (related := (meta_of(call.request.params) or {}).get(RELATED_TASK)) is not None:
                return lambda: _encode_related(answer(), related)

        async def work() -> bytes:
            return codec.encode(await answer())

        return work

    def _received_tasks(self, call: Call) -> ReceivedTasks:
        """The tasks that the server has asked for; made for the first of them."""
        if self._received is None:
            from .tasks.received_tasks import ReceivedTasks

            assert call.connection is not None
            self._received = ReceivedTasks(call.connection.notify)
        return self._received

    def close_tasks(self) -> None:
        """Stop the tasks that the server has asked for: it cannot fetch their results any more."""
        if self._received is not None:
            self._received.close()

    def notified(self, notification: Notification) -> None:
        """Pass a notification to its extension and to all callbacks."""
        if (handler := self._extensions.notifications.get(notification.method)) is not None:
            handler(notification.params)
        for callback in list(self.notification_callbacks):
            callback(notification.method, notification.params)

    def interrupted(self) -> None:
        """Notifications may have been lost, while the connection goes on."""
        for callback in list(self.interruption_callbacks):
            callback()

    def disconnected(self, reason: str | None) -> None:
        """The connection is lost."""
        self.close_tasks()
        self._on_lost()


async def _encode_related(answer: Awaitable[dict[str, Any]], related: Any) -> bytes:
    """The answer to a question of a task, which belongs to that task (2025-11-25 tasks, "Related Task Metadata")."""
    result = await answer
    return codec.encode({**result, "_meta": {**(result.get("_meta") or {}), RELATED_TASK: related}})
