"""The metadata that every request of the envelope era carries (basic, "_meta")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dovetail.protocol.revisions.revision import Revision
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import dump, load

from .errors import INVALID_PARAMS, UNSUPPORTED_VERSION, ProtocolError
from .terms import Terms

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CLIENT_INFO = PREFIX + "clientInfo"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
LOG_LEVEL = PREFIX + "logLevel"
SERVER_INFO = PREFIX + "serverInfo"
SUBSCRIPTION_ID = PREFIX + "subscriptionId"
PROGRESS_TOKEN = "progressToken"


def meta_of(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `_meta` of a message's params, if it is an object."""
    meta = params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else None


class EnvelopeReader:
    """Reads terms from `_meta`; those of a client that sends the same again are read once."""

    def __init__(self, revisions: Mapping[str, Revision]) -> None:
        self._served = revisions
        self._key: tuple[object, ...] | None = None
        self.last: Terms | None = None

    def terms(
        self,
        meta: Mapping[str, Any],
        revision: Revision | None = None,
        principal: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> Terms:
        """The terms of one request; a missing or malformed field is −32602, an unknown version −32022.

        `revision` is the one that `_meta` names, where the transport has looked it up already.
        """
        version, level = meta.get(VERSION), meta.get(LOG_LEVEL)
        info, capabilities = meta.get(CLIENT_INFO), meta.get(CLIENT_CAPABILITIES)
        key = (version, info, capabilities, level, principal, scopes)
        if self.last is not None and key == self._key:
            return self.last
        if revision is None:
            revision = self._revision(version)
        if capabilities is None:
            raise ProtocolError(INVALID_PARAMS, f"_meta lacks {CLIENT_CAPABILITIES}")
        if level is not None and (not isinstance(level, str) or level not in _LEVELS):
            raise ProtocolError(INVALID_PARAMS, f"_meta {LOG_LEVEL} is not a log level: {level!r}")
        try:
            client = None if info is None else load(Implementation, info)
            terms = Terms(revision, client, load(ClientCapabilities, capabilities), level, principal, scopes)
        except msgspec.ValidationError as problem:
            raise ProtocolError(INVALID_PARAMS, f"_meta is malformed: {problem}") from problem
        self._key, self.last = key, terms
        return terms

    def _revision(self, version: object) -> Revision:
        if not isinstance(version, str):
            raise ProtocolError(INVALID_PARAMS, f"_meta {VERSION} is not a string")
        revision = self._served.get(version)
        if revision is None or revision.era != "envelope":
            raise unsupported(version, self._served)
        return revision


def unsupported(requested: str, served: Mapping[str, Revision]) -> ProtocolError:
    """The error for a version that is not served, naming those that are, newest first."""
    supported = list(served)[::-1]
    return ProtocolError(
        UNSUPPORTED_VERSION,
        f"Unsupported protocol version {requested!r}; this server speaks {', '.join(supported)}",
        {"supported": supported, "requested": requested},
    )


def request_meta(
    revision: Revision, client: Implementation, capabilities: ClientCapabilities, log_level: str | None = None
) -> dict[str, Any]:
    """The `_meta` fields that a client of the envelope era sends with every request."""
    meta: dict[str, Any] = {
        VERSION: revision.name,
        CLIENT_INFO: dump(client, revision.known),
        CLIENT_CAPABILITIES: dump(capabilities, revision.known),
    }
    if log_level is not None:
        meta[LOG_LEVEL] = log_level
    return meta


_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})
