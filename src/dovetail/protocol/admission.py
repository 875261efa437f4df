"""Admission: the terms that a decoded HTTP message is served under, or the refusal it gets. Decided once, here.

`request_guard` checks what can be known before the body is read.

A message with several faults is refused for the first of: it is no message; a batch or a response where there is none;
no version in `_meta` though the header names an envelope revision; a version header missing or different; an unknown
version; other headers; the rest of `_meta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, cast

from msgspec.structs import replace

from dovetail.types.capabilities import ClientCapabilities
from dovetail.wire.jsonrpc import Failure, Invalid, Message, Notification, Request, Response

from .envelope import VERSION, EnvelopeReader, meta_of, unsupported
from .errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    ProtocolError,
)
from .headers import DRAFT_HEADER_MISMATCH, METHOD_KEY, NAME_KEY, PROTOCOL_VERSION, VERSION_KEY, check_headers
from .request_guard import Headers, Refusal
from .revisions import REVISIONS, Revision
from .terms import Terms

Mirrored: TypeAlias = "Mapping[str, Mapping[tuple[str, ...], str]]"
"""The arguments that are mirrored into headers (`names.header_paths`), by tool; tools without any are left out."""

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


class Tools(Protocol):
    """The tools of a server, as far as admission needs to know them."""

    @property
    def mirrored(self) -> Mirrored:
        """The mirrored arguments of the tools that have any; they may change."""
        ...


class _NoTools:
    mirrored: ClassVar[Mirrored] = {}


class Admission:
    """Decides the terms of the messages of one application."""

    __slots__ = ("_envelope", "_served", "_strict", "_tools")

    def __init__(self, served: Served, tools: Tools | None = None, *, strict: bool = False) -> None:
        """`strict` makes the standard headers required on handshake revisions too."""
        self._served = served
        self._tools = tools or _NoTools()
        self._strict = strict
        self._envelope = EnvelopeReader(served)

    def admit(
        self,
        message: Message | list[Message],
        headers: Headers,
        session: Terms | None = None,
        principal: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> Terms | Refusal:
        """The terms for the body of a POST; `session` are those of its session, if it has one."""
        named = headers.get(VERSION_KEY)
        agreed = None if session is None else session.revision
        if not isinstance(message, _CALLS):
            revision = _admit_other(message, named, self._served, agreed)
            if isinstance(revision, Revision) and isinstance(message, list):
                reason = self._check_batch(message, headers)
                if reason is not None:
                    return Refusal(400, DRAFT_HEADER_MISMATCH, f"Header mismatch: {reason}")
        else:
            meta = message.params.get("_meta")
            if type(meta) is dict and VERSION in meta:
                envelope = cast("dict[str, Any]", meta)
                return self._admit_envelope(message, envelope, envelope[VERSION], headers, principal, scopes)
            if named in _ENVELOPE_NAMES:
                return self._without_version(message, named, headers, principal, scopes)
            revision = _handshake_revision(named, message, self._served, agreed)
            if not isinstance(revision, Refusal):
                mirrored, paths = self._tools.mirrored, None
                if mirrored and message.method == "tools/call":
                    paths = _paths(mirrored, message.params)
                reason = check_headers(headers, message.method, message.params, paths, required=self._strict)
                if reason is not None:
                    return Refusal(400, DRAFT_HEADER_MISMATCH, f"Header mismatch: {reason}")
        if isinstance(revision, Refusal):
            return revision
        if session is None:
            return Terms(revision, None, ClientCapabilities(), None, principal, scopes)
        return session if principal is None else replace(session, principal=principal, scopes=scopes)

    def _check_batch(self, batch: list[Message], headers: Headers) -> str | None:
        """The reason to refuse a batch: a proxy that decides by the headers of one message cannot judge several."""
        if not any(isinstance(message, _CALLS) for message in batch):
            return None
        if METHOD_KEY in headers or NAME_KEY in headers:
            return "Mcp-Method and Mcp-Name describe one message, and the body is a batch"
        if self._strict:
            return "Mcp-Method is required here (strict_headers), and a batch has none; send its messages one by one"
        return None

    def admit_stream(self, headers: Headers, session: Terms | None) -> Revision | Refusal:
        """The revision of a GET or DELETE, which have no body; there are none on envelope revisions."""
        named = headers.get(VERSION_KEY)
        if named in _ENVELOPE_NAMES or not _handshake(self._served):
            problem = "This revision has neither streams nor sessions to GET or DELETE"
            return Refusal(405, INVALID_REQUEST, problem, headers=((b"allow", b"POST"),))
        return _handshake_revision(named, None, self._served, None if session is None else session.revision)

    def _admit_envelope(
        self,
        message: Request | Notification,
        meta: dict[str, Any],
        version: Any,
        headers: Headers,
        principal: str | None,
        scopes: frozenset[str] | None,
    ) -> Terms | Refusal:
        named = headers.get(VERSION_KEY)
        if not isinstance(version, str):
            return Refusal(400, INVALID_PARAMS, f"_meta {VERSION} is not a string")
        if named is None:
            return Refusal(400, HEADER_MISMATCH, f"Header mismatch: The {PROTOCOL_VERSION} header is missing")
        if named != version.encode():
            seen = named[:100].decode("latin-1")
            problem = f"Header mismatch: The {PROTOCOL_VERSION} header says {seen!r}, the body {version[:100]!r}"
            return Refusal(400, HEADER_MISMATCH, problem)
        revision = self._served.get(version)
        if revision is None or revision.era != "envelope":
            return refused(unsupported(version, self._served))
        is_request = isinstance(message, Request)
        mirrored, paths = self._tools.mirrored, None
        if mirrored and message.method == "tools/call":
            paths = _paths(mirrored, message.params)
        required = revision.required_headers and is_request
        reason = check_headers(headers, message.method, message.params, paths, required=required)
        if reason is not None:
            return Refusal(400, HEADER_MISMATCH, f"Header mismatch: {reason}")
        if not is_request:
            return Terms(revision, None, ClientCapabilities(), None, principal, scopes)
        try:
            return self._envelope.terms(meta, revision, principal, scopes)
        except ProtocolError as problem:
            return refused(problem)

    def _without_version(
        self,
        message: Request | Notification,
        named: bytes | None,
        headers: Headers,
        principal: str | None,
        scopes: frozenset[str] | None,
    ) -> Terms | Refusal:
        """The header alone names an envelope revision: a request lacks `_meta`, a notification needs none."""
        version = (named or b"").decode("latin-1")
        if isinstance(message, Request) and version in self._served:
            return Refusal(400, INVALID_PARAMS, f"_meta lacks {VERSION}, though the header names {version}")
        return self._admit_envelope(message, {}, version, headers, principal, scopes)


def _paths(mirrored: Mirrored, params: Mapping[str, Any]) -> Mapping[tuple[str, ...], str] | None:
    name = params.get("name")
    return mirrored.get(name) if isinstance(name, str) else None


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
