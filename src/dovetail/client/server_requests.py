"""Handlers of a server's requests: elicitation, sampling and roots; the same on every revision."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from dovetail.protocol.errors import INVALID_PARAMS, LocalError, ProtocolError, Refused
from dovetail.types.capabilities import (
    ClientCapabilities,
    ElicitationCapability,
    Implementation,
    RootsCapability,
    SamplingCapability,
)
from dovetail.types.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    ListRootsResult,
)
from dovetail.types.content import Text

from .elicitation import Elicitation, Mode, OnElicit, read_elicitation, read_elicitation_result
from .roots import RootLike, Roots, check_roots, readable_roots

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.runtime.thread_pool import ThreadPool
    from dovetail.types.serialization import Value

OnSample: TypeAlias = (
    "Callable[[CreateMessageParams], str | CreateMessageResult | Awaitable[str | CreateMessageResult]]"
)

UNNAMED_MODEL = "unknown"
"""The model of a sampling result that names none; the protocol requires a name."""

_OPTIONS = {"elicitation/create": "on_elicit", "sampling/createMessage": "on_sample", "roots/list": "roots"}


class RequestHandlers:
    """The handlers that the caller gave; a plain function runs in a thread, where it blocks no other work."""

    def __init__(
        self,
        on_elicit: OnElicit | None = None,
        on_sample: OnSample | None = None,
        roots: Roots | None = None,
        elicit_modes: Sequence[Mode] = ("form", "url"),
        *,
        sample_tools: bool = False,
    ) -> None:
        if not elicit_modes or not set(elicit_modes) <= {"form", "url"}:
            raise LocalError(f'elicit_modes is one or both of "form" and "url", not {elicit_modes!r}')
        self._on_elicit = on_elicit
        self._on_sample = on_sample
        self._roots = _checked(roots)
        self._modes = frozenset(elicit_modes)
        self._sample_tools = sample_tools
        self._thread_pool: ThreadPool | None = None

    def declare(self, capabilities: ClientCapabilities) -> None:
        """Declare the capabilities that there are handlers for, and no others."""
        if self._on_elicit is not None:
            modes = self._modes
            capabilities.elicitation = ElicitationCapability(
                {} if "form" in modes else None, {} if "url" in modes else None
            )
        if self._on_sample is not None:
            capabilities.sampling = SamplingCapability(tools={} if self._sample_tools else None)
        if self._roots is not None:
            capabilities.roots = RootsCapability(list_changed=True)
        if self._on_elicit is not None or self._on_sample is not None:
            requests: dict[str, Any] = {}
            if self._on_elicit is not None:
                requests["elicitation"] = {"create": {}}
            if self._on_sample is not None:
                requests["sampling"] = {"createMessage": {}}
            # Only 2025-11-25 has tasks for requests of the server.
            capabilities.tasks = {"list": {}, "cancel": {}, "requests": requests}

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots."""
        if self._roots is None:
            raise LocalError("Servers were told that there are no roots; give Client roots=[] to set some later")
        self._roots = _checked(roots)

    def can_handle(self, method: str, revision: Revision) -> bool:
        """True if the capability for this request was declared."""
        if method == "elicitation/create":
            return self._on_elicit is not None and bool(self._modes_of(revision))
        if method == "sampling/createMessage":
            return self._on_sample is not None
        return method == "roots/list" and self._roots is not None

    def can_open_urls(self, revision: Revision) -> bool:
        """True if URL elicitation was declared."""
        return self._on_elicit is not None and "url" in self._modes_of(revision)

    def check(self, method: str, revision: Revision) -> None:
        """Raise `Refused` for a request that there is no handler for."""
        if not self.can_handle(method, revision):
            option = _OPTIONS.get(method, "answer")
            raise Refused(f"The server asks with {method}, which this client has no {option} for")

    async def handle(
        self, method: str, params: Value | None, revision: Revision, server: Implementation | None
    ) -> Value:
        """The result of a request.

        Raises `Refused` when the user declines a request whose result cannot say so, or there is no handler;
        `ProtocolError` when the server must not send this; and whatever the handler raises.
        """
        self.check(method, revision)
        if isinstance(params, ElicitParams):
            return await self._elicit(params, revision, server)
        if isinstance(params, CreateMessageParams):
            return await self._sample(params)
        return await self._list_roots()

    def stop(self) -> None:
        """Stop the idle threads."""
        if self._thread_pool is not None:
            self._thread_pool.stop()

    async def _elicit(self, params: ElicitParams, revision: Revision, server: Implementation | None) -> ElicitResult:
        assert self._on_elicit is not None
        mode = params.mode or "form"
        if mode not in self._modes_of(revision):
            raise ProtocolError(INVALID_PARAMS, f"This client did not declare elicitation by {mode}")
        # In a thread: the server wrote the schema of the form.
        elicitation: Elicitation = await self._pool().run(functools.partial(read_elicitation, params, server))
        try:
            answer = await self._call(self._on_elicit, elicitation)
        except Refused:
            return ElicitResult("decline")
        return read_elicitation_result(elicitation, answer)

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
        from dovetail.protocol.sampling import check_conversation

        assert self._on_sample is not None
        if not self._sample_tools and (params.tools is not None or params.tool_choice is not None):
            raise ProtocolError(INVALID_PARAMS, "This client did not declare sampling with tools")
        check_conversation(params.messages)
        answer = await self._call(self._on_sample, params)
        if isinstance(answer, str):
            return CreateMessageResult("assistant", Text(answer), UNNAMED_MODEL, "endTurn")
        if not isinstance(answer, CreateMessageResult):
            raise LocalError(f"on_sample returns a text or a CreateMessageResult, not {answer!r}")
        return answer

    async def _list_roots(self) -> ListRootsResult:
        given = self._roots
        if callable(given):
            given = cast("Sequence[RootLike]", await self._call(given))
        # In a thread: a path may be on a slow disk.
        return ListRootsResult(await self._pool().run(functools.partial(readable_roots, given or ())))

    async def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        return await self._pool().call_any(function, *arguments)

    def _pool(self) -> ThreadPool:
        if self._thread_pool is None:
            from dovetail.runtime.thread_pool import ThreadPool

            self._thread_pool = ThreadPool()
        return self._thread_pool

    def _modes_of(self, revision: Revision) -> frozenset[str]:
        """The modes that were declared on this revision; revisions without modes have forms only."""
        spoken = revision.known.get("ElicitationCapability")
        if spoken is None:
            return frozenset()
        return self._modes if "url" in spoken else self._modes & {"form"}


def _checked(roots: Roots | None) -> Roots | None:
    if roots is not None and not callable(roots):
        check_roots(roots)
        return list(roots)
    return roots
