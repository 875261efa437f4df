"""Request ids and the access log.

Every HTTP request has an id: the client's `X-Request-Id`, or one that is made up when somebody wants to know it.
Neither tokens nor arguments are ever written down.
"""

from __future__ import annotations

import logging
import os
import re
import time
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from dovetail.protocol.headers import SESSION_KEY
from dovetail.transports.http.server.asgi import Scope
from dovetail.wire.jsonrpc import Notification, Request

if TYPE_CHECKING:
    from dovetail.transports.http.server.response import HttpResponse

    from .request import HttpRequest

logger = logging.getLogger("dovetail.http")

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"
"""For handlers that have a `RequestIds` filter."""

_HEADER = b"x-request-id"
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_LONGEST = 200
_SESSION_SHOWN = 8

_current: ContextVar[Note | None] = ContextVar("dovetail_request", default=None)


class Note:
    """What is written down of one request."""

    __slots__ = ("_arrival", "_started", "_token", "id")

    def __init__(self) -> None:
        self.id = ""
        """Empty until somebody wants to know it, or the client has said it."""
        self._arrival: HttpRequest | None = None
        self._started = time.perf_counter()
        self._token: Token[Note | None] = _current.set(self)

    def take(self, arrival: HttpRequest) -> None:
        """The headers can be read: a client that names its request hears the name again."""
        self._arrival = arrival
        given = arrival.headers.get(_HEADER)
        if given is not None and _SANE.fullmatch(given):
            self.id = given.decode()
            arrival.response.add_header(_HEADER, given)

    def end(self, scope: Scope, path: str, response: HttpResponse) -> None:
        """The request has been answered; what it started may still ask for its id."""
        if logger.isEnabledFor(logging.INFO):
            self._write(scope, path, response.status)
        _current.reset(self._token)
        self._arrival = None

    def _write(self, scope: Scope, path: str, status: int) -> None:
        arrival = self._arrival
        words = [scope["method"], path, *_subject(arrival)]
        words += [str(status or "-"), f"{(time.perf_counter() - self._started) * 1000:.1f} ms"]
        if arrival is not None:
            if arrival.principal is not None:
                words.append(f"principal={arrival.principal}")
            if (session := arrival.headers.get(SESSION_KEY)) is not None:
                words.append(f"session={session[:_SESSION_SHOWN].decode('latin-1')}")
        words.append(f"request={current_request_id()}")
        logger.info("%s", " ".join(map(_plain, words)))


class RequestIds(logging.Filter):
    """Puts `request_id` on every record, for handlers whose format shows it; `-` outside of requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything through."""
        record.request_id = current_request_id() or "-"
        return True


def current_request_id() -> str | None:
    """The id of the HTTP request that is being served here, also in what its handlers started; None outside of one."""
    note = _current.get()
    if note is None:
        return None
    if not note.id:
        note.id = os.urandom(8).hex()
    return note.id


def _subject(arrival: HttpRequest | None) -> list[str]:
    """The method of the message, and the tool, prompt or resource that it is about."""
    message: Any = None if arrival is None else arrival.message
    if isinstance(message, list):
        return ["batch"]
    if not isinstance(message, Request | Notification):
        return []
    named = message.params.get("uri" if message.method.startswith("resources/") else "name")
    return [message.method, named] if isinstance(named, str) else [message.method]


def _plain(word: str) -> str:
    """A word that cannot pretend to be another line."""
    return "".join(char if char.isprintable() else "?" for char in word[:_LONGEST])
