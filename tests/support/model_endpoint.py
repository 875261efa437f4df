"""An endpoint for models on a real socket: it answers as it is told, keeps what it received, and sees who leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.http import serving

Piece = bytes | float | asyncio.Event
"""Bytes to send, seconds to wait, or something to wait for."""


@dataclass
class ModelRequest:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Answer:
    """A response, piece by piece."""

    pieces: Sequence[Piece]
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    breaks: bool = False
    """The connection breaks at the end, in the middle of the response."""


@dataclass
class Endpoint:
    """What a test says and sees; with no answer left, the last one is given again."""

    answers: list[Answer] = field(default_factory=list[Answer])
    asked: list[ModelRequest] = field(default_factory=list[ModelRequest])
    url: str = ""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closes its connection before the response is complete."""

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append(ModelRequest(scope["path"], headers, json.loads(body)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        watching = asyncio.create_task(self._watch(receive))
        writing = asyncio.create_task(self._write(answer, send))
        await asyncio.wait((watching, writing), return_when=asyncio.FIRST_COMPLETED)
        if not writing.done():
            self.left.set()
        for task in (watching, writing):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _write(self, answer: Answer, send: Any) -> None:
        kind = [(b"content-type", answer.kind.encode())]
        kind += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": kind})
        for piece in answer.pieces:
            if isinstance(piece, bytes):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            elif isinstance(piece, float | int):
                await asyncio.sleep(piece)
            else:
                await piece.wait()
        if answer.breaks:
            raise BrokenOff
        await send({"type": "http.response.body"})


class BrokenOff(Exception):
    """uvicorn closes the connection of an application that fails in the middle of a response."""


@contextlib.asynccontextmanager
async def endpoint(*answers: Answer) -> AsyncIterator[Endpoint]:
    """Serve an endpoint that gives these answers, one after the other."""
    told = Endpoint(list(answers))
    async with serving(told.app, interface="asgi3") as url:
        told.url = url
        yield told


def failure(status: int, message: str, **more: Any) -> Answer:
    """An error as both providers write it."""
    body = {"type": "error", "error": {"type": "problem", "message": message, **more}}
    return Answer([json.dumps(body).encode()], status=status, kind="application/json")


def openai_events(*deltas: dict[str, Any], reason: str | None = "stop", usage: bool = True) -> list[bytes]:
    """A stream of chat completion chunks: each delta in one of its own, then the end."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1"}
    choices: Iterable[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks: list[dict[str, Any]] = [{**head, "choices": [choice]} for choice in choices]
    if reason is not None:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if usage:
        counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        chunks.append({**head, "choices": [], "usage": counts})
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


def openai_answer(*deltas: dict[str, Any], reason: str | None = "stop") -> Answer:
    """A whole answer in OpenAI's words."""
    return Answer(openai_events(*deltas, reason=reason))


def anthropic_events(*blocks: dict[str, Any], reason: str | None = "end_turn") -> list[bytes]:
    """A stream of message events: each block comes in two pieces, then the end."""
    head = {
        "id": "m1", "type": "message", "role": "assistant", "model": "claude-tiny-1", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 1},
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(blocks):
        whole = block["text"] if block["type"] == "text" else block["input"]
        name, field_name = ("text_delta", "text") if block["type"] == "text" else ("input_json_delta", "partial_json")
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        half = len(whole) // 2
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": name, field_name: piece}}
            for piece in (whole[:half], whole[half:])
        ]
        events.append({"type": "content_block_stop", "index": index})
    if reason is not None:
        delta = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}})
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def anthropic_answer(*blocks: dict[str, Any], reason: str | None = "end_turn") -> Answer:
    """A whole answer in Anthropic's words."""
    return Answer(anthropic_events(*blocks, reason=reason))
