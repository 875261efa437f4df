"""One revision of the protocol as a value: what may be said, who says it, and how it looks on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RemoteError
from dovetail.types.serialization import Serializer, Value, load
from dovetail.types.tasks import CreateTaskResult

from .adapt import adapters

Side = Literal["client", "server"]


class Method(msgspec.Struct, frozen=True):
    """A request or, without a result, a notification."""

    name: str
    sender: Literal["client", "server", "both"]
    params: type[Value]
    result: type[Value] | None = None
    as_task: bool = False
    """It may be asked for, and then be answered, as a task (2025-11-25 basic/utilities/tasks)."""


class Revision(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A revision of the protocol; everything outside this package asks it and compares no dates."""

    name: str
    era: Literal["handshake", "envelope"]
    methods: Mapping[str, Method]
    inputs: Mapping[str, Method]
    """Requests that travel inside an `input_required` result instead of by themselves."""
    outcomes: Mapping[str, type[Value]]
    """What a result is when its `resultType` is not "complete"."""
    known: Mapping[str, frozenset[str]]
    """The wire fields of each type, by the name of its class."""
    content_types: frozenset[str]
    batching: bool
    null_id: bool
    """An error without a readable id carries the id null; otherwise none at all."""
    server_requests: Literal["direct", "rounds"]
    cancels: frozenset[Side]
    """Who may send `notifications/cancelled`; a server of the envelope era only to end a subscription."""
    progress_from: frozenset[Side]
    structured: Literal["absent", "object", "any"]
    """What structured content may be."""
    form: Literal["absent", "plain", "rich"]
    """What a form may ask for: `plain` has no choice of several, no titled options, defaults for booleans."""
    bad_arguments: Literal["error", "result"]
    """A tool call whose arguments do not fit is answered with a JSON-RPC error, or with a result to read."""
    not_found_code: int
    foreign_codes: frozenset[int]
    """Error codes that nobody may send: of other revisions, or kept for later ones."""
    cacheable: frozenset[str]
    """Methods whose complete result carries `ttlMs` and `cacheScope`."""
    result_type: bool
    session_header: bool
    version_header: bool
    """HTTP requests name the revision in `MCP-Protocol-Version`."""
    resumable: bool
    sse_polling: bool
    required_headers: bool
    disconnect: Literal["detach", "cancel"]
    _serializer: Serializer = msgspec.field(default_factory=Serializer)

    def __post_init__(self) -> None:
        adapt = adapters(self.structured, self.content_types, self.known)
        msgspec.structs.force_setattr(self, "_serializer", Serializer(self.known, adapt))

    def __repr__(self) -> str:
        return f"<Revision {self.name}>"

    def evolve(
        self,
        *,
        methods: Iterable[Method] = (),
        without_methods: Iterable[str] = (),
        fields: Mapping[str, str] | None = None,
        without_fields: Mapping[str, str] | None = None,
        without_types: Iterable[str] = (),
        **changes: object,
    ) -> Revision:
        """The same revision with methods, fields and types added or taken away, and other attributes changed.

        Fields are named as on the wire and separated by blanks, by class: `{"Tool": "title icons"}`.
        """
        table = {name: method for name, method in self.methods.items() if name not in set(without_methods)}
        table.update((method.name, method) for method in methods)
        known = dict(self.known)
        for kind, names in (fields or {}).items():
            known[kind] = known.get(kind, frozenset()) | frozenset(names.split())
        for kind, names in (without_fields or {}).items():
            known[kind] = known[kind] - frozenset(names.split())
        for kind in without_types:
            del known[kind]
        return msgspec.structs.replace(self, methods=table, known=known, **changes)

    def code_of(self, code: int) -> int:
        """The code that an error has on this wire: one that nobody may send here is an internal error."""
        return INTERNAL_ERROR if code in self.foreign_codes else code

    def accept(self, sender: Side, method: str, params: dict[str, Any]) -> Value:
        """The params of a request or notification that `sender` may send, as a value."""
        entry = self.methods.get(method)
        if entry is None or entry.sender not in (sender, "both"):
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        try:
            return load(entry.params, params)
        except msgspec.ValidationError as problem:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {problem}") from None

    def emit(self, value: Value) -> dict[str, Any]:
        """The value as this revision writes it: without fields it does not know, in content it knows."""
        return self._serializer.write(value)

    def emit_result(self, method: str, value: Value) -> dict[str, Any]:
        """The result of a request, stamped with what every result of this revision carries."""
        out = self._serializer.write(value)
        if self.result_type and method not in self.inputs:
            kind = out.setdefault("resultType", "complete")
            if method in self.cacheable and kind == "complete":
                out.setdefault("ttlMs", 0)
                out.setdefault("cacheScope", "private")
        return out

    def load_result(self, method: str, obj: object) -> Value:
        """The result that a reply to `method` holds; an interim result where the reply is one.

        A reply that does not fit raises `RemoteError`: the peer answered, but not as it must.
        A `resultType` that nobody announced is invalid (2026-07-28 basic, "ResultType").
        """
        try:
            return load(self._result_kind(method, obj), obj)
        except msgspec.ValidationError as problem:
            raise RemoteError(INTERNAL_ERROR, f"Invalid result of {method}: {problem}") from None

    def _result_kind(self, method: str, obj: object) -> type[Value]:
        entry = self.methods.get(method) or self.inputs.get(method)
        if entry is None or entry.result is None:
            raise RemoteError(METHOD_NOT_FOUND, f"{method} has no result on revision {self.name}")
        if isinstance(obj, dict):
            members = cast("dict[str, Any]", obj)
            if self.result_type and method in self.methods:
                outcome = members.get("resultType")
                if outcome is not None and outcome != "complete":
                    return self._outcome(method, outcome)
            if entry.as_task and "task" in members and "content" not in members:
                return CreateTaskResult
        return entry.result

    def _outcome(self, method: str, outcome: object) -> type[Value]:
        kind = self.outcomes.get(outcome) if isinstance(outcome, str) else None
        if kind is None:
            raise RemoteError(INTERNAL_ERROR, f"Invalid result of {method}: resultType {outcome!r} is unknown")
        return kind
