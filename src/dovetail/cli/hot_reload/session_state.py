"""What stands between a client and a server whose process is replaced: enough for the next one to take over.

Only values go in and out. The client keeps its connection; the new process is told what the client had
agreed with the old one, and the client is told that lists may have changed.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import INTERNAL_ERROR

Message: TypeAlias = dict[str, Any]
Key: TypeAlias = "tuple[type, object]"

OURS = "dovetail-reload"
"""Begins the ids of requests that we send in the client's name."""

_LISTS = ("tools", "resources", "prompts")


class Continuity:
    """Reads along on one connection."""

    def __init__(self) -> None:
        self._questions = 0
        self._initialize: Message | None = None
        self._initialized: Message | None = None
        self._level: Message | None = None
        self._subscribed: dict[str, Message] = {}
        self._open: dict[Key, Message] = {}
        self._asked: dict[str, object] = {}
        self._taken_over: set[Key] = set()
        self._capabilities: dict[str, Any] = {}

    @property
    def waiting(self) -> bool:
        """Whether the client waits for an answer; subscriptions wait for none."""
        return any(message["method"] != "subscriptions/listen" for message in self._open.values())

    def from_client(self, message: Message) -> Message | None:
        """A message of the client as it goes on to the server; None when it is for an old one."""
        method = message.get("method")
        if not isinstance(method, str):
            id = message.get("id")
            if isinstance(id, str) and id.startswith(f"{OURS}-"):
                return {**message, "id": self._asked.pop(id)} if id in self._asked else None
            return message
        params = _object(message.get("params"))
        if "id" in message:
            self._open[_key(message["id"])] = message
            self._remember(method, params, message)
        elif method == "notifications/initialized":
            self._initialized = message
        elif method == "notifications/cancelled":
            self._open.pop(_key(params.get("requestId")), None)
        return message

    def from_server(self, message: Message) -> Message | None:
        """A message of the server as it goes on to the client; None when it answers to us."""
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if isinstance(id, str) and id.startswith(f"{OURS}-"):
                return None
            asked = self._open.pop(_key(id), None)
            if asked is not None and asked["method"] == "initialize" and "result" in message:
                self._initialize = asked
                self._capabilities = _object(_object(message["result"]).get("capabilities"))
            return message
        params = _object(message.get("params"))
        if "id" in message:
            # Each process counts from one: a late answer to the old one's request must not reach the new one.
            self._questions += 1
            ours = f"{OURS}-{self._questions}"
            self._asked[ours] = id
            return {**message, "id": ours}
        if method == "notifications/cancelled":
            return self._cancelled(message, params)
        if method == "notifications/subscriptions/acknowledged":
            key = _key((meta_of(params) or {}).get(SUBSCRIPTION_ID))
            if key in self._taken_over:
                self._taken_over.discard(key)
                return None
        return message

    def ended(self, reason: str) -> list[Message]:
        """What to tell the client when a process has ended: no answer will come, and none is wanted any more."""
        told: list[Message] = []
        for key, message in list(self._open.items()):
            if message["method"] != "subscriptions/listen":
                del self._open[key]
                told.append(_failure(message["id"], reason))
        told += [_notification("notifications/cancelled", {"requestId": id, "reason": reason}) for id in self._asked]
        self._asked.clear()
        return told

    def refused(self, message: Message, reason: str) -> Message | None:
        """The answer to a message that no process is there for."""
        if isinstance(message.get("method"), str) and "id" in message:
            return _failure(message["id"], reason)
        return None

    def greeting(self) -> list[Message]:
        """What a new process has to hear before anything else."""
        told: list[Message] = []
        if self._initialize is not None:
            told.append({**self._initialize, "id": f"{OURS}-initialize"})
        if self._initialized is not None:
            told.append(self._initialized)
        for message in [*([self._level] if self._level else []), *self._subscribed.values()]:
            told.append({**message, "id": f"{OURS}-repeated-{len(told)}"})
        for key, message in self._open.items():
            self._taken_over.add(key)
            told.append(message)
        return told

    def news(self) -> list[Message]:
        """What the client should look at again."""
        told = [
            _notification(f"notifications/{kind}/list_changed")
            for kind in _LISTS
            if self._initialized is not None and _object(self._capabilities.get(kind)).get("listChanged")
        ]
        for message in self._open.values():
            wanted = _object(_object(message.get("params")).get("notifications"))
            meta = {"_meta": {SUBSCRIPTION_ID: message["id"]}}
            told += [
                _notification(f"notifications/{kind}/list_changed", meta)
                for kind in _LISTS
                if wanted.get(f"{kind}ListChanged")
            ]
        return told

    def _remember(self, method: str, params: dict[str, Any], message: Message) -> None:
        if method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = message
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)

    def _cancelled(self, message: Message, params: dict[str, Any]) -> Message:
        """The server takes a request of its own back, which the client knows by another id."""
        for ours, theirs in self._asked.items():
            if _key(theirs) == _key(params.get("requestId")):
                del self._asked[ours]
                return {**message, "params": {**params, "requestId": ours}}
        return message


def _key(id: object) -> Key:
    """An id to look up by: 5 and "5" are two."""
    return type(id), id if isinstance(id, str | int) else None


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _failure(id: object, reason: str) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": reason}}


def _notification(method: str, params: dict[str, Any] | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}
