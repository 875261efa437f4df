"""One uvicorn for many applications, each under its own path, and an observer of its traffic."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

from tests.support.http import Asgi, serving

Scope = MutableMapping[str, Any]
Observer = Callable[[str, bytes], None]
"""Called with "received" or "sent", as the server sees it, and a message."""


class Applications:
    """Applications that come and go behind one address."""

    def __init__(self) -> None:
        self._mounted: dict[str, Asgi] = {}
        self._numbers = itertools.count(1)
        self.url = ""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        name = scope["path"].split("/")[1]
        app = self._mounted.get(name)
        if app is not None:
            await app({**scope, "root_path": f"/{name}"}, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
        else:
            await receive()
            await send({"type": "websocket.close"})

    @contextlib.contextmanager
    def mounted(self, app: Asgi, name: str | None = None):
        """Serve an application for a while; yields its address, without the scheme."""
        name = name or f"app{next(self._numbers)}"
        self._mounted[name] = app
        try:
            yield f"{self.url.partition(':')[2]}/{name}"
        finally:
            del self._mounted[name]


@contextlib.asynccontextmanager
async def applications() -> AsyncIterator[Applications]:
    """A place for applications. A connection stays open however long it is idle: tests may take long."""
    made = Applications()
    options: dict[str, Any] = {"lifespan": "off", "timeout_keep_alive": 3600, "ws_ping_interval": None}
    async with serving(made, **options) as url:
        made.url = url
        yield made


class Observed:
    """An application all of whose messages are shown to an observer, whatever they travel in.

    Nothing here is taken from the code under test.
    """

    def __init__(self, app: Asgi, observer: Observer) -> None:
        self._app = app
        self._observer = observer
        self.busy = 0
        """Requests that are being answered, and WebSockets that are open."""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        watch = _Frames if scope["type"] == "websocket" else _Exchange
        watching = watch(self._observer)

        async def observed_receive() -> Any:
            event = await receive()
            watching.came(event)
            return event

        async def observed_send(event: MutableMapping[str, Any]) -> None:
            watching.goes(event)
            await send(event)

        self.busy += 1
        try:
            await self._app(scope, observed_receive, observed_send)
        finally:
            self.busy -= 1


class _Frames:
    """Each text frame of a WebSocket is a message."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def came(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "websocket.receive":
            self._observer("received", event["text"].encode())

    def goes(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "websocket.send":
            self._observer("sent", event["text"].encode())


class _Exchange:
    """The body of an HTTP request, and of a response that is JSON or events."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._request = b""
        self._response = b""
        self._kind = b""

    def came(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.request":
            self._request += event.get("body", b"")
            if self._request and not event.get("more_body"):
                self._observer("received", self._request)
                self._request = b""

    def goes(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            found = {name.lower(): value for name, value in event["headers"]}
            self._kind = found.get(b"content-type", b"").partition(b";")[0]
            return
        self._response += event.get("body", b"")
        if self._kind == b"text/event-stream":
            *events, self._response = self._response.split(b"\n\n")
            for each in events:
                self._event(each)
        elif self._kind == b"application/json" and not event.get("more_body"):
            self._observer("sent", self._response)

    def _event(self, lines: bytes) -> None:
        fields: dict[bytes, list[bytes]] = {}
        for line in lines.split(b"\n"):
            name, _, value = line.partition(b":")
            fields.setdefault(name, []).append(value.removeprefix(b" "))
        data = b"\n".join(fields.get(b"data", []))
        if data and fields.get(b"event", [b"message"]) == [b"message"]:
            self._observer("sent", data)
