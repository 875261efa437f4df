"""Settings of a gateway, as the configuration file has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import Gateway, NotFound, Server
from dovetail.gateway import Profile, ServerSettings
from dovetail.gateway.settings import AT_START, LIVE, GatewaySettings, read_settings, server_settings
from dovetail.protocol.errors import LocalError
from dovetail.protocol.names import tool_name
from tests.gateway.served import served


def test_a_server_without_settings_has_the_defaults() -> None:
    assert server_settings({"command": "python"}, "mcp.json:2") == ServerSettings()


def test_the_settings_of_a_server_have_names_in_camel_case() -> None:
    given = {"timeout": 5, "maxTimeout": 50, "connectSeconds": 2, "listSeconds": 1, "idleSeconds": 9, "graceSeconds": 0}
    assert server_settings({"gateway": given}, "mcp.json") == ServerSettings(
        timeout=5, max_timeout=50, connect_seconds=2, list_seconds=1, idle_seconds=9, grace_seconds=0
    )


@pytest.mark.parametrize("value", [{"shared": True}, {"gateway": {"shared": True}}])
def test_shared_stands_beside_the_launch_or_under_gateway(value: dict[str, Any]) -> None:
    assert server_settings(value, "mcp.json").shared


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"gateway": {"timeuot": 5}}, r"^mcp\.json:3: unknown field `timeuot`; did you mean `timeout`\?$"),
        ({"gateway": {"quick": 5}}, r"mcp\.json:3: unknown field `quick`; there are shared, timeout, .*credentials$"),
        (
            {"gateway": {"credentials": {"type": "user-account", "client_id": "x"}}},
            r"mcp\.json:3: unknown field `client_id` - at `\$\.credentials`; did you mean `clientId`\?$",
        ),
        ({"gateway": {"timeout": "5"}}, r"mcp\.json:3: Expected `float`, got `str` - at `\$\.timeout`"),
        ({"shared": "yes"}, r"mcp\.json:3: Expected `bool`, got `str` - at `\$\.shared`"),
        ({"gateway": 5}, r"mcp\.json:3: `gateway` must be an object"),
        ({"gateway": {"listSeconds": 0}}, r"mcp\.json:3: .*listSeconds"),
        ({"gateway": {"timeout": -1}}, r"mcp\.json:3: .*timeout"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(value: dict[str, Any], problem: str) -> None:
    with pytest.raises(LocalError, match=problem):
        server_settings(value, "mcp.json:3")


def test_the_settings_of_the_gateway_have_profiles() -> None:
    given = {"name": "team", "title": "Team", "instructions": "Ask.", "profiles": {"read": {"tools": ["*__read_*"]}}}
    settings = read_settings(GatewaySettings, given, "mcp.json, gateway")
    assert settings == GatewaySettings(
        name="team", title="Team", instructions="Ask.", profiles={"read": Profile(tools=("*__read_*",))}
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"profile": {}}, "unknown field `profile`; did you mean `profiles`?"),
        ({"rate_limit": 1}, "unknown field `rate_limit`; did you mean `rateLimit`?"),
        (
            {"profiles": {"read": {"searchAbove": {"tool": 5}}}},
            "unknown field `tool` - at `$.profiles[...].searchAbove`; did you mean `tools`?",
        ),
        ({"auth": {"type": "static", "token": {}}}, "unknown field `token` - at `$.auth`; did you mean `tokens`?"),
        ({"rateLimit": 0}, "Expected `float` > 0.0 - at `$.rateLimit`"),
        ({"burst": 0.5}, "Expected `float` >= 1.0 - at `$.burst`"),
    ],
)
def test_a_wrong_setting_of_the_gateway_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(LocalError) as raised:
        read_settings(GatewaySettings, given, "mcp.json, gateway")
    assert str(raised.value) == f"mcp.json, gateway: {problem}"


def test_a_wrong_setting_of_a_server_names_the_file_the_server_and_the_field_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"mcpServers": {\n  "wiki": {"command": "python", "gateway": {"timeot": 5}}}}')
    with pytest.raises(LocalError) as raised:
        Gateway.from_config(file, trust=True)
    assert str(raised.value) == f"{file}:2, server 'wiki': unknown field `timeot`; did you mean `timeout`?"


def test_every_setting_is_taken_over_at_once_or_at_the_next_start() -> None:
    fields = [field.name for field in msgspec.structs.fields(GatewaySettings)]
    assert sorted([*LIVE, *AT_START, "policy"]) == sorted(fields)


def test_a_wrong_profile_is_named_with_its_place() -> None:
    with pytest.raises(LocalError, match=r"mcp\.json, gateway: .*tool.* - at `\$\.profiles\[\.\.\.\]`"):
        read_settings(GatewaySettings, {"profiles": {"read": {"tool": ["a"]}}}, "mcp.json, gateway")


LONG = "x" * 70 + "_push"


@pytest.mark.parametrize(
    ("profile", "servers"),
    [
        (Profile(), {"git", "github", "web"}),
        (Profile(servers=("git",)), {"git"}),
        (Profile(servers=("git*",)), {"git", "github"}),
        (Profile(servers=("web", "git")), {"git", "web"}),
        (Profile(servers=()), set[str]()),
    ],
)
def test_a_profile_has_the_servers_of_its_patterns(profile: Profile, servers: set[str]) -> None:
    assert {key for key in ("git", "github", "web") if profile.has_server(key)} == servers


TOOLS = [("git", "read_file"), ("git", "push"), ("web", "get"), ("git__lab", "push"), ("web", "x.push"), ("web", LONG)]


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        (Profile(), TOOLS),
        (Profile(tools=("git__read_*",)), TOOLS[:1]),
        (Profile(tools=("git__*",)), TOOLS[:2]),
        (Profile(tools=("git__lab__*",)), TOOLS[3:4]),
        (Profile(tools=("git*",)), [*TOOLS[:2], TOOLS[3]]),
        (Profile(tools=("*__push",)), [TOOLS[1], TOOLS[3]]),
        (Profile(tools=("web__x.push", "web__xxx*")), TOOLS[4:]),
        (Profile(tools=(tool_name("git__lab", "push"), tool_name("web", LONG))), [TOOLS[3], TOOLS[5]]),
        (Profile(tools=("git__*",), exclude=("*__push",)), TOOLS[:1]),
        (Profile(exclude=("*push",)), [TOOLS[0], TOOLS[2]]),
        (Profile(exclude=("web__x.push", "git__lab__push")), [*TOOLS[:3], TOOLS[5]]),
        (Profile(exclude=(tool_name("web", LONG), "git*")), [TOOLS[2], TOOLS[4]]),
        (Profile(tools=("GIT__*",)), list[tuple[str, str]]()),
    ],
)
def test_a_profile_has_the_tools_of_its_patterns_that_it_does_not_exclude(
    profile: Profile, tools: list[tuple[str, str]]
) -> None:
    assert [tool for tool in TOOLS if profile.has_tool(*tool, tool_name(*tool))] == tools


def test_patterns_of_tools_do_not_leave_out_prompts_and_resources_but_exclude_does() -> None:
    profile = Profile(tools=("git__read_*",), exclude=("secret:*", "git__draft"))
    assert profile.has_prompt("git", "review", "git__review")
    assert profile.has_uri("git:///a")
    assert not profile.has_uri("secret:///a")
    assert not profile.has_prompt("git", "draft", "git__draft")


async def test_names_that_clients_see_shortened_or_changed_do_not_get_past_a_profile() -> None:
    server = Server("files")

    async def run() -> str:
        return "ran"

    for name in ("read", "x_push", "x.push", LONG):
        server.tool(run, name=name)
        server.prompt(run, name=name)
    profiles = {"safe": Profile(exclude=("files__*push",)), "dot": Profile(exclude=("files__x.push",))}
    gateway = Gateway({"files": server}, profiles=profiles)
    left = {"safe": {"read"}, "dot": {"read", "x_push", LONG}}
    async with served(gateway) as at:
        for name, tools in left.items():
            async with at.client(path=f"/mcp/profile/{name}") as client:
                shown = {tool_name("files", tool) for tool in tools}
                assert {tool.name for tool in await client.tools()} == shown
                assert {prompt.name for prompt in await client.prompts()} == shown
                with pytest.raises(NotFound):
                    await client.call(tool_name("files", "x.push"))
                with pytest.raises(NotFound):
                    await client.prompt(tool_name("files", "x.push"))
    await gateway.close()
