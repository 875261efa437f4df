"""A revision of the protocol as a value: its methods, their directions, and the wire format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    InvalidParams,
    NotFound,
    ProtocolError,
    RemoteError,
    not_found_error,
)
from dovetail.types.serialization import Serializer, Value, load
from dovetail.types.tasks import CreateTaskResult

from .adapt import adapters

Side = Literal["client", "server"]


class Method(msgspec.Struct, frozen=True):
    """A request, or a notification if it has no result."""

    name: str
    sender: Literal["client", "server", "both"]
    params: type[Value]
    result: type[Value] | None = None
    as_task: bool = False
    """The request may run as a task (2025-11-25 basic/utilities/tasks)."""


class Revision(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A revision of the protocol. Code outside this package uses these attributes and never compares dates."""

    name: str
    era: Literal["handshake", "envelope"]
    methods: Mapping[str, Method]
    inputs: Mapping[str, Method]
    """Requests that are sent inside an `input_required` result instead of directly."""
    outcomes: Mapping[str, type[Value]]
    """The types of results whose `resultType` is not "complete", by `resultType`."""
    known: Mapping[str, frozenset[str]]
    """The wire fields of each type, by the name of its class."""
    content_types: frozenset[str]
    batching: bool
    null_id: bool
    """An error response without a readable id has the id null; otherwise it has none."""
    server_requests: Literal["direct", "rounds"]
    cancels: frozenset[Side]
    """The sides that may send `notifications/cancelled`; a server of the envelope era only to end a subscription."""
    progress_from: frozenset[Side]
    structured: Literal["absent", "object", "any"]
    """The types that structured content may have."""
    form: Literal["absent", "plain", "rich"]
    """The kind of forms: `plain` has no multiple choice, no titled options, and defaults for booleans only."""
    bad_arguments: Literal["error", "result"]
    """A tool call with invalid arguments gets a JSON-RPC error, or a result with `isError`."""
    not_found_code: int
    """The code for a resource that does not exist."""
    foreign_codes: frozenset[int]
    """Error codes that must not be sent: those of other revisions, or reserved."""
    cacheable: frozenset[str]
    """Methods whose complete result has `ttlMs` and `cacheScope`."""
    result_type: bool
    session_header: bool
    version_header: bool
    """HTTP requests have the header `MCP-Protocol-Version`."""
    resumable: bool
    sse_polling: bool
    required_headers: bool
    disconnect: Literal["detach", "cancel"]
    tasks: Literal["absent", "core", "extension"]
    """Tasks are no part of the revision, a part of its core, or an extension."""
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
        """A copy with methods, fields and types added or removed, and other attributes changed.

        Fields are given by class, with their wire names separated by spaces: `{"Tool": "title icons"}`.
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
        """The code of an error on this revision: a code that must not be sent becomes an internal error."""
        return INTERNAL_ERROR if code in self.foreign_codes else code

    def refusal(self, method: str, params: dict[str, Any], problem: NotFound | InvalidParams) -> ProtocolError:
        """The error for the peer where a handler raised `NotFound` or `InvalidParams` with a message alone."""
        is_resource, data = method.startswith("resources/"), problem.data
        if is_resource and data is None and isinstance(params.get("uri"), str):
            data = {"uri": params["uri"]}
        if isinstance(problem, InvalidParams):
            return ProtocolError(INVALID_PARAMS, problem.message, data)
        return not_found_error(problem.message, data, self.not_found_code if is_resource else INVALID_PARAMS)

    def accept(self, sender: Side, method: str, params: dict[str, Any]) -> Value:
        """Load the params of a request or notification; raises `ProtocolError` if `sender` may not send it."""
        entry = self.methods.get(method)
        if entry is None or entry.sender not in (sender, "both"):
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
        try:
            return load(entry.params, params)
        except msgspec.ValidationError as problem:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {problem}") from None

    def emit(self, value: Value) -> dict[str, Any]:
        """The value in the wire format of this revision, without fields and content types that it does not have."""
        return self._serializer.write(value)

    def emit_result(self, method: str, value: Value) -> dict[str, Any]:
        """The result of a request, with the fields that every result has on this revision."""
        out = self._serializer.write(value)
        if self.result_type and method not in self.inputs:
            kind = out.setdefault("resultType", "complete")
            if method in self.cacheable and kind == "complete":
                out.setdefault("ttlMs", 0)
                out.setdefault("cacheScope", "private")
        return out

    def load_result(self, method: str, obj: object) -> Value:
        """Load the result in a response to `method`, which may be an interim result such as `input_required`.

        Raises `RemoteError` for an invalid result, and for an unknown `resultType` (2026-07-28 basic, "ResultType").
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
