"""What other implementations get wrong, as far as no other test shows it.

Elsewhere: an unknown tool (test_tools), an unknown prompt and a crash in a resource or prompt (test_resources), an
empty server (test_lifecycle); 415 on the envelope era (tests/server/http/test_asgi_app), an unknown Last-Event-ID
(tests/server/http/test_resumption); an authorization server without PKCE (tests/client/test_oauth).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Annotations, Client, Embedded, RemoteError, ResourceLink, Server, Text, TextContents
from tests.support.http import serving
from tests.support.raw_http import SESSIONS, Site, initialize, request

WHEN = "2025-01-12T15:00:58Z"
MARKS = Annotations(audience=["user"], priority=0.5, last_modified=WHEN)
with_sessions = pytest.mark.parametrize("revision", SESSIONS)


def build() -> Server:
    server = Server("careful")

    @server.resource("note://{id}", annotations=MARKS)
    def note(id: str) -> str:
        return id

    @server.resource("note://first", annotations=MARKS)
    def first() -> str:
        return "first"

    @server.prompt
    def quote() -> list[Text | Embedded]:
        return [Text("words", MARKS), Embedded(TextContents("note://first", "first"), MARKS)]

    @server.prompt
    def choose(word: str) -> str:
        return word

    @server.completion("choose", "word")
    def words(value: str) -> list[str]:
        raise RuntimeError("the dictionary is on fire")

    @server.tool
    def link() -> ResourceLink:
        return ResourceLink("note://first", "first", annotations=MARKS)

    return server


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    async with serving(build().asgi()) as url, Site(url) as site:
        yield site


class TestLastModified:
    """2025-06-18 brought `annotations.lastModified`; some drop it on the way."""

    @pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
    async def test_it_survives_wherever_there_are_annotations(self, revision: str) -> None:
        async with Client(build(), revision=revision) as client:
            resources, templates = await client.resources(), await client.resource_templates()
            quoted = [message.content for message in (await client.prompt("quote")).messages]
            called = (await client.call("link")).content
        marked = [*resources, *templates, *quoted, *called]
        assert len(marked) == 5
        assert [getattr(one, "annotations", None) for one in marked] == [MARKS] * 5


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_crash_while_completing_has_the_same_code_on_every_revision(revision: str) -> None:
    async with Client(build(), revision=revision) as client:
        with pytest.raises(RemoteError) as error:
            await client.complete("choose", "word", "a")
    assert error.value.code == -32603
    assert "Traceback" not in error.value.message


@with_sessions
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_415_is_415_with_and_without_a_session(revision: str, kind: str) -> None:
    """Not 400 and not 406: the body is what is wrong."""
    async with open_site() as site:
        session = await site.session(revision)
        wrong = {"Content-Type": kind}
        assert (await site.post(initialize(revision), wrong)).status == 415
        assert (await session.post(request("tools/list"), **wrong)).status == 415
        assert (await session.ask("tools/list")).status == 200


@with_sessions
async def test_an_unknown_last_event_id_is_refused_and_nothing_else_breaks(revision: str) -> None:
    """Not a fresh stream: whoever asks for the rest must not believe that there was none."""
    async with open_site() as site:
        session = await site.session(revision)
        for last in ("nothing", "abcdef_1", "0", "-1_-1"):
            assert (await session.get(last=last)).status == 400
        assert (await session.ask("ping")).status == 200


@with_sessions
async def test_404_for_a_session_makes_the_client_begin_anew(revision: str) -> None:
    """2025-03-26 and later, "Session Management": the client MUST start a new session."""
    endpoint = build().asgi()
    seen: list[str] = []

    async def observed(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value.decode() for name, value in scope.get("headers", ()) if name == b"mcp-session-id")
        await endpoint(scope, receive, send)

    async with serving(observed) as url, Client(f"{url}/mcp", revision=revision) as client, Site(url) as site:
        assert await client.tools()
        [old] = set(seen)
        ended = await site.ask("DELETE", {"Mcp-Session-Id": old, "MCP-Protocol-Version": revision})
        assert ended.status in (200, 204)
        seen.clear()
        assert (await client.call("link")).content, "the call that found it out is sent again"
        assert set(seen) - {old}, "in a session of its own"
