"""Servers that end, are removed, or were never asked, in the middle of a request: it concerns nothing else."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import pytest

from dovetail import Client, Gateway, Policy, RemoteError, ResourceLink, Rule, Server, TextContents
from dovetail.gateway import SearchLimits, ServerSettings
from dovetail.gateway.servers import upstream
from dovetail.server.session import Session
from tests.gateway.gateway_process import ODD, Stopwatch, names
from tests.gateway.served import served

OLD, NEW = "2025-11-25", "2026-07-28"
ERAS = [OLD, NEW]


def odd(way: str) -> list[str]:
    return [sys.executable, str(ODD), way]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_that_ends_when_it_is_listed_is_missing_and_soon_not_started_any_more(revision: str) -> None:
    gateway = Gateway({"works": odd("works"), "ends": odd("end-lists")})
    async with Client(gateway, revision=revision, timeout=20) as client:
        for _ in range(5):
            tools, missing = await names(client)
            assert tools == {"works__pid", "works__echo", "works__wait"}
            assert missing["ends"]["status"] == "unavailable"
        with pytest.raises(RemoteError, match=r"not available: .* It is tried again in"):
            await client.call("ends__x")
        status = gateway.status["servers"]["ends"]
        assert status["state"] == "failing"
        assert status["refused"] == 1
        assert status["reason"]
        assert 'dovetail_gateway_refused_total{server="ends"} 1' in gateway._state.metrics_text()
    await gateway.close()


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("policy", [None, Policy([Rule("allow", server="*")])], ids=["open", "rules"])
async def test_a_server_that_is_removed_while_it_is_listed_is_not_in_the_list(
    revision: str, policy: Policy | None, caplog: pytest.LogCaptureFixture
) -> None:
    works = odd("works")
    gateway = Gateway(
        {"works": works, "hangs": odd("hang-lists"), "other": works},
        policy=policy,
        settings={"hangs": ServerSettings(list_seconds=30)},
    )
    async with Client(gateway, revision=revision, timeout=20) as client:
        listing = asyncio.create_task(names(client))
        async with asyncio.timeout(10):
            while gateway.status["servers"]["hangs"]["connections"] == 0 or not gateway.status["servers"]["other"].get(
                "tools"
            ):
                await asyncio.sleep(0.01)
        await gateway.update({"works": works})
        tools, _ = await listing
        assert "works__pid" in tools
        assert (await names(client))[0] == {"works__pid", "works__echo", "works__wait"}
        with pytest.raises(RemoteError, match="Unknown tool"):
            await client.call("other__pid")
    assert "was cancelled by its own handler" not in caplog.text
    await gateway.close()


async def test_the_log_level_of_a_session_does_not_wait_for_a_server_that_does_not_answer() -> None:
    gateway = Gateway({"works": odd("works"), "hangs": odd("hang-level")})
    async with Client(gateway, revision=OLD, timeout=20) as client:
        assert len(await client.tools()) == 6
        watch = Stopwatch()
        await client.request("logging/setLevel", {"level": "debug"})
        assert watch.seconds < 5
        assert (await client.call("works__echo", text="x")).text == "x"
    await gateway.close()


async def test_a_call_by_search_does_not_wait_for_a_server_that_does_not_answer() -> None:
    gateway = Gateway(
        {"works": odd("works"), "hangs": odd("hang-lists")},
        search_above=SearchLimits(tools=1),
        settings={"hangs": ServerSettings(list_seconds=30)},
    )
    async with Client(gateway, timeout=20) as client:
        assert (await client.call("works__echo", text="known from now on")).text == "known from now on"
        assert (await client.call("call_tool", {"name": "works__echo", "arguments": {"text": "x"}})).text == "x"
    await gateway.close()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_uri_is_ambiguous_also_if_one_of_its_servers_was_never_asked(revision: str) -> None:
    """The first request of a client may be a call whose result has a link."""
    servers: dict[str, Server] = {}
    for key in ("a", "b"):
        server = servers[key] = Server(key)
        server.resource("u://1")(lambda key=key: f"of {key}")
        server.tool(lambda: ResourceLink("u://1", "one"), name="link", structured=False)
    gateway = Gateway(servers)
    async with Client(gateway, revision=revision) as client:
        (link,) = (await client.call("b__link")).content
        assert isinstance(link, ResourceLink)
        (content,) = (await client.read(link.uri)).contents
        assert isinstance(content, TextContents)
        assert content.text == "of b"
        with pytest.raises(RemoteError, match="Several servers have u://1"):
            await client.read("u://1")
    await gateway.close()


async def test_nothing_is_kept_of_sessions_that_have_ended() -> None:
    gateway = Gateway({"notes": Server("notes", revisions=[OLD])})
    async with served(gateway) as at:

        async def use() -> None:
            async with at.client(revision=OLD) as client:
                await client.tools()

        await use()
        before = sessions()
        for _ in range(20):
            await use()
        assert sessions() <= before + 2
        assert len(gateway._state.view("")._listings._kept) <= 1


def sessions() -> int:
    """The sessions of all servers in this process."""
    gc.collect()
    return sum(isinstance(one, Session) for one in gc.get_objects())


async def test_a_server_that_starts_for_a_session_which_has_ended_is_stopped_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "SWEEP_SECONDS", 0.02)
    gate = tmp_path / "open"
    gateway = Gateway(
        {"slow": [sys.executable, str(ODD), "slow", str(gate)]}, settings={"slow": ServerSettings(list_seconds=0.05)}
    )
    async with served(gateway) as at, at.client(revision=OLD) as staying:
        async with at.client(revision=OLD) as leaving:
            await leaving.tools()
        await staying.tools()
        gate.touch()
        async with asyncio.timeout(20):
            while (
                "slow__echo" not in (await names(staying))[0] or gateway.status["servers"]["slow"]["connections"] != 1
            ):
                await asyncio.sleep(0.05)
        assert (await staying.call("slow__echo", text="x")).text == "x"
