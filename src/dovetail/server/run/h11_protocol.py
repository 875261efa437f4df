"""uvicorn's HTTP/1.1 protocol on h11, with the limits of `uvicorn_protocol`, for where httptools cannot be used.

h11 itself bounds heads and trailers in size, ignores trailers, and reads the body of a request with `Upgrade`.
"""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from . import connection_limits
from .bounded_connection import BoundedConnection
from .connection_limits import is_body_header

_CLOSE = (b"connection", b"close")


class BoundedH11(BoundedConnection, H11Protocol):
    """A connection that is closed when a head is too slow, when its peer does not read, and after unread bodies."""

    def data_received(self, data: bytes) -> None:
        """Feed the parser, unless the last request has been refused."""
        if self.transport.ignores_input:
            return
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            data = data.lstrip(b"\r\n")  # empty lines before a request, which h11 refuses (RFC 9112, section 2.2)
            if not data:
                return
        super().data_received(data)

    def handle_events(self) -> None:
        """Serve what was parsed, and see that the connection has a time limit if no response is due."""
        super().handle_events()
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop_head_timer()
            return
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            if self._head_timer is None and self.timeout_keep_alive_task is None:
                self._head_timer = self.loop.call_later(connection_limits.HEAD_SECONDS, self._close_slow_head)
            return
        self._stop_head_timer()
        if not cycle.response_started:
            # What follows a request that was answered before its end cannot be relied on to be a request.
            defaults = self.server_state.default_headers
            cycle.default_headers = [*defaults, _CLOSE] if cycle.more_body else defaults
            if _has_two_lengths(cycle):
                cycle.keep_alive = False
        self.transport.peer_is_sending = cycle.more_body

    def send_400_response(self, msg: str) -> None:
        """Refuse what was received, and close."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.peer_is_sending = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        ordinary = self.scope["method"] != "GET" or self.scope["http_version"] != "1.1" or self.conn.trailing_data[0]
        if ordinary or any(is_body_header(name, value) for name, value in self.headers):
            return False
        return self._get_upgrade() == b"websocket" and self._should_upgrade_to_ws()

    def _close_slow_head(self) -> None:
        self._head_timer = None
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.timeout_keep_alive_handler()


def _has_two_lengths(cycle: Any) -> bool:
    """True if nothing may follow the request, because its length may be meant otherwise (RFC 9112, section 6.3)."""
    names = {name for name, _ in cycle.scope["headers"]}
    return b"content-length" in names and b"transfer-encoding" in names
