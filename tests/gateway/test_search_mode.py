"""Many tools: clients get three that search, describe and call the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Gateway, Policy, RemoteError, Rule, Server, ToolFailed
from dovetail.gateway import Profile, SearchLimits
from dovetail.policy.definitions import define_all
from dovetail.policy.lockfile import LockFile
from dovetail.text.tool_search import CALL, DESCRIBE, SEARCH
from tests.gateway.served import served, tokens

FINDERS = {SEARCH, DESCRIBE, CALL}


def make_server(number: int) -> Server:
    server = Server("many")

    @server.tool
    async def forecast(city: str, days: int = 3) -> str:
        """The weather of the next days in a city."""
        return f"{city} for {days} days"

    for index in range(number):
        server.tool(_nothing, name=f"tool{index}", description="Does nothing at all.")
    return server


async def _nothing() -> str:
    return "nothing"


@contextlib.asynccontextmanager
async def joined(revision: str = "2026-07-28", **options: Any) -> AsyncGenerator[Client]:
    gateway = Gateway({"many": make_server(30)}, **options)
    try:
        async with Client(gateway, revision=revision, timeout=10) as client:
            yield client
    finally:
        await gateway.close()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_model_finds_describes_and_calls_a_tool(revision: str) -> None:
    async with joined(revision, search_above=SearchLimits(tools=20)) as client:
        assert {tool.name for tool in await client.tools()} == FINDERS
        found = (await client.call(SEARCH, query="weather in a city")).data["found"]
        assert found[0]["name"] == "many__forecast"
        about = (await client.call(DESCRIBE, name="many__forecast")).data
        assert about["arguments"]["required"] == ["city"]
        result = await client.call(CALL, arguments={"name": "many__forecast", "arguments": {"city": "Lima"}})
        assert result.data == "Lima for 3 days"


async def test_tools_can_still_be_called_by_their_names() -> None:
    async with joined(search_above=SearchLimits(tools=20)) as client:
        assert (await client.call("many__forecast", city="Lima", days=1)).data == "Lima for 1 days"


async def test_the_limit_may_be_a_number_of_tokens() -> None:
    async with joined(search_above=SearchLimits(tokens=500)) as client:
        assert {tool.name for tool in await client.tools()} == FINDERS
    async with joined(search_above=SearchLimits(tokens=500_000)) as client:
        assert len(await client.tools()) == 31


async def test_without_a_limit_all_tools_are_listed_and_the_three_do_not_exist() -> None:
    async with joined() as client:
        assert len(await client.tools()) == 31
        with pytest.raises(RemoteError, match="Unknown tool"):
            await client.call(SEARCH, query="weather")


async def test_mistakes_of_a_model_get_advice() -> None:
    async with joined(search_above=SearchLimits(tools=20)) as client:
        with pytest.raises(ToolFailed, match="find one with search_tools"):
            await client.call(DESCRIBE, name="nothing")
        with pytest.raises(RemoteError, match="Unknown tool"):
            await client.call(CALL, arguments={"name": "nothing", "arguments": {}})
        assert (await client.call(SEARCH, query="xyzzy")).data["servers"] == ["many"]


async def test_a_profile_may_choose_its_own_limit() -> None:
    profile = Profile(search_above=SearchLimits(tools=5))
    gateway = Gateway({"many": make_server(10)}, profiles={"small": profile})
    async with Client(gateway) as client:
        assert len(await client.tools()) == 11
    async with served(gateway) as at, at.client(path="/mcp/profile/small") as client:
        assert [tool.name for tool in await client.tools()] == [SEARCH, DESCRIBE, CALL]
    await gateway.close()


LIMIT = SearchLimits(tools=5)


async def lock_all_but(path: Path, left_out: str) -> None:
    """Lock what the server offers now, without one tool."""
    async with Client(make_server(30)) as client:
        definitions = define_all([tool for tool in await client.tools() if tool.name != left_out], client.instructions)
    await asyncio.to_thread(LockFile(path, path.parent).change, lambda known: known.with_server("many", definitions))


async def assert_not_reachable(client: Client, name: str, refusal: str) -> None:
    """A tool is neither found nor described, and a call of it is refused, in either way."""
    assert {tool.name for tool in await client.tools()} == FINDERS
    found = (await client.call(SEARCH, query="weather of the next days in a city forecast")).data["found"]
    assert name not in [one["name"] for one in found]
    with pytest.raises(ToolFailed, match=f"There is no tool '{name}'"):
        await client.call(DESCRIBE, name=name)
    with pytest.raises(RemoteError, match=refusal):
        await client.call(CALL, arguments={"name": name, "arguments": {"city": "Lima"}})
    with pytest.raises(RemoteError, match=refusal):
        await client.call(name, city="Lima")


async def assert_reachable(client: Client, name: str, **arguments: Any) -> None:
    assert (await client.call(DESCRIBE, name=name)).data["name"] == name
    assert not (await client.call(CALL, arguments={"name": name, "arguments": arguments})).is_error


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
class TestHiddenTools:
    async def test_what_rules_deny_to_a_caller_is_not_reachable_through_the_three_tools(self, revision: str) -> None:
        rules = [Rule("deny", tool="forecast", not_group="sailors"), Rule("allow", tool="*")]
        gateway = Gateway(
            {"many": make_server(30)},
            auth=tokens(ann=["sailors"], eve=[]),
            policy=Policy(rules),
            search_above=LIMIT,
        )
        async with (
            served(gateway) as at,
            at.client("ann", revision=revision) as ann,
            at.client("eve", revision=revision) as eve,
        ):
            await assert_reachable(ann, "many__forecast", city="Lima")
            await assert_not_reachable(eve, "many__forecast", "policy of the gateway does not allow")
            await assert_reachable(eve, "many__tool1")
        await gateway.close()

    async def test_what_a_profile_leaves_out_is_not_reachable_through_the_three_tools(self, revision: str) -> None:
        profile = Profile(exclude=("many__forecast",), search_above=LIMIT)
        gateway = Gateway({"many": make_server(30)}, profiles={"dry": profile}, search_above=LIMIT)
        async with (
            served(gateway) as at,
            at.client(path="/mcp", revision=revision) as all_tools,
            at.client(path="/mcp/profile/dry", revision=revision) as dry,
        ):
            await assert_reachable(all_tools, "many__forecast", city="Lima")
            await assert_not_reachable(dry, "many__forecast", "Unknown tool")
            await assert_reachable(dry, "many__tool1")
        await gateway.close()

    async def test_what_the_lockfile_holds_back_is_not_reachable_through_the_three_tools(
        self, revision: str, tmp_path: Path
    ) -> None:
        await lock_all_but(tmp_path / "mcp.lock", "forecast")
        async with joined(revision, lockfile=tmp_path / "mcp.lock", search_above=LIMIT) as client:
            await assert_not_reachable(client, "many__forecast", "is held back")
            await assert_reachable(client, "many__tool1")
