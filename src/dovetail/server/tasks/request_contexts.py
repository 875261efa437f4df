"""The contexts of the requests that created tasks: a run that begins later, from the queue, is for the same caller.

Such a run must inherit nothing of the request or task in which it happens to begin, which may be those of somebody
else. In the process that created the task it gets the context of that request; elsewhere one with nothing but what the
record has of the caller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.types.fair_bounded_dict import FairBoundedDict

if TYPE_CHECKING:
    from dovetail.server.session import ServerCall

    from .stored_tasks import StoredTask

MAX_CONTEXTS = 10_000
"""Open tasks whose contexts are kept; above it the oldest of the client with the most is forgotten."""


class CallerKeeper(Protocol):
    """Keeps what a server needs to know of the caller of a request, beside the principal, with a task."""

    def keep(self, call: ServerCall) -> dict[str, Any] | None:
        """The part that may be stored, as JSON: no credentials. None if there is no caller."""
        ...

    def restore(self, principal: str, kept: dict[str, Any]) -> None:
        """Serve what follows in this context for the caller."""
        ...


class RequestContexts:
    """Keeps the contexts of requests until their tasks have ended."""

    def __init__(self, callers: CallerKeeper | None) -> None:
        self._callers = callers
        self._contexts: FairBoundedDict[str, str, Context] = FairBoundedDict(MAX_CONTEXTS)

    def __contains__(self, handle: str) -> bool:
        return handle in self._contexts

    @property
    def handles(self) -> list[str]:
        """The handles of the tasks whose contexts are kept."""
        return [entry.key for entry in self._contexts.entries()]

    def caller_of(self, call: ServerCall) -> dict[str, Any] | None:
        """The part of the caller that is stored with a task."""
        return None if self._callers is None else self._callers.keep(call)

    @contextlib.contextmanager
    def keeping(self, handle: str, client: str) -> Generator[None]:
        """Keep the present context for a task that is created in the block, unless that fails."""
        self._contexts.add(client, handle, copy_context())
        try:
            yield
        except BaseException:
            self.forget(handle)
            raise

    def forget(self, handle: str) -> None:
        """The task has ended."""
        self._contexts.pop(handle)

    def of(self, stored: StoredTask) -> Context:
        """The context for a run of a task."""
        kept, record = self._contexts.get(stored.handle), stored.record
        if kept is not None:
            return kept
        context = Context()
        if self._callers is not None and record.caller is not None and record.principal is not None:
            context.run(self._callers.restore, record.principal, record.caller)
        return context
