"""A server out of a transcript, on every revision."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, DovetailError, RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.testing import Line, Replay, Script, Transcript
from dovetail.transports.memory import memory_pair
from tests.support.peer import Peer
from tests.testing.booking import booking

every_revision = pytest.mark.parametrize("revision", REVISIONS)
asking = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])


async def visit(client: Client) -> list[Any]:
    """Do several things; the outcome."""
    seen: list[float] = []
    outcomes = [len(await client.tools()), (await client.call("add", a=1, b=2)).data]
    outcomes.append((await client.call("count", to=3, progress=lambda *step: seen.append(step[0]))).data)
    with pytest.raises(RemoteError) as unknown:
        await client.call("nothing")
    return [*outcomes, seen, unknown.value.code]


async def recorded(revision: str | None, script: Script | None = None, **options: Any) -> Transcript:
    transcript = Transcript()
    answers = {} if script is None else script.options
    async with Client(booking(), revision=revision, trace=transcript, **answers, **options) as client:
        await (visit(client) if script is None else client.call("book", city="Lima"))
    return transcript


def answers() -> Script:
    return Script().elicit("When", {"day": "Monday"}).elicit("nights", {"ok": True})


@every_revision
async def test_a_client_gets_the_same_from_the_transcript(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "visit.jsonl"
    (await recorded(revision)).save(file)
    replay = Replay(file)
    async with Client(replay, revision=revision) as client:
        outcome = await visit(client)
    replay.check()
    async with Client(booking(), revision=revision) as client:
        assert outcome == await visit(client)


async def test_the_era_is_found_out_again() -> None:
    for revision in (None, "2025-11-25"):  # the second has no probe in it
        replay = Replay(await recorded(revision))
        async with Client(replay) as client:
            assert client.revision == (revision or "2026-07-28")
            await visit(client)
        replay.check()


@asking
async def test_a_replay_asks_the_recorded_questions(revision: str) -> None:
    before, again, script = await recorded(revision, answers()), Transcript(), answers()
    replay = Replay(before)
    async with Client(replay, revision=revision, trace=again, **script.options) as client:
        assert (await client.call("book", city="Lima")).data == "Lima on Monday"
    replay.check()
    script.check()
    assert again.lines == before.lines


@asking
async def test_another_answer_than_then_is_noticed(revision: str) -> None:
    replay = Replay(await recorded(revision, answers()))
    script = Script().elicit("When", {"day": "Friday"}).elicit("nights", {"ok": True})
    async with Client(replay, revision=revision, **script.options) as client:
        try:
            await client.call("book", city="Lima")
        except DovetailError:
            assert revision == "2026-07-28"  # where the answer is part of a request, which is none of those then
    with pytest.raises(AssertionError, match=r'(?s)-.*"Monday".*\+.*"Friday"'):
        replay.check()


@every_revision
async def test_calls_may_come_in_another_order(revision: str) -> None:
    transcript = Transcript()
    async with Client(booking(), revision=revision, trace=transcript) as client:
        await asyncio.gather(client.call("add", a=1, b=1), client.call("count", to=2), client.call("add", a=2, b=2))
    replay = Replay(transcript)
    async with Client(replay, revision=revision) as client:
        assert (await client.call("add", a=2, b=2)).data == 4
        assert (await client.call("count", to=2)).data == 2
        assert (await client.call("add", a=1, b=1)).data == 2
    replay.check()


@every_revision
async def test_a_request_that_is_not_there_fails_and_says_how_it_differs(revision: str) -> None:
    replay = Replay(await recorded(revision))
    async with Client(replay, revision=revision) as client:
        with pytest.raises(RemoteError, match="The transcript has no tools/call 'add' like this one"):
            await client.call("add", a=1, b=3)
        with pytest.raises(RemoteError, match="no resources/read 'a://b'"):
            await client.read("a://b")
    with pytest.raises(AssertionError) as failure:
        replay.check()
    told = str(failure.value)
    assert '-      "b": 2' in told
    assert '+      "b": 3' in told
    assert "The client did not send tools/call 'count'" in told
    assert len(replay.problems) == 2


def test_a_replay_that_nobody_talked_to_fails_its_check() -> None:
    with pytest.raises(AssertionError, match="No client came"):
        Replay(Transcript()).check()


async def test_progress_goes_only_to_who_asks_for_it() -> None:
    transcript = Transcript()
    async with Client(booking(), trace=transcript) as client:
        await client.call("count", to=2, progress=lambda *_: None)
    replay = Replay(transcript)
    heard: list[str] = []
    async with Client(replay, trace=lambda way, line: heard.append(f"{way} {line.decode()}")) as client:
        await client.call("count", to=2)
    replay.check()
    assert not [line for line in heard if "notifications/progress" in line]


@every_revision
async def test_lists_may_be_asked_for_as_often_as_one_likes(revision: str) -> None:
    replay = Replay(await recorded(revision))
    async with Client(replay, revision=revision) as client:
        outcome = await visit(client)
        assert len(await client.tools()) == len(await client.tools()) == outcome[0]
        with pytest.raises(RemoteError, match="no tools/call 'add'"):
            await client.call("add", a=1, b=2)
    assert len(replay.problems) == 1


async def test_an_answer_belongs_to_the_id_of_its_own_type() -> None:
    def said(sender: Any, **message: Any) -> Line:
        return Line(sender, {"jsonrpc": "2.0", **message})

    lines = [
        said("client", id=1, method="ping"),
        said("client", id="1", method="tools/list"),
        said("server", id=1, result={}),
    ]
    ours, theirs = memory_pair()
    peer, serving = Peer(ours), asyncio.create_task(Replay(Transcript(lines)).serve(theirs))
    peer.send({"jsonrpc": "2.0", "id": 5, "method": "ping"})
    assert await peer.next() == {"jsonrpc": "2.0", "id": 5, "result": {}}
    await ours.close()
    await serving


async def test_what_a_server_says_by_itself_is_said_again() -> None:
    server, transcript = booking(), Transcript()
    async with Client(server, trace=transcript) as client:
        watching = client.watch(tools=True)
        coming = asyncio.ensure_future(anext(watching))
        while not any("subscriptions/acknowledged" in str(line.message) for line in transcript.lines):
            await asyncio.sleep(0.001)
        server.remove_tool("add")
        await coming
        await watching.aclose()
    replay = Replay(transcript)
    async with Client(replay) as client:
        watching = client.watch(tools=True)
        assert (await anext(watching)).kind == "tools"
        await watching.aclose()


async def test_a_command_can_be_recorded_too() -> None:
    transcript = Transcript()
    code = f"import sys; sys.path[:0] = {sys.path!r}; from tests.testing.booking import server; server.run()"
    async with Client([sys.executable, "-c", code], trace=transcript) as client:
        expected = await visit(client)
    replay = Replay(transcript)
    async with Client(replay) as client:
        assert await visit(client) == expected
    replay.check()


async def test_lines_before_the_first_of_the_client_are_said_at_once() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    transcript = await recorded("2025-11-25")
    transcript.lines.insert(0, Line("server", note))
    heard: list[bytes] = []
    async with Client(Replay(transcript), revision="2025-11-25", trace=lambda way, line: heard.append(line)):
        pass
    assert any(b"list_changed" in line for line in heard[:2])
