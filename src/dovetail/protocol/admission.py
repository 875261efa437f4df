"""Under which revision a decoded HTTP message is served, or why it is not.

What comes before the body is read is in `edge`. What is left to the caller: the terms of a request of the envelope
era (`EnvelopeReader.terms`; its error goes out through `refused`), and the session of one of the handshake era.

Of several faults of one message this one is told: it is no message; a batch or a response where there is none; no
version in `_meta` though the header names an envelope revision; a version header missing or different; an unknown
version; other headers; and then, by the caller, the rest of `_meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dovetail.wire.jsonrpc import Failure, Invalid, Message, Notification, Request, Response

from .envelope import VERSION, meta_of, unsupported
from .errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    ProtocolError,
)
from .headers import DRAFT_HEADER_MISMATCH, PROTOCOL_VERSION, VERSION_KEY, check_headers
from .request_guard import Headers, Refusal
from .revisions import REVISIONS, Revision

PathsOf: TypeAlias = "Callable[[str], Mapping[tuple[str, ...], str] | None]"
"""The mirrored arguments of a tool (`names.header_paths`), None if there is no such tool."""

Served: TypeAlias = "Mapping[str, Revision]"

ASSUMED = next(revision for revision in REVISIONS.values() if revision.session_header)
"""Spoken by a client that names no revision: the first one of this transport, which had no header to name it with
(2025-11-25 transports, "Protocol Version Header")."""

_ENVELOPE_NAMES = frozenset(name.encode() for name, revision in REVISIONS.items() if revision.era == "envelope")
_CALLS = (Request, Notification)
_STATUS: Mapping[str, Mapping[int, int]] = {
    "handshake": {},
    "envelope": {METHOD_NOT_FOUND: 404, MISSING_CAPABILITY: 400},
}


def status_of(revision: Revision, code: int) -> int:
    """The HTTP status of an error that a request ended in after it was admitted."""
    return _STATUS[revision.era].get(code, 200)


def refused(error: ProtocolError, status: int = 400) -> Refusal:
    """An error raised while a message is admitted, as a refusal."""
    return Refusal(status, error.code, error.message, error.data)


def admit(
    message: Message | list[Message],
    headers: Headers,
    served: Served,
    session: Revision | None,
    *,
    strict: bool,
    paths_of: PathsOf,
) -> Revision | Refusal:
    """The revision that the body of a POST is served under; `session` is that of its session, if it has one.

    `strict` makes the standard headers required on handshake revisions too.
    """
    named = headers.get(VERSION_KEY)
    if not isinstance(message, _CALLS):
        return _admit_other(message, named, served, session)
    meta = message.params.get("_meta")
    if isinstance(meta, dict) and VERSION in meta:
        return _admit_envelope(message, meta[VERSION], named, headers, served, paths_of)
    if named in _ENVELOPE_NAMES:
        return _without_version(message, headers, served, paths_of, named)
    revision = _handshake_revision(named, message, served, session)
    if isinstance(revision, Refusal):
        return revision
    reason = _headers_differ(message, headers, paths_of, strict)
    return revision if reason is None else Refusal(400, DRAFT_HEADER_MISMATCH, f"Header mismatch: {reason}")


def admit_stream(headers: Headers, served: Served, session: Revision | None) -> Revision | Refusal:
    """The revision of a GET or DELETE, which have no body; there are none on envelope revisions."""
    named = headers.get(VERSION_KEY)
    if named in _ENVELOPE_NAMES or not _handshake(served):
        problem = "This revision has neither streams nor sessions to GET or DELETE"
        return Refusal(405, INVALID_REQUEST, problem, headers=((b"allow", b"POST"),))
    return _handshake_revision(named, None, served, session)


def _admit_envelope(
    message: Request | Notification,
    version: Any,
    named: bytes | None,
    headers: Headers,
    served: Served,
    paths_of: PathsOf,
) -> Revision | Refusal:
    if not isinstance(version, str):
        return Refusal(400, INVALID_PARAMS, f"_meta {VERSION} is not a string")
    if named is None:
        return Refusal(400, HEADER_MISMATCH, f"Header mismatch: The {PROTOCOL_VERSION} header is missing")
    if named != version.encode():
        told = named[:100].decode("latin-1")
        problem = f"Header mismatch: The {PROTOCOL_VERSION} header says {told!r}, the body {version[:100]!r}"
        return Refusal(400, HEADER_MISMATCH, problem)
    revision = served.get(version)
    if revision is None or revision.era != "envelope":
        return refused(unsupported(version, served))
    required = revision.required_headers and isinstance(message, Request)
    reason = _headers_differ(message, headers, paths_of, required)
    return revision if reason is None else Refusal(400, HEADER_MISMATCH, f"Header mismatch: {reason}")


def _without_version(
    message: Request | Notification, headers: Headers, served: Served, paths_of: PathsOf, named: bytes | None
) -> Revision | Refusal:
    """The header alone names an envelope revision: a request lacks its `_meta`, a notification need not have any."""
    version = (named or b"").decode("latin-1")
    if isinstance(message, Request) and version in served:
        return Refusal(400, INVALID_PARAMS, f"_meta lacks {VERSION}, though the header names {version}")
    return _admit_envelope(message, version, named, headers, served, paths_of)


def _headers_differ(message: Request | Notification, headers: Headers, paths_of: PathsOf, required: bool) -> str | None:
    params = message.params
    paths = None
    if message.method == "tools/call":
        name = params.get("name")
        paths = paths_of(name) if isinstance(name, str) else None
    return check_headers(headers, message.method, params, paths, required=required)


def _admit_other(
    message: list[Message] | Response | Failure | Invalid,
    named: bytes | None,
    served: Served,
    session: Revision | None,
) -> Revision | Refusal:
    if isinstance(message, list):
        return _admit_batch(message, named, served, session)
    if isinstance(message, Invalid):
        return Refusal(400, message.code, message.message)
    if named in _ENVELOPE_NAMES or not _handshake(served):
        return Refusal(400, INVALID_REQUEST, "Invalid request: this revision takes no responses")
    return _handshake_revision(named, None, served, session)


def _admit_batch(
    batch: list[Message], named: bytes | None, served: Served, session: Revision | None
) -> Revision | Refusal:
    """A batch names no one method, so its standard headers are not looked at."""
    if named in _ENVELOPE_NAMES or any(_has_version(message) for message in batch) or not _handshake(served):
        return Refusal(400, INVALID_REQUEST, "Invalid request: this revision has no batches")
    revision = _handshake_revision(named, None, served, session)
    if isinstance(revision, Refusal):
        return revision
    if not revision.batching:
        return Refusal(400, INVALID_REQUEST, f"Invalid request: {revision.name} has no batches")
    if any(isinstance(message, Request) and message.method == "initialize" for message in batch):
        return Refusal(400, INVALID_REQUEST, "Invalid request: initialize cannot be part of a batch")
    return revision


def _has_version(message: Message) -> bool:
    meta = meta_of(message.params) if isinstance(message, _CALLS) else None
    return meta is not None and VERSION in meta


def _handshake_revision(
    named: bytes | None, message: Request | Notification | None, served: Served, session: Revision | None
) -> Revision | Refusal:
    """The session's revision, else the header's, else the assumed one.

    A header that names another handshake revision than the session's is let be: clients exist that keep
    sending the one they asked for.
    """
    if named is None:
        revision = session or served.get(ASSUMED.name)
        return revision if revision is not None else _unnamed(message, served)
    version = named.decode("latin-1")
    revision = served.get(version)
    if revision is None or revision.era != "handshake":
        if _handshake(served) and not _envelope(served):
            # A code of the envelope era would tell the client that it is served here.
            problem = unsupported(version[:100], served)
            return Refusal(400, INVALID_REQUEST, problem.message, problem.data)
        return refused(unsupported(version[:100], served))
    return session or revision


def _unnamed(message: Request | Notification | None, served: Served) -> Revision | Refusal:
    """Neither session nor header nor `_meta` say what is spoken, and the assumed revision is not served."""
    handshake = _handshake(served)
    opening = message is not None and message.method == "initialize"
    if handshake:
        if opening:
            return handshake[-1]
        names = ", ".join(revision.name for revision in handshake[::-1])
        return Refusal(400, INVALID_REQUEST, f"Without a {PROTOCOL_VERSION} header nothing is served; send {names}")
    if opening and message is not None:
        # The one text that an old client can show to its user (versioning, "Backward Compatibility").
        return refused(unsupported(str(message.params.get("protocolVersion"))[:100], served))
    return Refusal(400, HEADER_MISMATCH, f"Header mismatch: The {PROTOCOL_VERSION} header is missing")


def _handshake(served: Served) -> list[Revision]:
    return [revision for revision in served.values() if revision.era == "handshake"]


def _envelope(served: Served) -> list[Revision]:
    return [revision for revision in served.values() if revision.era == "envelope"]
