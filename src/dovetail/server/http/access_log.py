"""Request ids and the access log.

Every HTTP request has an id: the client's `X-Request-Id`, or one that is made when it is first needed. Neither tokens
nor arguments are ever logged.
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

_LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LINE_WITH_ID = "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"

REQUEST_ID = b"x-request-id"
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_LONGEST = 200
_SESSION_SHOWN = 8
_TASK_SHOWN = 12

_current: ContextVar[AccessLogEntry | None] = ContextVar("dovetail_request", default=None)


class AccessLogEntry:
    """The line of the access log about one request."""

    __slots__ = ("_started", "_token", "id", "request")

    def __init__(self) -> None:
        self.id = ""
        """Empty until the client has sent one, or something asks for it."""
        self.request: HttpRequest | None = None
        """The request, once its headers have been read."""
        self._started = time.perf_counter()
        self._token: Token[AccessLogEntry | None] = _current.set(self)

    def use_client_id(self, request: HttpRequest) -> None:
        """Use the id that the client has sent, and send it back."""
        given = request.headers.get(REQUEST_ID)
        if given is not None and _SANE.fullmatch(given):
            self.id = given.decode()
            request.response.add_header(REQUEST_ID, given)

    def end(self, scope: Scope, path: str, response: HttpResponse) -> None:
        """The request has been answered; tasks that it started may still ask for its id."""
        if logger.isEnabledFor(logging.INFO):
            self._write(scope, path, response.status)
        _current.reset(self._token)
        self.request = None

    def _write(self, scope: Scope, path: str, status: int) -> None:
        request = self.request
        words = [scope["method"], path, *_subject(request)]
        words += [str(status or "-"), f"{(time.perf_counter() - self._started) * 1000:.1f} ms"]
        if request is not None:
            if request.principal is not None:
                words.append(f"principal={request.principal}")
            if (session := request.headers.get(SESSION_KEY)) is not None:
                words.append(f"session={session[:_SESSION_SHOWN].decode('latin-1')}")
        words.append(f"request={current_request_id()}")
        logger.info("%s", " ".join(map(_plain, words)), extra={"is_access_line": True})


class RequestIds(logging.Filter):
    """Puts `request_id` on every record, for handlers whose format shows it; `-` outside of requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the id; no record is dropped."""
        record.request_id = current_request_id() or "-"
        return True


class RequestLogFormatter(logging.Formatter):
    """Log lines with the id of their request, once: the line of the access log contains it anyway.

    For handlers that have a `RequestIds` filter.
    """

    def __init__(self) -> None:
        super().__init__(_LINE_WITH_ID)
        self._access = logging.Formatter(_LINE)

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return self._access.format(record) if getattr(record, "is_access_line", False) else super().format(record)


def current_request_id() -> str | None:
    """The id of the HTTP request that is being served here, also in what its handlers started; None outside of one."""
    entry = _current.get()
    if entry is None:
        return None
    if not entry.id:
        entry.id = os.urandom(8).hex()
    return entry.id


def _subject(request: HttpRequest | None) -> list[str]:
    """The method of the message, and the tool, prompt, resource or task that it is about."""
    message: Any = None if request is None else request.message
    if isinstance(message, list):
        return ["batch"]
    if not isinstance(message, Request | Notification):
        return []
    if isinstance(task := message.params.get("taskId"), str):
        # Whoever has the id of a task may have access to it: the log has the hash that the store has.
        from dovetail.server.tasks.stored_tasks import handle_of

        return [message.method, f"task={handle_of(task)[:_TASK_SHOWN]}"]
    named = message.params.get("uri" if message.method.startswith("resources/") else "name")
    return [message.method, named] if isinstance(named, str) else [message.method]


def _plain(word: str) -> str:
    """A word that cannot pretend to be another line."""
    return "".join(char if char.isprintable() else "?" for char in word[:_LONGEST])
