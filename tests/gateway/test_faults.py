"""A gateway with servers that fail: the others answer as before, and lists and errors say what is missing and why.

A real gateway over HTTP, and real processes over stdio.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, OutcomeUnknown, RemoteError
from dovetail.gateway.servers.circuit_breaker import MAX_TIMEOUTS
from dovetail.protocol.errors import InvalidAnswer
from dovetail.protocol.revisions import REVISIONS
from tests.gateway.gateway_process import (
    ODD,
    GatewayProcess,
    Stopwatch,
    Subscribed,
    call,
    client_of,
    configuration,
    names,
    odd,
)
from tests.support.raw import alive, eventually
from tests.support.waiting import until

OF_WORKS = {"works__pid", "works__echo", "works__wait"}
OLD, NEW = "2025-06-18", "2026-07-28"
ERAS = [OLD, NEW]
assert {REVISIONS[name].era for name in ERAS} == {"handshake", "envelope"}

QUICK = 2.5
"""Seconds within which a healthy server answers on a busy machine; every deadline of a server that fails is longer."""


def of(key: str) -> set[str]:
    return {f"{key}__{name}" for name in ("pid", "echo", "wait")}


def starts_once(folder: Path) -> dict[str, Any]:
    """The entry of a server that works, and that cannot be started a second time."""
    program = f"open({str(folder / 'started')!r}, 'x')\nimport runpy, sys\nsys.argv = ['odd', 'works']"
    return {"command": sys.executable, "args": ["-c", f"{program}\nrunpy.run_path({str(ODD)!r})"]}


async def echoes(client: Client, times: int = 20) -> None:
    """The server that works answers, call after call, none of them late."""
    for number in range(times):
        watch = Stopwatch()
        assert await call(client, "works__echo", text=str(number)) == str(number)
        assert watch.seconds < QUICK


@pytest.mark.parametrize("revision", ERAS)
class TestAHangingServer:
    async def test_one_that_never_answers_delays_no_call_to_another(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang", listSeconds=4, connectSeconds=30)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await echoes(client)

    async def test_a_list_answers_within_its_bound_and_says_which_is_missing(
        self, revision: str, tmp_path: Path
    ) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang", listSeconds=1, connectSeconds=30)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                watch = Stopwatch()
                tools, missing = await names(client)
                assert watch.seconds < 1 + QUICK
                assert tools == OF_WORKS
                assert missing == {
                    "hangs": {
                        "status": "unavailable",
                        "reason": "it has not answered within 1 s (listSeconds); perhaps it is starting",
                    }
                }

    async def test_one_that_answers_no_list_is_missing_and_delays_no_call_to_another(
        self, revision: str, tmp_path: Path
    ) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang-lists", listSeconds=4)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await echoes(client)
                tools, missing = await names(client)
                assert tools == OF_WORKS
                assert (
                    missing["hangs"]["reason"] == "it has not answered within 4 s (listSeconds); perhaps it is starting"
                )
                await echoes(client)

    async def test_lists_after_the_first_do_not_wait_for_it_again_at_once(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang-lists", listSeconds=3)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await names(client)
                watch = Stopwatch()
                tools, missing = await names(client)
                assert watch.seconds < QUICK
                assert tools == OF_WORKS and "hangs" in missing

    async def test_no_list_waits_for_the_attempts_to_connect_to_it_again(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang", listSeconds=4, connectSeconds=4)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await names(client)
                async with asyncio.timeout(30):
                    while gateway.status()["hangs"]["state"] != "failing":
                        await asyncio.sleep(0.05)
                before = set(gateway.servers)
                attempts = set[int]()
                async with asyncio.timeout(30):
                    while len(attempts) < 2:
                        watch = Stopwatch()
                        tools, missing = await names(client)
                        assert watch.seconds < QUICK
                        assert tools == OF_WORKS
                        assert missing["hangs"]["reason"]
                        attempts |= set(gateway.servers) - before
                        await asyncio.sleep(0.05)

    async def test_a_call_to_it_ends_at_its_deadline_and_names_it(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang-calls", timeout=1)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                tools, missing = await names(client)
                assert tools == OF_WORKS | of("hangs") and not missing
                hanging = asyncio.create_task(call(client, "hangs__echo"))
                await echoes(client)
                watch = Stopwatch()
                with pytest.raises(RemoteError, match="The server 'hangs' gave no answer"):
                    await hanging
                assert watch.seconds < 1 + QUICK

    async def test_after_several_timeouts_its_calls_are_refused_at_once(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "hangs": odd("hang-calls", timeout=1)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await names(client)
                calls = [call(client, "hangs__echo") for _ in range(MAX_TIMEOUTS)]
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert all("gave no answer" in str(one) for one in outcomes), outcomes
                watch = Stopwatch()
                with pytest.raises(RemoteError, match=r"The server 'hangs' is not available: .* It is tried again in"):
                    await call(client, "hangs__echo")
                assert watch.seconds < 1
                assert gateway.status()["hangs"]["state"] == "failing"
                await echoes(client)


@pytest.mark.parametrize("revision", ERAS)
class TestAKilledServer:
    async def test_one_is_started_again_for_the_next_call(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "dies": odd("works")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                before = int(await call(client, "dies__pid"))
                os.kill(before, signal.SIGKILL)
                eventually(lambda: not alive(before), "the server is dead")
                after = int(await self.retried(client, "dies__pid"))
                assert after != before and alive(after)
                tools, missing = await names(client)
                assert tools == OF_WORKS | of("dies") and not missing

    async def test_a_call_in_progress_ends_with_an_unknown_outcome(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "dies": odd("works")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                pid = int(await call(client, "dies__pid"))
                waiting = asyncio.create_task(call(client, "dies__wait", text=str(tmp_path / "arrived")))
                await until((tmp_path / "arrived").exists)
                os.kill(pid, signal.SIGKILL)
                with pytest.raises(OutcomeUnknown, match="the connection to the server 'dies' was lost"):
                    await waiting
                await echoes(client)

    async def test_its_tools_stay_in_the_lists_for_the_grace_period(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "dies": starts_once(tmp_path)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                os.kill(int(await call(client, "dies__pid")), signal.SIGKILL)
                # It cannot be started a second time.
                missing = await self.missing(client)
                tools, _ = await names(client)
                assert missing["dies"]["status"] == "unavailable; listed as before"
                assert tools == OF_WORKS | of("dies")
                with pytest.raises(RemoteError, match="The server 'dies' is not available"):
                    await call(client, "dies__echo", text="a")
                await echoes(client)

    async def test_its_tools_are_gone_after_the_grace_period(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "dies": {**starts_once(tmp_path), "gateway": {"graceSeconds": 0}}}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                os.kill(int(await call(client, "dies__pid")), signal.SIGKILL)
                missing = await self.missing(client)
                tools, _ = await names(client)
                assert missing["dies"]["status"] == "unavailable"
                assert tools == OF_WORKS

    @staticmethod
    async def retried(client: Client, name: str) -> str:
        """Call until the pause after the failure is over: at once it may be refused, and then it was not sent."""
        async with asyncio.timeout(30):
            while True:
                try:
                    return await call(client, name)
                except RemoteError as problem:
                    if "is not available" not in str(problem):
                        raise
                    await asyncio.sleep(0.05)

    @staticmethod
    async def missing(client: Client) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while not (found := (await names(client))[1]):
                await asyncio.sleep(0.05)
        return found


@pytest.mark.parametrize("revision", ERAS)
class TestOtherFaults:
    async def test_a_flooding_server_does_not_keep_another_from_answering(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "floods": odd("flood")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                await call(client, "floods__echo", text="a")
                await echoes(client)
                assert (await names(client))[0] >= OF_WORKS

    async def test_a_server_whose_list_is_no_list_is_missing_from_it(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "lies": odd("lie-lists")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                tools, missing = await names(client)
                assert tools == OF_WORKS
                assert missing["lies"]["status"] == "unavailable" and "tools/list" in missing["lies"]["reason"]
                await echoes(client)

    async def test_a_result_that_is_no_object_is_refused_and_names_the_server(
        self, revision: str, tmp_path: Path
    ) -> None:
        servers = {"works": odd("works"), "lies": odd("lie-results")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                with pytest.raises(RemoteError, match="The server 'lies' gave an invalid answer"):
                    await call(client, "lies__echo", text="a")
                await echoes(client)

    async def test_a_wrong_result_harms_only_the_call_that_it_answers(self, revision: str, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "lies": odd("lie-calls")}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                # The text of a result is passed on without being decoded: it is the client that finds it invalid.
                with pytest.raises((RemoteError, InvalidAnswer), match=r"Invalid result of tools/call|invalid answer"):
                    await call(client, "lies__echo", text="a")
                await echoes(client)

    async def test_a_server_that_is_slow_to_start_is_missing_until_it_has_started(
        self, revision: str, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        servers = {"works": odd("works"), "slow": odd("slow", str(go), listSeconds=1, connectSeconds=60)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                tools, missing = await names(client)
                assert tools == OF_WORKS and missing["slow"]["status"] == "unavailable"
                await echoes(client)
                go.touch()
                async with asyncio.timeout(30):
                    while missing:
                        tools, missing = await names(client)
                assert tools == OF_WORKS | of("slow")
                assert await call(client, "slow__echo", text="here") == "here"

    async def test_a_server_that_was_late_is_announced_when_it_has_started(self, revision: str, tmp_path: Path) -> None:
        go = tmp_path / "go"
        servers = {"works": odd("works"), "slow": odd("slow", str(go), listSeconds=1, connectSeconds=60)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            subscribed = Subscribed(revision)
            async with client_of(gateway, revision=revision, trace=subscribed) as client:
                assert "slow" in (await names(client))[1]
                changes = client.watch(tools=True)
                waiting = asyncio.ensure_future(anext(changes))
                await subscribed.wait(client)
                go.touch()
                await waiting
                assert await names(client) == (OF_WORKS | of("slow"), {})
                await changes.aclose()

    async def test_a_program_that_does_not_exist_says_so_in_lists_and_calls(
        self, revision: str, tmp_path: Path
    ) -> None:
        servers = {"works": odd("works"), "none": {"command": "no-such-program-anywhere"}}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            async with client_of(gateway, revision=revision) as client:
                tools, missing = await names(client)
                assert tools == OF_WORKS
                assert "no-such-program-anywhere" in missing["none"]["reason"]
                with pytest.raises(
                    RemoteError, match=r"The server 'none' is not available: .*no-such-program-anywhere"
                ):
                    await call(client, "none__echo")
                await echoes(client)


class TestTheEnd:
    async def test_a_gateway_that_is_told_to_end_leaves_no_process(self, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "deaf": odd("deaf"), "hangs": odd("hang", listSeconds=1)}
        with GatewayProcess(configuration(tmp_path, servers), "--grace", "1") as gateway:
            pids = await self.started(gateway, 3)
            gateway.signal(signal.SIGTERM)
            assert gateway.wait() == 0, gateway.stderr
            eventually(lambda: not any(map(alive, pids)), "no server is left")

    async def test_a_gateway_that_is_killed_leaves_no_process(self, tmp_path: Path) -> None:
        servers = {"works": odd("works"), "deaf": odd("deaf"), "hangs": odd("hang", listSeconds=1)}
        with GatewayProcess(configuration(tmp_path, servers)) as gateway:
            pids = await self.started(gateway, 3)
            gateway.signal(signal.SIGKILL)
            gateway.wait()
            eventually(lambda: not any(map(alive, pids)), "no server is left")

    @staticmethod
    async def started(gateway: GatewayProcess, count: int) -> list[int]:
        async with client_of(gateway, revision=NEW) as client:
            await names(client)
            assert await call(client, "deaf__echo", text="a") == "a"
        assert len(gateway.servers) >= count
        return gateway.servers
