"""Bridge: translation of requests, results and errors between a client and a server of different revisions.

A gateway is a server to its clients and a client to its servers. The values of `types` belong to no revision, so that
most of the translation is loading a value of one revision and emitting it for another. This module has the rest: the
metadata that travels on, the capabilities that are declared in the name of a client, the results that need no
translation and are passed on as text, URIs inside results, and errors. `docs/gateway.md` has the table of all features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from dovetail.types.base import SERVERS_META, Result
from dovetail.types.capabilities import ClientCapabilities, RootsCapability
from dovetail.types.serialization import Value

from .envelope import PREFIX, PROGRESS_TOKEN, SERVER_INFO, meta_of
from .errors import (
    INTERNAL_ERROR,
    InvalidAnswer,
    NotFound,
    OutcomeUnknown,
    ProtocolError,
    RemoteError,
    not_found_error,
    outcome_unknown,
)
from .revisions import REVISIONS
from .revisions.revision import Revision

_ORDER = {name: index for index, name in enumerate(REVISIONS)}

_URI_MARKS = (b'"uri"', b'"resourceUri"', b'"ui/resourceUri"')
"""A result without any of these has no URI that could need translation."""

_COMPLETE = (msgspec.UNSET, None, "complete")
_NOT_PUBLIC = (msgspec.UNSET, None, "private")

_UI_KEYS = ("resourceUri", "ui/resourceUri")

RewriteUri = Callable[[str], str]


class _ResultHead(msgspec.Struct, rename="camel"):
    """The only fields of a result that decide how it is passed on; of any type, since a server may send anything."""

    result_type: Any = msgspec.UNSET
    ttl_ms: Any = msgspec.UNSET
    cache_scope: Any = msgspec.UNSET

    @property
    def has_envelope_fields(self) -> bool:
        """True if there is any field of the envelope era."""
        return not (self.result_type is self.ttl_ms is self.cache_scope is msgspec.UNSET)


_read_head = msgspec.json.Decoder(_ResultHead).decode


def forwarded_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` of a request that travels on: what is not of the protocol, which each hop writes anew.

    Version, client, capabilities, log level and progress token belong to one hop; trace context and keys of
    applications belong to the request.
    """
    meta = meta_of(params) or {}
    return {key: value for key, value in meta.items() if key != PROGRESS_TOKEN and not key.startswith(PREFIX)}


def relayed_capabilities(client: ClientCapabilities) -> ClientCapabilities:
    """The capabilities to declare to a server in the name of a client: those of its requests that can be relayed.

    Never more than the client has declared itself. Extensions and experimental capabilities are agreed on by the two
    sides of one hop, and are not declared for others.
    """
    return ClientCapabilities(
        roots=None if client.roots is None else RootsCapability(list_changed=True),
        sampling=client.sampling,
        elicitation=client.elicitation,
    )


def can_be_asked(client: ClientCapabilities) -> bool:
    """True if a server may ask the client anything during a request."""
    return client.roots is not None or client.sampling is not None or client.elicitation is not None


def capabilities_key(capabilities: ClientCapabilities) -> bytes:
    """A key that is equal for equal capabilities: servers may offer different tools for different ones."""
    return msgspec.json.encode(capabilities, order="sorted")


def translate_result(
    method: str,
    raw: bytes,
    source: Revision,
    target: Revision,
    rewrite_uri: RewriteUri | None = None,
    adapt: Callable[[Value], None] | None = None,
) -> Value | bytes:
    """A result of the server for the client: its text where that is valid on the revision of the client as well.

    Otherwise it is a value, which the revision of the client emits. `rewrite_uri` translates the URIs in it, and
    `adapt` may change a value before it is emitted. Raises `InvalidAnswer`.
    """
    head = _head_of(method, raw)
    if source.result_type:
        if head.result_type not in _COMPLETE:
            return _load(method, raw, source)
        if head.cache_scope not in _NOT_PUBLIC:
            # What one client gets through a gateway is not what another gets.
            raw = _changed(method, raw, cacheScope="private")
    elif head.has_envelope_fields:
        # A server of the handshake era must not decide what they mean to a client of the other era.
        raw = _changed(method, raw, resultType=None, ttlMs=None, cacheScope=None)
    if rewrite_uri is not None and any(mark in raw for mark in _URI_MARKS):
        result = _decode(method, raw)
        if rewrite_uris(result, rewrite_uri):
            raw = msgspec.json.encode(result)
    if _ORDER[target.name] < _ORDER[source.name]:
        value = _load(method, raw, source)
        if isinstance(value, Result) and value.meta and SERVER_INFO in value.meta:
            # It is of the hop between the gateway and the server, and of a revision that the client does not speak.
            value.meta = {key: one for key, one in value.meta.items() if key != SERVER_INFO} or None
        if adapt is not None:
            adapt(value)
        return value
    return raw if target.result_type == source.result_type else _with_envelope(method, raw, target)


def _with_envelope(method: str, raw: bytes, target: Revision) -> bytes:
    """The text of a result of the handshake era with the fields that every result has in the envelope era."""
    fields = b'"resultType":"complete"'
    if method in target.cacheable:
        fields += b',"ttlMs":0,"cacheScope":"private"'
    inner = raw.strip()[1:-1].strip()
    return b"{%b,%b}" % (fields, inner) if inner else b"{%b}" % fields


def outcome_of(method: str, raw: bytes) -> Any:
    """The `resultType` of a result; None if there is none. Raises `InvalidAnswer`."""
    found = _head_of(method, raw).result_type
    return None if found is msgspec.UNSET else found


def _head_of(method: str, raw: bytes) -> _ResultHead:
    try:
        return _read_head(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidAnswer(f"Invalid result of {method}: {problem}") from None


def _changed(method: str, raw: bytes, **fields: str | None) -> bytes:
    """A result with other values for some fields, or without them."""
    result = _decode(method, raw)
    for name, value in fields.items():
        result.pop(name, None)
        if value is not None:
            result[name] = value
    return msgspec.json.encode(result)


def _decode(method: str, raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidAnswer(f"Invalid result of {method}: {problem}") from None


def _load(method: str, raw: bytes, source: Revision) -> Value:
    try:
        return source.load_result(method, _decode(method, raw))
    except RemoteError as problem:
        raise InvalidAnswer(problem.message) from None


def rewrite_uris(result: Any, rewrite: RewriteUri) -> bool:
    """Translate the URIs of resources in a result, in place; True if any has changed.

    Those are the contents of resources, embedded resources and links wherever content may stand, and the page of an
    app in `_meta`.
    """
    changed = False
    if not isinstance(result, dict):
        return False
    members = cast("dict[str, Any]", result)
    for key in ("content", "contents", "messages"):
        for item in _objects(members.get(key)):
            changed |= _rewrite_item(item, rewrite)
    return _rewrite_ui(members.get("_meta"), rewrite) or changed


def _rewrite_item(item: dict[str, Any], rewrite: RewriteUri) -> bool:
    """Translate the URIs of one block of content, of one message, or of the contents of one resource."""
    changed = False
    if item.get("type") in (None, "resource_link"):
        changed = _rewrite_at(item, "uri", rewrite)
    resource = item.get("resource")
    if isinstance(resource, dict):
        changed |= _rewrite_at(cast("dict[str, Any]", resource), "uri", rewrite)
    inner = item.get("content")
    for block in _objects(inner if isinstance(inner, list) else [inner]):
        changed |= _rewrite_item(block, rewrite)
    return _rewrite_ui(item.get("_meta"), rewrite) or changed


def _rewrite_ui(meta: Any, rewrite: RewriteUri) -> bool:
    """Translate the URI of an app's page (ext-apps: `_meta.ui.resourceUri`, and the older flat key)."""
    if not isinstance(meta, dict):
        return False
    fields = cast("dict[str, Any]", meta)
    changed = _rewrite_at(fields, _UI_KEYS[1], rewrite)
    ui = fields.get("ui")
    if isinstance(ui, dict):
        changed |= _rewrite_at(cast("dict[str, Any]", ui), _UI_KEYS[0], rewrite)
    return changed


def rewrite_ui_meta(meta: dict[str, Any] | None, rewrite: RewriteUri) -> dict[str, Any] | None:
    """The `_meta` of a definition with the URI of its app's page translated; the same object if there is none."""
    if not meta or not ("ui" in meta or _UI_KEYS[1] in meta):
        return meta
    copy = {**meta, "ui": dict(cast("dict[str, Any]", meta["ui"]))} if isinstance(meta.get("ui"), dict) else dict(meta)
    _rewrite_ui(copy, rewrite)
    return copy


def _rewrite_at(members: dict[str, Any], key: str, rewrite: RewriteUri) -> bool:
    uri = members.get(key)
    if not isinstance(uri, str):
        return False
    members[key] = rewrite(uri)
    return members[key] != uri


def _objects(items: Any) -> list[dict[str, Any]]:
    if not isinstance(items, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[Any]", items) if isinstance(item, dict)]


def retry_params(answers: Mapping[str, Any], state: str | None, revision: Revision) -> dict[str, Any]:
    """The params that a retry of a request adds on a revision with rounds: the answers, and the server's state."""
    params: dict[str, Any] = {}
    if answers:
        params["inputResponses"] = {key: revision.emit(value) for key, value in answers.items()}
    if state is not None:
        params["requestState"] = state
    return params


def translate_error(problem: RemoteError | OutcomeUnknown, method: str, target: Revision) -> ProtocolError:
    """An error of the server for the client: message and data word for word, and the code that the revision has.

    A resource that does not exist has a code of its own until 2025-11-25, and −32602 after it.
    """
    if isinstance(problem, OutcomeUnknown):
        return outcome_unknown(problem.reason)
    if isinstance(problem, NotFound) and method == "resources/read":
        return not_found_error(problem.message, problem.data, target.not_found_code)
    if problem.code in target.foreign_codes:
        return ProtocolError(INTERNAL_ERROR, problem.message, problem.data)
    return ProtocolError(problem.code, problem.message, problem.data)


def missing_servers(meta: Mapping[str, Any] | None) -> dict[str, str]:
    """A sentence for each server, by its name, that a gateway says is missing from a list."""
    told = (meta or {}).get(SERVERS_META)
    if not isinstance(told, dict):
        return {}
    sentences: dict[str, str] = {}
    for server, about in cast("dict[str, Any]", told).items():
        fields = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
        status, reason = fields.get("status", "unavailable"), fields.get("reason", "the gateway does not say why")
        sentences[server] = f"The server {server!r} behind the gateway is {status}: {reason}"
    return sentences
