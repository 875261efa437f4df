"""Contract of protocol extensions (versioning, "Extension Negotiation").

An extension is negotiated through `capabilities.extensions`: it is active for a request if both sides declared it.
It may add requests, notifications and result types; tasks and apps are extensions.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dovetail.types.tasks import TASKS_EXTENSION

from .errors import MISSING_CAPABILITY, LocalError, ProtocolError
from .revisions.revision import Revision

RequestHandler: TypeAlias = "Callable[[dict[str, Any], Any], Awaitable[dict[str, Any]]]"
"""Called with the params and the context of the request: a server's `Context`, or the `Client`."""

NotificationHandler: TypeAlias = "Callable[[dict[str, Any]], None]"

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z"


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """One side of an extension: its settings, handlers and result types."""

    id: str
    """With a prefix, as `_meta` keys have, such as `com.example/notes`."""
    settings: Mapping[str, Any] = {}
    requests: Mapping[str, RequestHandler] = {}
    """Handlers of requests, by method."""
    notifications: Mapping[str, NotificationHandler] = {}
    """Handlers of notifications, by method."""
    result_types: frozenset[str] = frozenset()
    """Values of `resultType` that this side supports besides the core ones."""

    def __post_init__(self) -> None:
        if not re.match(_IDENTIFIER, self.id):
            raise LocalError(f"An extension id needs a prefix and a name, such as 'com.example/notes': {self.id!r}")


def missing_extension(id: str, message: str) -> ProtocolError:
    """The error for a request of the envelope era that does not declare an extension it needs (−32021)."""
    return ProtocolError(MISSING_CAPABILITY, message, {"requiredCapabilities": {"extensions": {id: {}}}})


def extensions_on(revision: Revision, declared: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
    """The extensions that a side declares on a revision: that for tasks only where tasks are an extension.

    Elsewhere it must not enable them (2026-07-28 ext-tasks, "Capability Negotiation").
    """
    if revision.tasks == "extension" or not declared or TASKS_EXTENSION not in declared:
        return declared
    return {id: settings for id, settings in declared.items() if id != TASKS_EXTENSION} or None


class Extensions:
    """The extensions of one side, with their handlers and result types by name."""

    def __init__(self, extensions: tuple[Extension, ...] | list[Extension]) -> None:
        self.declared: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, tuple[str, RequestHandler]] = {}
        self.notifications: dict[str, NotificationHandler] = {}
        self.result_types: dict[str, str] = {}
        for extension in extensions:
            self.add(extension)

    def add(self, extension: Extension) -> None:
        """Declare one more extension."""
        if extension.id in self.declared:
            raise LocalError(f"The extension {extension.id} is given twice")
        self._refuse_duplicates(extension)
        self.declared[extension.id] = dict(extension.settings)
        for method, handler in extension.requests.items():
            self.requests[method] = (extension.id, handler)
        self.notifications.update(extension.notifications)
        self.result_types.update(dict.fromkeys(extension.result_types, extension.id))

    def _refuse_duplicates(self, extension: Extension) -> None:
        duplicates = (
            (self.requests.keys() & extension.requests)
            | (self.notifications.keys() & extension.notifications)
            | (self.result_types.keys() & extension.result_types)
        )
        if duplicates:
            raise LocalError(f"{extension.id} adds {min(duplicates)!r}, which another extension has added already")
