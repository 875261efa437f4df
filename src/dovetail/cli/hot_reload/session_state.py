"""Session state across restarts of the server process, without I/O.

The client stays connected. A new process is initialized with what the client agreed on with the old one,
and the client is notified that lists may have changed.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import INTERNAL_ERROR

Message: TypeAlias = dict[str, Any]
Key: TypeAlias = "tuple[type, object]"

ID_PREFIX = "dovetail-reload"
"""Prefix of the ids that the proxy assigns."""

_LISTS = ("tools", "resources", "prompts")


class ReloadedSession:
    """State of one client connection, updated from the messages that pass."""

    def __init__(self) -> None:
        self._last_request = 0
        self._initialize: Message | None = None
        self._initialized: Message | None = None
        self._level: Message | None = None
        self._subscribed: dict[str, Message] = {}
        self._pending: dict[Key, Message] = {}
        self._server_requests: dict[str, object] = {}
        self._resubscribed: set[Key] = set()
        self._capabilities: dict[str, Any] = {}

    @property
    def has_pending(self) -> bool:
        """True if requests of the client are pending; `subscriptions/listen` does not count."""
        return any(message["method"] != "subscriptions/listen" for message in self._pending.values())

    def from_client(self, message: Message) -> Message | None:
        """Process a message of the client and return it for the server; None if it was for an earlier process."""
        method = message.get("method")
        if not isinstance(method, str):
            id = message.get("id")
            if isinstance(id, str) and id.startswith(f"{ID_PREFIX}-"):
                return {**message, "id": self._server_requests.pop(id)} if id in self._server_requests else None
            return message
        params = _object(message.get("params"))
        if "id" in message:
            self._pending[_key(message["id"])] = message
            self._remember(method, params, message)
        elif method == "notifications/initialized":
            self._initialized = message
        elif method == "notifications/cancelled":
            self._pending.pop(_key(params.get("requestId")), None)
        return message

    def from_server(self, message: Message) -> Message | None:
        """Process a message of the server and return it for the client; None if it answers a request of the proxy."""
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if isinstance(id, str) and id.startswith(f"{ID_PREFIX}-"):
                return None
            request = self._pending.pop(_key(id), None)
            if request is not None and request["method"] == "initialize" and "result" in message:
                self._initialize = request
                self._capabilities = _object(_object(message["result"]).get("capabilities"))
            return message
        params = _object(message.get("params"))
        if "id" in message:
            # Every process numbers its requests from one: a late answer must not reach the wrong process.
            self._last_request += 1
            proxy_id = f"{ID_PREFIX}-{self._last_request}"
            self._server_requests[proxy_id] = id
            return {**message, "id": proxy_id}
        if method == "notifications/cancelled":
            return self._cancelled(message, params)
        if method == "notifications/subscriptions/acknowledged":
            key = _key((meta_of(params) or {}).get(SUBSCRIPTION_ID))
            if key in self._resubscribed:
                self._resubscribed.discard(key)
                return None
        return message

    def process_exited(self, reason: str) -> list[Message]:
        """Errors for the pending requests of the client, and cancellations of those of the server."""
        messages: list[Message] = []
        for key, message in list(self._pending.items()):
            if message["method"] != "subscriptions/listen":
                del self._pending[key]
                messages.append(_failure(message["id"], reason))
        messages += [
            _notification("notifications/cancelled", {"requestId": id, "reason": reason})
            for id in self._server_requests
        ]
        self._server_requests.clear()
        return messages

    def error_response(self, message: Message, reason: str) -> Message | None:
        """The error response to a request while no process runs; None for other messages."""
        if isinstance(message.get("method"), str) and "id" in message:
            return _failure(message["id"], reason)
        return None

    def replay_messages(self) -> list[Message]:
        """Messages that bring a new process to the state of the session."""
        messages: list[Message] = []
        if self._initialize is not None:
            messages.append({**self._initialize, "id": f"{ID_PREFIX}-initialize"})
        if self._initialized is not None:
            messages.append(self._initialized)
        for message in [*([self._level] if self._level else []), *self._subscribed.values()]:
            messages.append({**message, "id": f"{ID_PREFIX}-repeated-{len(messages)}"})
        for key, message in self._pending.items():
            self._resubscribed.add(key)
            messages.append(message)
        return messages

    def change_notifications(self) -> list[Message]:
        """Notifications that lists may have changed."""
        messages = [
            _notification(f"notifications/{kind}/list_changed")
            for kind in _LISTS
            if self._initialized is not None and _object(self._capabilities.get(kind)).get("listChanged")
        ]
        for message in self._pending.values():
            wanted = _object(_object(message.get("params")).get("notifications"))
            meta = {"_meta": {SUBSCRIPTION_ID: message["id"]}}
            messages += [
                _notification(f"notifications/{kind}/list_changed", meta)
                for kind in _LISTS
                if wanted.get(f"{kind}ListChanged")
            ]
        return messages

    def _remember(self, method: str, params: dict[str, Any], message: Message) -> None:
        if method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = message
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)

    def _cancelled(self, message: Message, params: dict[str, Any]) -> Message:
        """Translate the id in a cancellation by the server."""
        for proxy_id, server_id in self._server_requests.items():
            if _key(server_id) == _key(params.get("requestId")):
                del self._server_requests[proxy_id]
                return {**message, "params": {**params, "requestId": proxy_id}}
        return message


def _key(id: object) -> Key:
    """A dictionary key for an id that tells 5 from "5"."""
    return type(id), id if isinstance(id, str | int) else None


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _failure(id: object, reason: str) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": reason}}


def _notification(method: str, params: dict[str, Any] | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}
