"""What once went wrong between a client and a server of different eras."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, Refused, RemoteError, Server
from dovetail.protocol.revisions import REVISIONS
from tests.support.waiting import until

PROGRAMS = Path(__file__).parent / "programs"
HANDSHAKE = [name for name in REVISIONS if REVISIONS[name].era == "handshake"]
ENVELOPE = next(name for name in REVISIONS if REVISIONS[name].era == "envelope")


@contextlib.asynccontextmanager
async def joined(server: Any, revision: str, **options: Any) -> AsyncGenerator[Client]:
    """A client of a gateway for one server, `s`; both are closed after it."""
    gateway = Gateway({"s": server})
    try:
        async with Client(gateway, revision=revision, timeout=10, **options) as client:
            yield client
    finally:
        await gateway.close()


def asking_server() -> Server:
    """A server that asks in rounds."""
    server = Server("asking", revisions=[ENVELOPE])

    @server.tool
    async def page(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", "https://a.example/in")).action

    @server.tool
    async def poem(ctx: Context) -> str:
        return (await ctx.sample("Write", max_tokens=5)).text

    return server


async def test_a_page_of_a_server_with_rounds_has_an_id_for_a_client_that_requires_one() -> None:
    """Clients of the official SDKs refuse a request for a page without `elicitationId` on 2025-11-25."""
    ids: list[str | None] = []

    def open_page(question: Any) -> str:
        ids.append(question.id)
        return "accept"

    async with joined(asking_server(), HANDSHAKE[-1], on_elicit=open_page) as client:
        assert (await client.call("s__page")).text == "accept"
    assert len(ids) == 1
    assert ids[0]


async def test_an_error_as_the_answer_to_a_server_with_rounds_is_named_for_the_caller() -> None:
    """Rounds carry answers and no errors, so that the call ends; it was an internal error without a reason."""

    def refuse(params: Any) -> str:
        raise Refused("not today")

    async with joined(asking_server(), HANDSHAKE[-1], on_sample=refuse) as client:
        with pytest.raises(RemoteError, match="answered what the server asked with an error: User rejected sampling"):
            await client.call("s__poem")


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_the_connection_that_reads_the_instructions_is_the_one_that_the_session_uses(revision: str) -> None:
    """It was opened without the capabilities of the client, so that each server was started twice."""
    server = Server("counted", revisions=[HANDSHAKE[-1]], instructions="Ask away.")
    gateway = Gateway({"s": server})
    try:
        async with Client(
            gateway, revision=revision, roots=["/tmp"], on_sample=lambda params: "x", timeout=10
        ) as client:
            assert client.instructions is not None
            await client.tools()
            assert gateway.status["servers"]["s"]["connections"] == 1
    finally:
        await gateway.close()


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_message_that_a_server_logs_between_calls_reaches_the_session(revision: str) -> None:
    heard: list[Any] = []
    both = asyncio.Event()

    def note(level: str, data: Any, name: str | None) -> None:
        heard.append(data)
        if len(heard) == 2:
            both.set()

    async with joined([sys.executable, str(PROGRAMS / "late_log_server.py")], revision, on_log=note) as client:
        await client.call("s__talk")
        async with asyncio.timeout(10):
            await both.wait()
    assert heard == ["during the call", "after the call"]


def server_with_tasks(runs: list[str]) -> Server:
    """A server that decides by itself which of its calls are tasks."""
    server = Server("tasks", revisions=[ENVELOPE])

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.log.warning("counted")
        return "counted"

    @server.tool(task="optional")
    async def render(scene: str) -> str:
        runs.append(scene)
        return f"movie of {scene}"

    return server


async def test_a_call_that_its_server_makes_no_task_of_keeps_its_progress_and_log() -> None:
    """The gateway made a task of each call to a server that has tasks, and tasks carry neither."""
    progress: list[float] = []
    heard: list[Any] = []
    runs: list[str] = []
    note = lambda level, data, name: heard.append(level)  # noqa: E731
    async with joined(server_with_tasks(runs), ENVELOPE, on_log=note) as client:
        result = await client.call("s__count", progress=lambda done, total, text: progress.append(done))
        assert result.data == "counted"
        assert progress == [1]
        assert heard == ["warning"]
        started = await client.start("s__count")
        assert started.id is None


async def test_a_call_that_its_server_makes_a_task_of_is_a_task_and_is_sent_once() -> None:
    runs: list[str] = []
    async with joined(server_with_tasks(runs), ENVELOPE) as client:
        task = await client.start("s__render", scene="sea")
        assert task.id is not None
        assert (await task.result()).data == "movie of sea"
    assert runs == ["sea"]


async def test_a_change_that_one_connection_of_a_client_hears_of_is_in_its_list(tmp_path: Path) -> None:
    """Calls at the same time have connections of their own, and the list was that of the first."""
    file = tmp_path / "tools"
    file.write_text("hold\ngrow\n")
    server = [sys.executable, str(PROGRAMS / "growing_server.py"), str(file)]
    async with joined(server, ENVELOPE, on_elicit=lambda question: None) as client:
        assert {tool.name for tool in await client.tools()} == {"s__hold", "s__grow"}
        holding = asyncio.ensure_future(client.call("s__hold"))
        async with asyncio.timeout(10):
            await until(file.with_suffix(".held").exists)
        await client.call("s__grow")
        assert "s__grown" in {tool.name for tool in await client.tools()}
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


@pytest.mark.parametrize("revision", [HANDSHAKE[-1], ENVELOPE])
async def test_a_list_that_changes_while_it_is_fetched_is_fetched_again(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "tools"
    file.touch()
    server = [sys.executable, str(PROGRAMS / "growing_server.py"), str(file)]
    async with joined(server, revision) as client:
        await client.tools()
        assert {tool.name for tool in await client.tools()} == {"s__grown"}


@pytest.mark.parametrize("revision", list(REVISIONS))
async def test_a_client_warns_of_servers_that_are_missing_from_a_list(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway({"s": asking_server(), "gone": [sys.executable, "-c", "raise SystemExit(1)"]})
    try:
        async with Client(gateway, revision=revision, timeout=10) as client:
            assert await client.tools()
    finally:
        await gateway.close()
    assert any("The server 'gone' behind the gateway is unavailable" in message for message in caplog.messages)
