"""A gateway from a configuration file: approvals, hot reload, views, stdio, status and metrics.

Real gateways in processes of their own, and real servers over stdio.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Gateway, RemoteError
from dovetail.config.reader import read_config
from dovetail.gateway import Profile
from dovetail.policy.approvals import Approvals
from dovetail.policy.launch_files import resolve_launch
from dovetail.protocol.errors import DovetailError, LocalError
from tests.cli.invoke import dovetail
from tests.gateway.gateway_process import ODD, GatewayProcess, Subscribed, call, client_of, configuration, names, odd
from tests.gateway.test_metrics import parse, sample
from tests.support.raw import alive, children, eventually

OLD, NEW = "2025-06-18", "2026-07-28"
ALL = ("pid", "echo", "wait")


def of(*keys: str) -> set[str]:
    return {f"{key}__{name}" for key in keys for name in ALL}


RULES = """
[[rules]]
verdict = "deny"
tool = "{tool}"

[[rules]]
verdict = "allow"
tool = "*"
"""


class Announced(Subscribed):
    """The trace of a client, which also counts the changes of lists that it is told of."""

    changes = 0

    def __call__(self, direction: str, data: bytes) -> None:
        super().__call__(direction, data)
        self.changes += b"/list_changed" in data and b"listChanged" not in data


async def until(client: Client, is_so: Callable[[set[str], dict[str, Any]], bool]) -> None:
    """Ask for the tools until the list, and what it says of servers that are missing, are such."""
    async with asyncio.timeout(60):
        while not is_so(*await names(client)):
            await asyncio.sleep(0.05)


async def until_outcome(client: Client, text: str) -> None:
    """Call a tool until the outcome, which is the error if there is one, begins in this way."""
    async with asyncio.timeout(60):
        outcome = ""
        while not outcome.startswith(text):
            try:
                outcome = await call(client, "a__echo", text="called")
            except RemoteError as problem:
                outcome = str(problem)
            await asyncio.sleep(0.05)


def status_of(gateway: GatewayProcess, path: str) -> int:
    """The status of a request without contents."""
    connection = gateway.connect()
    connection.request("POST", path, "{}", {"content-type": "application/json"})
    return connection.getresponse().status


def approve(file: Path, *keys: str) -> None:
    """Approve launches of a file, as the user of `GatewayProcess` would in a host."""
    approvals = Approvals(file.parent / "user" / "dovetail")
    for entry in read_config(file).entries:
        if entry.key in keys:
            assert entry.spec is not None
            approvals.approve(entry.key, resolve_launch(entry.spec, dict(os.environ)))


class TestApprovals:
    async def test_a_launch_that_was_not_approved_is_not_started_and_the_error_says_what_to_do(
        self, tmp_path: Path
    ) -> None:
        with GatewayProcess(configuration(tmp_path, {"a": odd("works")}), trust=False) as gateway:
            async with client_of(gateway) as client:
                tools, missing = await names(client)
                assert tools == set()
                assert "its launch was not approved" in missing["a"]["reason"]
                with pytest.raises(RemoteError, match=rf"approve it with `dovetail approve {tmp_path}/mcp\.json a`"):
                    await call(client, "a__echo", text="x")
            assert gateway.servers == []

    def test_at_the_start_one_warning_names_the_servers_that_were_not_approved_and_the_command(
        self, tmp_path: Path
    ) -> None:
        servers = {"a": odd("works"), "b": odd("works"), "c": odd("works"), "off": {**odd("works"), "disabled": True}}
        file = configuration(tmp_path, servers)
        approve(file, "b")
        with GatewayProcess(file, trust=False) as gateway:
            (warning,) = [line for line in gateway.complaints if "not approved" in line]
            assert "'a', 'c' were not approved" in warning
            assert f"`dovetail approve {file} a c`" in warning
        with GatewayProcess(file) as gateway:
            assert "approve" not in gateway.stderr

    async def test_a_running_gateway_takes_an_approval_over(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway) as client:
                configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
                await until(client, lambda _, missing: "b" in missing)
                command = re.search(r"`dovetail (approve .*?)`", (await names(client))[1]["b"]["reason"])
                assert command is not None
                done = await asyncio.to_thread(
                    dovetail, *command[1].split(), "--yes", XDG_CONFIG_HOME=str(tmp_path / "user")
                )
                assert done.code == 0 and "Approved: b." in done.out
                await until(client, lambda tools, _: tools == of("a", "b"))

    async def test_a_launch_that_was_approved_is_started(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
        approve(file, "a")
        with GatewayProcess(file, trust=False) as gateway:
            async with client_of(gateway) as client:
                assert await call(client, "a__echo", text="x") == "x"
                tools, missing = await names(client)
                assert tools == of("a") and set(missing) == {"b"}

    async def test_a_launch_that_was_changed_is_not_started(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        approve(file, "a")
        configuration(tmp_path, {"a": odd("works", "another argument")})
        with GatewayProcess(file, trust=False) as gateway:
            async with client_of(gateway) as client:
                _, missing = await names(client)
                assert "its launch has changed since it was approved" in missing["a"]["reason"]
            assert gateway.servers == []

    async def test_trust_is_for_the_launches_of_the_file_as_it_was_at_the_start(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                before = int(await call(client, "a__pid"))
                configuration(tmp_path, {"a": odd("works", "another argument")})
                async with asyncio.timeout(30):
                    while "a" not in (missing := (await names(client))[1]):
                        await asyncio.sleep(0.05)
                assert "its launch has changed since it was approved" in missing["a"]["reason"]
                eventually(lambda: not alive(before), "the server of the old configuration has ended")
                eventually(lambda: not gateway.servers, "none was started in its place")


class TestHotReload:
    @pytest.mark.parametrize("revision", [OLD, NEW])
    async def test_a_server_that_is_added_announces_itself_and_others_keep_their_processes(
        self, revision: str, tmp_path: Path
    ) -> None:
        file = configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
        approve(file, "a", "b")
        configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file, trust=False) as gateway:
            subscribed = Subscribed(revision)
            async with client_of(gateway, revision=revision, trace=subscribed) as client:
                pid = await call(client, "a__pid")
                changes = client.watch(tools=True)
                waiting = asyncio.ensure_future(anext(changes))
                await subscribed.wait(client)
                configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
                await waiting
                assert (await names(client))[0] == of("a", "b")
                assert await call(client, "b__echo", text="new") == "new"
                assert await call(client, "a__pid") == pid
                await changes.aclose()

    async def test_a_server_that_is_removed_is_gone_with_its_process(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                stays, goes = int(await call(client, "a__pid")), int(await call(client, "b__pid"))
                configuration(tmp_path, {"a": odd("works")})
                async with asyncio.timeout(30):
                    while (await names(client))[0] != of("a"):
                        await asyncio.sleep(0.05)
                eventually(lambda: not alive(goes), "the process of the removed server has ended")
                assert int(await call(client, "a__pid")) == stays
                with pytest.raises(RemoteError, match="Unknown tool: b__pid"):
                    await call(client, "b__pid")

    async def test_changed_settings_count_without_a_restart_of_the_gateway(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("hang-calls", timeout=50), "b": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                pid = await call(client, "b__pid")
                before = set(gateway.servers)
                await names(client)
                configuration(tmp_path, {"a": odd("hang-calls", timeout=0.2), "b": odd("works")})
                eventually(lambda: before - set(gateway.servers), "the server with other settings is left")
                with pytest.raises(RemoteError, match="gave no answer"):
                    await call(client, "a__echo")
                assert await call(client, "b__pid") == pid

    async def test_a_file_that_cannot_be_read_changes_nothing(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                pid = await call(client, "a__pid")
                file.write_text('{"mcpServers": {')
                eventually(lambda: "what the file said before still counts" in gateway.stderr, "the gateway warns")
                assert await call(client, "a__pid") == pid


class TestSettingsOfTheGateway:
    """The `gateway` object of the file, while the gateway runs."""

    @pytest.mark.parametrize("revision", [OLD, NEW])
    async def test_a_changed_profile_is_announced_to_its_clients_only_and_connections_stay(
        self, revision: str, tmp_path: Path
    ) -> None:
        servers = {"a": odd("works"), "b": odd("works")}
        file = configuration(tmp_path, servers, profiles={"some": {"tools": ["a__*"]}, "other": {"servers": ["b"]}})
        with GatewayProcess(file) as gateway:
            announced = {"": Announced(revision), "some": Announced(revision), "other": Announced(revision)}
            async with (
                client_of(gateway, revision=revision, trace=announced[""]) as everything,
                client_of(gateway, "/mcp/profile/other", revision=revision, trace=announced["other"]) as other,
                client_of(gateway, "/mcp/profile/some", revision=revision, trace=announced["some"]) as some,
            ):
                pid = await call(everything, "a__pid")
                streams = [client.watch(tools=True) for client in (everything, other, some)]
                waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
                for client, name in ((everything, ""), (other, "other"), (some, "some")):
                    await announced[name].wait(client)
                configuration(tmp_path, servers, profiles={"some": {"servers": ["b"]}, "other": {"servers": ["b"]}})
                await waiting[-1]
                assert (await names(some))[0] == of("b")
                assert await call(some, "b__echo", text="x") == "x"
                with pytest.raises(RemoteError, match="Unknown tool: a__pid"):
                    await call(some, "a__pid")
                assert await call(everything, "a__pid") == pid
                assert (await names(other))[0] == of("b")
                assert announced["some"].changes > 0
                assert announced[""].changes == announced["other"].changes == 0
                for task, stream in zip(waiting, streams, strict=True):
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    await stream.aclose()

    async def test_a_new_profile_is_served_and_one_that_is_removed_is_not_found(self, tmp_path: Path) -> None:
        servers = {"a": odd("works"), "b": odd("works")}
        file = configuration(tmp_path, servers, profiles={"old": {"servers": ["a"]}})
        with GatewayProcess(file) as gateway:
            socket = gateway.url.replace("http", "ws") + "/mcp/profile/old/ws"
            async with (
                client_of(gateway, revision=OLD) as client,
                client_of(gateway, "/mcp/profile/old", revision=OLD) as former,
                Client(socket, timeout=5) as connected,
            ):
                pid = await call(client, "a__pid")
                assert (await names(former))[0] == (await names(connected))[0] == of("a")
                configuration(tmp_path, servers, profiles={"new": {"servers": ["b"]}})
                async with asyncio.timeout(30):
                    while status_of(gateway, "/mcp/profile/old") != 404:
                        await asyncio.sleep(0.05)
                async with client_of(gateway, "/mcp/profile/new") as fresh:
                    assert (await names(fresh))[0] == of("b")
                for gone in (former, connected):
                    with pytest.raises(DovetailError):
                        await call(gone, "a__echo", text="x")
                assert await call(client, "a__pid") == pid

    async def test_instructions_and_the_limit_of_search_are_taken_over(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")}, instructions="Before.")
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                changes = client.watch(tools=True)
                waiting = asyncio.ensure_future(anext(changes))
                pid = await call(client, "a__pid")
                configuration(tmp_path, {"a": odd("works")}, instructions="After.", searchAbove={"tools": 1})
                await waiting
                assert "search_tools" in (await names(client))[0]
                assert await call(client, "a__pid") == pid
                await changes.aclose()
            async with client_of(gateway) as client:
                assert (client.instructions or "").startswith("After.")

    async def test_inline_rules_are_taken_over(self, tmp_path: Path) -> None:
        deny = {"rules": [{"verdict": "deny", "tool": "pid"}, {"verdict": "allow", "tool": "*"}]}
        file = configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                pid = await call(client, "a__pid")
                configuration(tmp_path, {"a": odd("works")}, policy=deny)
                await until(client, lambda tools, _: tools == of("a") - {"a__pid"})
                with pytest.raises(RemoteError, match="policy of the gateway does not allow it"):
                    await call(client, "a__pid")
                configuration(tmp_path, {"a": odd("works")})
                await until(client, lambda tools, _: tools == of("a"))
                assert await call(client, "a__pid") == pid

    @pytest.mark.parametrize("where", ["file", "option"])
    async def test_a_policy_file_is_read_again_and_a_broken_one_changes_nothing(
        self, where: str, tmp_path: Path
    ) -> None:
        rules = tmp_path / "rules.toml"
        rules.write_text(RULES.format(tool="pid"))
        inside = {"policy": "rules.toml"} if where == "file" else {}
        options = [] if where == "file" else ["--policy", str(rules)]
        file = configuration(tmp_path, {"a": odd("works")}, **inside)
        with GatewayProcess(file, *options) as gateway:
            async with client_of(gateway) as client:
                assert (await names(client))[0] == of("a") - {"a__pid"}
                rules.write_text(RULES.format(tool="wait"))
                await until(client, lambda tools, _: tools == of("a") - {"a__wait"})
                rules.write_text("[[rules]]\nverdict = 'perhaps'\n")
                eventually(lambda: "perhaps" in gateway.stderr, "the gateway warns")
                assert (await names(client))[0] == of("a") - {"a__wait"}
                rules.write_text(RULES.format(tool="echo"))
                await until(client, lambda tools, _: tools == of("a") - {"a__echo"})
                assert gateway.stderr.count("perhaps") == 1
                assert "rules.toml:2" in gateway.stderr

    async def test_the_rate_limit_is_taken_over(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        with GatewayProcess(file) as gateway:
            async with client_of(gateway) as client:
                configuration(tmp_path, {"a": odd("works")}, rateLimit=0.001, burst=2)
                await until_outcome(client, "Too many requests")
                configuration(tmp_path, {"a": odd("works")}, rateLimit=1000)
                await until_outcome(client, "called")

    def test_what_counts_from_the_next_start_is_named_in_the_log(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")}, name="team")
        with GatewayProcess(file) as gateway:
            gateway.get("/status")
            configuration(tmp_path, {"a": odd("works")}, name="other", audit="audit.jsonl", groupClaims=["teams"])
            told = "`name` and `audit` and `groupClaims` changed, which takes effect when the gateway is started again"
            eventually(lambda: told in gateway.stderr, "the gateway says what waits")
            assert json.loads(gateway.get("/status"))["gateway"] == "team"
            assert not (tmp_path / "audit.jsonl").exists()
            # Back to what counts anyway, with another change that is seen: nothing to say.
            configuration(tmp_path, {"a": odd("works")}, name="team", title="New")
            eventually(lambda: "`title` changed" in gateway.stderr, "the gateway says what waits")
            assert "`name` and `title`" not in gateway.stderr

    async def test_a_broken_object_keeps_the_settings_from_before_with_one_warning(self, tmp_path: Path) -> None:
        profiles = {"some": {"tools": ["a__echo"]}}
        file = configuration(tmp_path, {"a": odd("works")}, profiles=profiles)
        with GatewayProcess(file) as gateway:
            async with client_of(gateway, "/mcp/profile/some") as client, client_of(gateway) as everything:
                assert (await names(client))[0] == {"a__echo"}
                servers = {"a": odd("works"), "b": {"command": "no-such-program"}}
                wrong = {"profiles": {"some": {"tool": ["*"]}}, "instructions": "New."}
                configuration(tmp_path, servers, **wrong)
                kept = "The settings of the gateway from before still count, and no server is added"
                eventually(lambda: kept in gateway.stderr, "the gateway warns")
                # A server may come with rules for it, so that it waits for them.
                assert (await names(everything))[1] == {}
                assert (await names(client))[0] == {"a__echo"}
                configuration(tmp_path, {}, **wrong)
                await until(everything, lambda tools, _: not tools)
                assert gateway.stderr.count("unknown field `tool`") == 1

    async def test_a_broken_file_is_warned_about_once(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")}, instructions="Before.")
        with GatewayProcess(file) as gateway:
            async with client_of(gateway) as client:
                await names(client)
                file.write_text('{"mcpServers": {')
                eventually(lambda: "what the file said before still counts" in gateway.stderr, "the gateway warns")
                configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
                await until(client, lambda _, missing: "b" in missing)
                assert len([line for line in gateway.complaints if "still count" in line]) == 1

    async def test_what_was_given_in_code_stays(self, tmp_path: Path) -> None:
        rules = {"rules": [{"verdict": "deny", "tool": "pid"}, {"verdict": "allow", "tool": "*"}]}
        file = configuration(tmp_path, {"a": odd("works")}, instructions="Before.")
        gateway = Gateway.from_config(file, trust=True, policy=rules, rate_limit=1000, audit=None)
        try:
            async with Client(gateway, timeout=30) as client:
                given = {"policy": {"rules": [{"verdict": "deny", "tool": "*"}]}, "rateLimit": 0.001, "audit": "log"}
                profiles = {"new": {"servers": ["a"]}}
                configuration(tmp_path, {"a": odd("works")}, **given, profiles=profiles)
                async with asyncio.timeout(30):
                    while not gateway._state.has_view("profile/new"):
                        await asyncio.sleep(0.05)
                assert (await names(client))[0] == of("a") - {"a__pid"}
                for _ in range(3):
                    assert await call(client, "a__echo", text="x") == "x"
        finally:
            await gateway.close()

    def test_a_profile_with_a_server_that_does_not_exist_is_named_in_the_log(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        servers = {"wiki": odd("works"), "off": {**odd("works"), "disabled": True}}
        profiles = {"all": {"servers": ["*", "w*", "no*"]}, "readers": {"servers": ["wikki", "wiki", "off"]}}
        Gateway.from_config(configuration(tmp_path, servers, profiles=profiles), trust=True)
        text = "the profile 'readers' names the server 'wikki', which does not exist; did you mean 'wiki'?"
        assert [text in record.message for record in caplog.records] == [True]
        caplog.clear()
        Gateway({"wiki": "python wiki.py"}, profiles={"readers": Profile(servers=("wikki",))})
        assert text in caplog.text


class TestViews:
    @pytest.mark.parametrize("path", ["io.github.x%2Fy", "io.github.x/y", "io%2Egithub.x%2fy"])
    @pytest.mark.parametrize("revision", [OLD, NEW])
    async def test_a_server_with_a_slash_in_its_name_has_a_view(self, revision: str, path: str, tmp_path: Path) -> None:
        servers = {"io.github.x/y": odd("works"), "io.github.x": odd("hang-calls"), "b/ws": odd("works")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, f"/mcp/server/{path}", revision=revision) as client:
                assert await call(client, "echo", text="x") == "x"
            async with client_of(gateway, "/mcp/server/b/ws", revision=revision) as client:
                assert await call(client, "echo", text="x") == "x"
            socket = gateway.url.replace("http", "ws")
            async with Client(f"{socket}/mcp/server/{path}/ws", timeout=30, revision=revision) as client:
                assert await call(client, "echo", text="x") == "x"
            wrong = ["io.github.x%2Fy/z", "io.github.x/", "y", "io.github.x%252Fy", "%2Fy"]
            assert [status_of(gateway, f"/mcp/server/{one}") for one in wrong] == [404, 400, 404, 404, 404]

    @pytest.mark.parametrize(
        ("path", "encoded"),
        [
            ("server/io.github.x%2Fy", "server/io.github.x%2Fy"),
            ("server/io.github.x/y", "server/io.github.x/y"),
            ("server/%40scope%2fname", "server/@scope%2Fname"),
            ("profile/a%20b", "profile/a%20b"),
        ],
    )
    def test_the_metadata_of_a_view_are_at_its_path_and_name_it(self, path: str, encoded: str, tmp_path: Path) -> None:
        servers = {"io.github.x/y": odd("works"), "@scope/name": odd("works")}
        auth = {"type": "jwt", "issuer": "https://auth.example.com", "audience": "https://tools.example.com/other"}
        file = configuration(tmp_path, servers, auth=auth, profiles={"a b": {}})
        with GatewayProcess(file) as gateway:
            connection = gateway.connect()
            connection.request("POST", f"/mcp/{path}", "{}", {"content-type": "application/json"})
            refusal = connection.getresponse()
            assert refusal.status == 401
            url = f"{gateway.url}/.well-known/oauth-protected-resource/mcp/{encoded}"
            assert f'resource_metadata="{url}"' in refusal.headers["www-authenticate"]
            for form in (encoded, path):
                document = json.loads(gateway.get(f"/.well-known/oauth-protected-resource/mcp/{form}"))
                assert document["resource"] == f"{gateway.url}/mcp/{encoded}"

    async def test_one_server_has_its_own_names_at_a_path_of_its_own(self, tmp_path: Path) -> None:
        with GatewayProcess(configuration(tmp_path, {"a": odd("works"), "b": odd("works")})) as gateway:
            async with client_of(gateway, "/mcp/server/a") as client:
                assert (await names(client))[0] == set(ALL)
                assert await call(client, "echo", text="x") == "x"
                with pytest.raises(RemoteError, match="Unknown tool: b__echo"):
                    await call(client, "b__echo", text="x")

    async def test_a_profile_has_its_servers_and_tools_only(self, tmp_path: Path) -> None:
        profiles = {"quiet": {"servers": ["a"], "tools": ["*__echo", "*__pid"], "exclude": ["*__pid"]}}
        servers = {"a": odd("works"), "b": odd("works")}
        with GatewayProcess(configuration(tmp_path, servers, profiles=profiles)) as gateway:
            async with client_of(gateway, "/mcp/profile/quiet") as client:
                assert (await names(client))[0] == {"a__echo"}
                assert await call(client, "a__echo", text="x") == "x"
                for hidden in ("a__pid", "a__wait", "b__echo"):
                    with pytest.raises(RemoteError, match=f"Unknown tool: {hidden}"):
                        await call(client, hidden)
            async with client_of(gateway) as client:
                assert (await names(client))[0] == of("a", "b")

    async def test_a_key_with_signs_of_patterns_names_one_server_only(self, tmp_path: Path) -> None:
        with GatewayProcess(configuration(tmp_path, {"a*": odd("works"), "ab": odd("hang-calls")})) as gateway:
            async with client_of(gateway, "/mcp/server/a%2A") as client:
                assert await call(client, "echo", text="x") == "x"
            assert gateway.status()["ab"]["state"] == "idle"

    @pytest.mark.parametrize("path", ["/mcp/server/c", "/mcp/profile/none", "/mcp/other/a", "/mcp/server/"])
    def test_a_view_that_does_not_exist_is_not_found(self, path: str, tmp_path: Path) -> None:
        with GatewayProcess(configuration(tmp_path, {"a": odd("works")})) as gateway:
            connection = gateway.connect()
            connection.request("POST", path, "{}", {"content-type": "application/json"})
            assert connection.getresponse().status == 404

    async def test_the_name_title_and_instructions_come_from_the_file(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")}, name="team", title="Our tools", instructions="Ask first.")
        with GatewayProcess(file) as gateway:
            async with client_of(gateway) as client:
                assert client.server is not None
                assert (client.server.name, client.server.title) == ("team", "Our tools")
                assert client.instructions is not None and client.instructions.startswith("Ask first.")

    def test_a_wrong_setting_ends_the_command_and_is_named(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works", timeuot=5)})
        command = [sys.executable, "-m", "dovetail.cli", "gateway", str(file), "--trust", "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1
        assert "mcp.json" in done.stderr and "timeuot" in done.stderr
        assert "Traceback" not in done.stderr


class TestStdio:
    @pytest.mark.parametrize("revision", [OLD, NEW])
    async def test_a_gateway_over_stdio_is_one_server_and_leaves_no_process(
        self, revision: str, tmp_path: Path
    ) -> None:
        file = configuration(tmp_path, {"a": odd("works"), "b": odd("works")})
        command = [sys.executable, "-m", "dovetail.cli", "gateway", str(file), "--stdio", "--trust"]
        async with Client(command, revision=revision, timeout=30) as client:
            assert (await names(client))[0] == of("a", "b")
            pids = [int(await call(client, f"{key}__pid")) for key in ("a", "b")]
            (gateway,) = [child for child in children(os.getpid()) if set(pids) <= set(children(child))]
        eventually(lambda: not any(map(alive, [gateway, *pids])), "the gateway and its servers have ended")

    def test_options_of_http_are_refused_with_stdio(self, tmp_path: Path) -> None:
        file = configuration(tmp_path, {"a": odd("works")})
        command = [sys.executable, "-m", "dovetail.cli", "gateway", str(file), "--stdio", "--port", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1 and "leave out the options of HTTP" in done.stderr


class TestPages:
    async def test_the_status_tells_of_each_server(self, tmp_path: Path) -> None:
        servers = {"a": odd("works"), "none": {"command": "no-such-program-anywhere"}, "rests": odd("works")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            assert {server["state"] for server in gateway.status().values()} == {"idle"}
            async with client_of(gateway, "/mcp/server/a", revision=OLD) as client:
                await call(client, "echo", text="x")
                async with client_of(gateway, "/mcp/server/none", revision=OLD) as other:
                    await names(other)
                status = gateway.status()
            assert (
                status["a"].items()
                >= {"state": "ready", "revision": OLD, "tools": 3, "requests": 1, "errors": 0}.items()
            )
            assert status["a"]["connections"] == 1 and status["a"]["tokens"] > 0
            assert status["none"]["state"] == "failing" and "no-such-program-anywhere" in status["none"]["reason"]
            assert status["rests"] == {
                "state": "idle",
                "connections": 0,
                "requests": 0,
                "errors": 0,
                "failures": 0,
                "refused": 0,
                "meanSeconds": 0.0,
            }

    async def test_a_browser_gets_the_status_as_a_page(self, tmp_path: Path) -> None:
        accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        with GatewayProcess(configuration(tmp_path, {"a": odd("works")})) as gateway:
            page = gateway.get("/status", accept)
            assert page.startswith("<!doctype html>") and "<td>a</td>" in page

    async def test_the_metrics_are_prometheus_text(self, tmp_path: Path) -> None:
        accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        with GatewayProcess(configuration(tmp_path, {"a": odd("works")})) as gateway:
            async with client_of(gateway, revision=OLD) as client:
                for _ in range(3):
                    await call(client, "a__echo", text="x")
                samples, _ = parse(gateway.get("/metrics", accept))
            labels = {"server": "a", "method": "tools/call", "name": "a__echo"}
            assert samples[sample("requests_total", **labels)] == 3
            assert samples[sample("request_seconds_count", **labels)] == 3
            assert samples[sample("server_up", server="a")] == 1
            assert samples[sample("connections", server="a")] == 1

    def test_the_health_says_that_the_gateway_works(self, tmp_path: Path) -> None:
        with GatewayProcess(configuration(tmp_path, {"a": odd("works")})) as gateway:
            assert json.loads(gateway.get("/health"))["status"] == "ok"


class TestInAProgram:
    async def test_from_config_serves_the_servers_of_several_files(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        second.mkdir()
        files = configuration(first, {"a": odd("works")}), configuration(second, {"b": odd("works")})
        gateway = Gateway.from_config(*files, trust=True)
        try:
            async with Client(gateway, timeout=30) as client:
                assert (await names(client))[0] == of("a", "b")
        finally:
            await gateway.close()

    def test_from_config_names_a_file_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(LocalError, match=r"nothing\.json"):
            Gateway.from_config(tmp_path / "nothing.json")

    async def test_update_keeps_the_process_of_a_server_that_has_not_changed(self) -> None:
        works = f"{sys.executable} {ODD} works"
        gateway = Gateway({"a": works, "b": works})
        try:
            async with Client(gateway, timeout=30, revision=OLD) as client:
                pid = await call(client, "a__pid")
                await gateway.update({"a": works, "c": works})
                assert (await names(client))[0] == of("a", "c")
                assert await call(client, "a__pid") == pid
        finally:
            await gateway.close()


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="chromium is not installed; `.ci/browser` says how to get it"
)
def test_the_page_is_drawn_without_errors(tmp_path: Path) -> None:
    with GatewayProcess(configuration(tmp_path, {"a": odd("works")})) as gateway:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command = ["chromium", *options, "--dump-dom", f"{gateway.url}/status"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert re.search(r"<td>a</td>.*idle", done.stdout), done.stderr
