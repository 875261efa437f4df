"""A server behind a URL that does what a test says, message by message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from tests.support.scripted import Error, discovery, welcome
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer

PAGE = b"<html><title>It works</title></html>"


class Site(ScriptedHttpServer):
    """Answers from a table, as `Scripted` does; with sessions, it begins one at every initialize."""

    def __init__(self, *, sessions: bool = False, listen: bool = False, **answers: Any) -> None:
        super().__init__(self._talk)
        self.answers: dict[str, Any] = {key.replace("_", "/", 1): value for key, value in answers.items()}
        self._sessions = sessions
        self._listen = listen
        self.session = 0
        self.stream: ResponseWriter | None = None
        self.listening = asyncio.Event()

    @property
    def methods(self) -> list[str]:
        """The messages that came, in order; other HTTP methods by their names."""
        return [
            asked.message.get("method", "answer") if asked.method == "POST" else asked.method for asked in self.asked
        ]

    async def _talk(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.method != "POST":
            await self._other(asked, line)
            return
        message = asked.message
        method = message.get("method")
        if self._sessions and method != "initialize" and asked.headers.get("mcp-session-id") != f"s{self.session}":
            await line.answer(404 if "mcp-session-id" in asked.headers else 400, b"no such session", "text/plain")
        elif "id" not in message or method is None:
            await line.answer(202)
        else:
            await self._answer(asked, line)

    async def _answer(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        method = asked.message["method"]
        answer: Any = self.answers.get(method, Error(-32601, "Method not found"))
        if callable(answer):
            answer = answer(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
        headers: dict[str, str] = {}
        if method == "initialize" and self._sessions:
            self.session += 1
            headers["mcp_session_id"] = f"s{self.session}"
        if isinstance(answer, Status):
            await line.answer(answer.status, answer.body, answer.kind)
        elif isinstance(answer, Error):
            await line.json({"jsonrpc": "2.0", "id": asked.id, "error": answer.body}, 400)
        else:
            await line.result(asked, answer, **headers)

    async def _other(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.method == "GET" and self._listen:
            self.stream = line
            await line.stream()
            self.listening.set()
            await line.until_gone()
        else:
            await line.answer(200 if asked.method == "DELETE" else 405)


class Status:
    """An HTTP status to answer with."""

    def __init__(self, status: int, body: bytes = b"", kind: str | None = None) -> None:
        self.status = status
        self.body = body
        self.kind = kind


def modern(**answers: Any) -> Site:
    """A server of the envelope era."""
    return Site(**{"server_discover": discovery(), **answers})


def legacy(**answers: Any) -> Site:
    """A server of the handshake era, with sessions."""
    return Site(**{"sessions": True, "initialize": welcome(), **answers})
