"""Pairing of JSON-RPC messages into exchanges, as they arrive or afterwards; no I/O, no clock."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import msgspec

from dovetail.host.events import TrafficLine
from dovetail.protocol.envelope import SUBSCRIPTION_ID

from .exchange import TrafficExchange, subject_of

MAX_EXCHANGES = 1_000
"""Exchanges that a log keeps; the oldest are dropped."""
MAX_KEPT_BYTES = 8_000_000
"""Bytes of the messages that a log keeps; the oldest exchanges are dropped."""

_Key: TypeAlias = "tuple[str, str, str | int | float | None]"
"""Server, direction of the request, and id or progress token."""
_OTHER = {"sent": "received", "received": "sent"}
_METHOD = re.compile(rb'"method"\s*:\s*"([^"\\]{1,200})"')
_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*,')
_ID_LAST = re.compile(rb'"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class TrafficLog:
    """The latest exchanges with all servers, numbered in the order of their first messages."""

    def __init__(self, lines: Iterable[TrafficLine] = (), *, first: int = 1) -> None:
        """`first` is the number of the first exchange."""
        self._exchanges: deque[TrafficExchange] = deque()
        self._waiting: dict[_Key, TrafficExchange] = {}
        self._by_token: dict[_Key, TrafficExchange] = {}
        self._keys: dict[TrafficExchange, tuple[_Key, _Key]] = {}
        """Requests, and their keys in the tables above."""
        self._bytes = 0
        self._count = first - 1
        for line in lines:
            self.add(line)

    def all(self) -> list[TrafficExchange]:
        """The exchanges, oldest first."""
        return list(self._exchanges)

    def messages(self, wanted: Callable[[TrafficExchange], bool] = lambda _: True) -> list[TrafficLine]:
        """The kept messages of the exchanges that are wanted, oldest first."""
        lines: list[TrafficLine] = []
        for exchange in filter(wanted, self._exchanges):
            lines += [exchange.request, *exchange.related]
            lines += [] if exchange.answer is None else [exchange.answer]
        return sorted(lines, key=lambda line: line.at)

    def find(self, number: int) -> TrafficExchange | None:
        """The exchange with a number; None if there is none, or it was dropped."""
        first = self._exchanges[0].number if self._exchanges else 0
        place = number - first
        return self._exchanges[place] if 0 <= place < len(self._exchanges) else None

    def add(self, line: TrafficLine) -> list[TrafficExchange]:
        """Add a message; returns the exchanges that it began, continued or completed."""
        touched = [self._message(part, content) for part, content in _messages(line)]
        while len(self._exchanges) > MAX_EXCHANGES or (self._bytes > MAX_KEPT_BYTES and len(self._exchanges) > 1):
            self._drop(self._exchanges.popleft())
        return list(dict.fromkeys(touched))

    def _message(self, line: TrafficLine, content: dict[str, Any]) -> TrafficExchange:
        self._bytes += len(line.message)
        method = content.get("method")
        if not isinstance(method, str):
            return self._answer(line, content)
        params: Any = content.get("params")
        if "id" in content:
            return self._request(line, method, params, content["id"])
        related = self._related_request(line, method, params)
        if related is None:
            return self._begin(line, method, params, "notification")
        if not related.relate(line):
            self._bytes -= len(line.message)
        if method == "notifications/cancelled" and related.outcome == "waiting":
            related.outcome, related.error = "cancelled", _text(params, "reason")
        return related

    def _request(self, line: TrafficLine, method: str, params: Any, id: Any) -> TrafficExchange:
        exchange = self._begin(line, method, params, "waiting")
        by_id = _key(line, line.direction, id)
        by_token = _key(line, line.direction, _member(_member(params, "_meta"), "progressToken"))
        before = self._waiting.get(by_id)
        if before is not None and before.outcome == "waiting":
            before.outcome = "no answer"
        self._waiting[by_id] = exchange
        if by_token[2] is not None:
            self._by_token[by_token] = exchange
        self._keys[exchange] = by_id, by_token
        return exchange

    def _answer(self, line: TrafficLine, content: dict[str, Any]) -> TrafficExchange:
        exchange = self._waiting.pop(_key(line, _OTHER[line.direction], content.get("id")), None)
        if exchange is None:
            return self._begin(line, "", None, "error" if "error" in content else "notification")
        exchange.answer = line
        if exchange.outcome == "waiting":
            _complete(exchange, content)
        return exchange

    def _related_request(self, line: TrafficLine, method: str, params: Any) -> TrafficExchange | None:
        """The request that a notification is about."""
        if method == "notifications/progress":
            return self._by_token.get(_key(line, _OTHER[line.direction], _member(params, "progressToken")))
        if method == "notifications/cancelled":
            return self._waiting.get(_key(line, line.direction, _member(params, "requestId")))
        subscription = _member(_member(params, "_meta"), SUBSCRIPTION_ID)
        if subscription is None:
            return None
        return self._waiting.get(_key(line, _OTHER[line.direction], subscription))

    def _begin(self, line: TrafficLine, method: str, params: Any, outcome: Any) -> TrafficExchange:
        self._count += 1
        exchange = TrafficExchange(self._count, line, method, subject_of(method, params), outcome)
        self._exchanges.append(exchange)
        return exchange

    def _drop(self, exchange: TrafficExchange) -> None:
        lines = [exchange.request, *exchange.related, *([] if exchange.answer is None else [exchange.answer])]
        self._bytes -= sum(len(line.message) for line in lines)
        for table, key in zip((self._waiting, self._by_token), self._keys.pop(exchange, ()), strict=False):
            if table.get(key) is exchange:
                del table[key]


def _complete(exchange: TrafficExchange, content: dict[str, Any]) -> None:
    error, result = content.get("error"), content.get("result")
    if error is not None:
        exchange.outcome, exchange.error = "error", _text(error, "message")
    elif _member(result, "isError") is True:
        exchange.outcome, exchange.error = "tool error", _first_text(result)
    elif _member(result, "resultType") == "input_required":
        exchange.outcome = "input required"
    else:
        exchange.outcome = "ok"


def _messages(line: TrafficLine) -> list[tuple[TrafficLine, dict[str, Any]]]:
    """The message, or the messages of a batch; one that was cut off is known by its method and id only."""
    try:
        content: Any = msgspec.json.decode(line.message)
    except (msgspec.MsgspecError, RecursionError):
        return [(line, _cut_message(line))]
    if not isinstance(content, list):
        return [(line, cast("dict[str, Any]", content) if isinstance(content, dict) else {})]
    parts: list[tuple[TrafficLine, dict[str, Any]]] = []
    for part in cast("list[Any]", content):
        message = msgspec.json.encode(part)
        single = msgspec.structs.replace(line, message=message, size=len(message))
        parts.append((single, cast("dict[str, Any]", part) if isinstance(part, dict) else {}))
    return parts


def _cut_message(line: TrafficLine) -> dict[str, Any]:
    """The members that can be found in the beginning and the end of a message."""
    content: dict[str, Any] = {}
    # The method of a request stands before its params, or there is none in the beginning: it is an answer.
    head = line.message[:1_000]
    if (method := _METHOD.search(head)) is not None and not re.search(rb'"(result|error)"\s*:', head[: method.start()]):
        content["method"] = method[1].decode(errors="replace")
    id = _ID_FIRST.search(head) or (_ID_LAST.search(line.tail) if line.tail else None)
    if id is not None:
        content["id"] = msgspec.json.decode(id[1])
    if "method" not in content:
        content["error" if b'"error"' in head[:100] else "result"] = {}
    return content


def _key(line: TrafficLine, direction: str, id: Any) -> _Key:
    return (line.server, direction, id if isinstance(id, str | int | float) else None)


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _text(value: Any, name: str) -> str:
    text = _member(value, name)
    return text if isinstance(text, str) else ""


def _first_text(result: Any) -> str:
    content: Any = _member(result, "content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return next((text for text in (_text(block, "text") for block in blocks) if text), "")
