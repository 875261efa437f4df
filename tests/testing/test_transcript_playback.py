"""Transcripts played to a server: the same server passes, another one is described."""

import re
import sys
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.revisions import REVISIONS
from dovetail.testing import Line, Script, Transcript, TranscriptDiffers, play_back
from tests.testing.booking import booking

every_revision = pytest.mark.parametrize("revision", REVISIONS)
asking = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])


async def recorded(server: Server, revision: str, script: Script | None = None, **arguments: Any) -> Transcript:
    transcript = Transcript()
    options = {} if script is None else script.options
    async with Client(server, revision=revision, trace=transcript, **options) as client:
        await client.tools()
        await client.call(arguments.pop("tool", "add"), arguments or {"a": 1, "b": 2})
    return transcript


@every_revision
async def test_the_same_server_answers_the_same(revision: str) -> None:
    await play_back(await recorded(booking(), revision), booking("2.0.0"))


async def test_a_server_in_another_process_is_played_to_as_well() -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; from tests.testing.booking import server; server.run()"
    await play_back(await recorded(booking(), "2026-07-28"), [sys.executable, "-c", code])


@asking
async def test_questions_and_sealed_states_of_another_server_are_understood(revision: str) -> None:
    script = Script().elicit("When", {"day": "Monday"}).elicit("nights", {"ok": True})
    transcript = await recorded(booking(), revision, script, tool="book", city="Lima")
    await play_back(transcript, booking())


async def test_a_server_may_number_its_questions_otherwise() -> None:
    script = Script().elicit("When", {"day": "Monday"}).elicit("nights", {"ok": True})
    transcript = await recorded(booking(), "2025-11-25", script, tool="book", city="Lima")
    asked = {line.message["id"] for line in transcript.lines if line.message.get("method") == "elicitation/create"}
    transcript.lines = [
        Line(line.sender, {**line.message, "id": f"question {line.message['id']}"})
        if line.message.get("id") in asked and (line.sender == "server") == ("method" in line.message)
        else line
        for line in transcript.lines
    ]
    assert any(line.message.get("id") == "question 1" for line in transcript.lines if line.sender == "client")
    await play_back(transcript, booking())


@every_revision
async def test_pages_of_another_server_are_followed(revision: str) -> None:
    def many() -> Server:
        server = Server("many", page_size=2)
        for number in range(5):
            server.tool(lambda: 1, name=f"tool{number}")
        return server

    transcript = Transcript()
    async with Client(many(), revision=revision, trace=transcript) as client:
        await client.tools()
    await play_back(transcript, many())


def clock(time: int) -> Server:
    server = Server("clock")

    @server.tool
    def now() -> dict[str, int]:
        return {"time": time, "zone": 0}

    return server


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_a_difference_is_shown_unless_it_is_ignored(revision: str) -> None:
    transcript = Transcript()
    async with Client(clock(1), revision=revision, trace=transcript) as client:
        await client.call("now")
    with pytest.raises(TranscriptDiffers) as failure:
        await play_back(transcript, clock(2))
    assert re.search(r'-\s+"time": 1', str(failure.value))
    assert re.search(r'\+\s+"time": 2', str(failure.value))
    await play_back(transcript, clock(2), ignore=["result.structuredContent.time", ("result", "content", "*", "text")])


async def test_an_answer_that_does_not_come_is_missed() -> None:
    transcript = await recorded(booking(), "2025-11-25")
    asked = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
    transcript.lines += [Line("client", asked), Line("server", {"jsonrpc": "2.0", "id": 98, "result": {}})]
    with pytest.raises(TranscriptDiffers, match=r"did not send the answer to 98 \(not within 0\.05 s\)") as failure:
        await play_back(transcript, booking(), timeout=0.05)
    assert "it sent the answer to 99" in str(failure.value)


async def test_a_server_that_goes_is_missed_at_once() -> None:
    transcript = await recorded(booking(), "2025-11-25")
    with pytest.raises(TranscriptDiffers, match="it is gone"):
        await play_back(transcript, [sys.executable, "-c", "pass"])


async def test_what_a_server_says_now_and_did_not_say_then_is_told() -> None:
    def chatty(words: int) -> Server:
        server = Server("chatty")

        @server.tool
        async def talk(ctx: Context) -> int:
            for word in range(words):
                ctx.notify("notifications/word", {"word": word})
            return 1

        return server

    transcript = Transcript()
    async with Client(chatty(0), revision="2025-11-25", trace=transcript) as client:
        await client.call("talk")
    with pytest.raises(TranscriptDiffers, match="now also sends notifications/word"):
        await play_back(transcript, chatty(1))
