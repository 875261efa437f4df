"""The call that a handler of a task serves: its request has been answered, and its reports change the record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.protocol.envelope import PROGRESS_TOKEN
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.tasks import TaskRecord, related
from dovetail.protocol.terms import Terms
from dovetail.server.session import ServerCall, Session, SessionServer
from dovetail.transports.base import MessageSink
from dovetail.wire.jsonrpc import Request


class NoSink:
    """The destination of messages that reach nobody."""

    congested = False
    no_requests: str | None = None

    def send(self, line: bytes) -> None:
        """Drop a message."""

    def finish(self, line: bytes | None) -> None:
        """End without an answer."""

    def disconnect(self, retry: float) -> None:
        """There is no connection."""

    async def drained(self) -> None:
        """Nothing waits."""


class TaskCall(ServerCall):
    """The request that a task was created by, for the handler that runs it now.

    Messages for the client go to the session that created the task, where that is connected to this process and its
    revision allows them (2025-11-25, "Associating Task-Related Messages"); the extension has none but the status.
    """

    __slots__ = ("_related", "_report")

    def __init__(
        self,
        server: SessionServer,
        record: TaskRecord,
        report: Callable[[str], Awaitable[None]],
        origin: ServerCall | None = None,
    ) -> None:
        revision = REVISIONS[record.revision]
        scopes = None if record.scopes is None else frozenset(record.scopes)
        terms = Terms(revision, record.client, record.capabilities, principal=record.principal, scopes=scopes)
        params = {"name": record.tool, "arguments": record.arguments, "_meta": record.meta}
        sink: MessageSink = NoSink()
        session: Session | Callable[[], Session] = lambda: Session(server, record.principal)  # noqa: E731
        if origin is not None:
            session = origin.session
            if revision.tasks == "core" and origin.connection is not None:
                sink = origin.connection
        super().__init__(Request(record.id, "tools/call", params), terms, sink, None, session)
        self._report = report
        self._related = related(record.id)

    def end_reports(self) -> None:
        """The run is over: reports of what still runs are ignored."""
        self._report = _ignore

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show progress as the status of the task, and as a notification where the revision has that for tasks."""
        text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        await self._report(text if message is None else message)
        token = self.request.params["_meta"].get(PROGRESS_TOKEN)
        if token is not None:
            fields: dict[str, Any] = {"progressToken": token, "progress": progress}
            fields.update({"total": total} if total is not None else {})
            fields.update({"message": message} if message is not None else {})
            self.notify("notifications/progress", fields)

    async def status(self, message: str) -> None:
        """Describe the state of the work."""
        await self._report(message)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification about the task to the session that created it."""
        fields = params or {}
        super().notify(method, {**fields, "_meta": {**(fields.get("_meta") or {}), **self._related}})


async def _ignore(message: str) -> None:
    """Drop a report."""
