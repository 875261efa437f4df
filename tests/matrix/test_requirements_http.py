"""Requirements on HTTP that only show in the headers and states of real requests."""

import contextlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.protocol.revisions import ENVELOPE
from tests.support.http import Asgi, serving
from tests.support.raw_http import BOTH, EVENTS, JSON, SESSIONS, modern, modern_headers, notification
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

every_revision = pytest.mark.parametrize("revision", [*SESSIONS, *ENVELOPE])
with_sessions = pytest.mark.parametrize("revision", SESSIONS)


class Noted:
    """An application that notes the method and headers of every request."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self.requests: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append((scope["method"], headers))
        await self._app(scope, receive, send)

    def of(self, method: str) -> list[dict[str, str]]:
        return [headers for name, headers in self.requests if name == method]


@contextlib.asynccontextmanager
async def noted(server: Server) -> AsyncIterator[tuple[str, Noted]]:
    app = server.asgi()
    note = Noted(app)
    async with serving(note) as url:
        try:
            yield f"{url}/mcp", note
        finally:
            await app.close(0)


def accepted(headers: dict[str, str]) -> set[str]:
    return {kind.partition(";")[0].strip() for kind in headers["accept"].split(",")}


@every_revision
async def test_a_post_accepts_json_and_events(revision: str) -> None:
    """Requests, notifications, and the very first message alike."""
    async with noted(Workshop()) as (url, note), Client(url, revision=revision) as client:
        await client.call("echo", text="x")
    posts = note.of("POST")
    assert len(posts) >= (2 if revision in ENVELOPE else 3)
    assert all({JSON, EVENTS} <= accepted(headers) for headers in posts)
    assert all(headers["content-type"] == JSON for headers in posts)


@with_sessions
async def test_a_get_accepts_events(revision: str) -> None:
    async with noted(Workshop()) as (url, note), Client(url, revision=revision):
        await until(lambda: note.of("GET"))
    assert all(EVENTS in accepted(headers) for headers in note.of("GET"))


@with_sessions
async def test_the_id_of_a_session_stays_with_its_server(revision: str) -> None:
    """It is in no URL, where logs and other pages would see it, and another server never gets it."""
    async with (
        noted(Workshop()) as (url, first),
        noted(Workshop()) as (other_url, second),
        Client(url, revision=revision) as client,
        Client(other_url, revision=revision) as other,
    ):
        await client.call("echo", text="x")
        await other.call("echo", text="x")
    [mine] = {headers["mcp-session-id"] for _, headers in first.requests if "mcp-session-id" in headers}
    [theirs] = {headers["mcp-session-id"] for _, headers in second.requests if "mcp-session-id" in headers}
    assert mine != theirs
    assert not [headers for _, headers in second.requests if mine in "".join(headers.values())]


@with_sessions
@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc": "2.0", "method": 5}', b'{"method": "notifications/initialized"}'])
async def test_a_notification_that_cannot_be_taken_is_an_http_error(revision: str, body: bytes) -> None:
    async with workshop() as (_, site, _):
        session = await site.session(revision)
        assert 400 <= (await session.post(body)).status < 500
        assert (await session.post(notification("notifications/initialized"))).status == 202


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc": "2.0", "method": 5}'])
async def test_a_notification_of_the_envelope_era_is_accepted_with_202(body: bytes) -> None:
    async with workshop() as (_, site, _):
        headers = {"MCP-Protocol-Version": ENVELOPE[-1], "Mcp-Method": "notifications/cancelled"}
        assert 400 <= (await site.post(body, headers)).status < 500


@with_sessions
async def test_the_ids_of_events_are_unique_in_their_session(revision: str) -> None:
    """Over the streams of several calls and the stream of the session."""
    async with workshop() as (server, site, _):
        session = await site.session(revision)
        ids: list[str | None] = []
        for token in range(3):
            answer = await session.call("tell", token=token, count=3)
            ids += [event.id for event in await answer.all()]
        stream = await session.get()
        server.tool(lambda: "x", name="new")
        while (event := await stream.next()) is not None:
            ids.append(event.id)
            if event.data:
                break
        assert None not in ids
        assert len(ids) >= 13
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("write", [str.upper, str.lower, str.title])
async def test_the_names_of_headers_are_compared_whatever_their_case(write: Any) -> None:
    async with workshop() as (_, site, _):
        message = modern("tools/call", name="echo", arguments={"text": "x"})
        right = {write(name): value for name, value in modern_headers(message).items()}
        assert (await site.post(message, {**right, write("Accept"): BOTH})).status == 200
        wrong = {**right, write("Mcp-Name"): "other"}
        answer = await site.post(message, {**wrong, write("Accept"): BOTH})
        assert (answer.status, (await answer.error())["code"]) == (400, -32020)
