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
from pathlib import Path

import pytest

from dovetail import Client, Gateway, RemoteError
from dovetail.config.reader import read_config
from dovetail.policy.approvals import Approvals
from dovetail.policy.launch_files import resolve_launch
from dovetail.protocol.errors import LocalError
from tests.gateway.gateway_process import ODD, GatewayProcess, Subscribed, call, client_of, configuration, names, odd
from tests.gateway.test_metrics import parse, sample
from tests.support.raw import alive, children, eventually

OLD, NEW = "2025-06-18", "2026-07-28"
ALL = ("pid", "echo", "wait")


def of(*keys: str) -> set[str]:
    return {f"{key}__{name}" for key in keys for name in ALL}


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
                with pytest.raises(
                    RemoteError, match=r"approve it in `dovetail host`, or start the gateway with --trust"
                ):
                    await call(client, "a__echo", text="x")
            assert gateway.servers == []

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


class TestViews:
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
