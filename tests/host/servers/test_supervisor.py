"""The life of one server."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from dovetail.config.entries import ServerEntry
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import ConnectionLost
from tests.host.hosting import HOSTILE, QUICK, entry, hosting
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


async def test_a_start_that_times_out_shows_the_last_lines_of_stderr(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import sys; print('no KEY', file=sys.stderr, flush=True); sys.stdin.read()")
    limits = msgspec.structs.replace(QUICK, start_seconds=2, attempts=1)
    async with hosting(tmp_path, entry("a", tmp_path / "hangs.py"), policy=ALLOW, limits=limits) as host:
        await host.ready()
        await until(lambda: host.servers["a"].state == "failed")
        assert "did not answer within 2 s; its stderr: no KEY" in str(host.servers["a"].error)


class TestHealth:
    async def test_a_server_that_is_idle_is_asked_whether_it_is_well(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, idle_seconds=0.1)
        async with hosting(tmp_path, entry("a", "stuck.py"), policy=ALLOW, limits=limits) as host:
            await host.ready()
            await until(lambda: sum(line.text == "pinged" for line in host.logs("a")) >= 3)
            assert host.servers["a"].restarts == 0

    async def test_a_server_that_is_busy_is_left_alone(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, idle_seconds=0.05, ping_seconds=0.05)
        async with hosting(tmp_path, entry("a"), policy=ALLOW, limits=limits) as host:
            await host.ready()
            await host.trust("a", True)
            before = len(host.traffic("a"))
            assert (await host.call("a__wait", seconds=0.5)).data == "waited"
            during = [line for line in host.traffic("a")[before:] if b"discover" in line.message]
            assert len(during) <= 2

    async def test_a_server_that_does_not_answer_any_more_is_started_anew(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, idle_seconds=60, ping_seconds=0.2)
        async with hosting(tmp_path, entry("a", "stuck.py"), policy=ALLOW, limits=limits) as host:
            await host.ready()
            assert (await host.call("a__hang", timeout=0.2, check=False)).is_error
            await until(lambda: host.servers["a"].restarts == 1 and host.servers["a"].state == "ready")
            assert "does not answer any more" in str(host.servers["a"].error)


class TestStates:
    async def test_an_entry_with_a_problem_says_so(self, tmp_path: Path) -> None:
        broken = ServerEntry(key="b", spec=None, problem="mcp.json:3: NAME is not set")
        off = msgspec.structs.replace(entry("c"), enabled=False)
        async with hosting(tmp_path, broken, off, policy=ALLOW) as host:
            assert await host.tools() == []
            assert (host.servers["b"].state, host.servers["b"].error) == ("failed", "mcp.json:3: NAME is not set")
            assert host.servers["c"].state == "disabled"
            with pytest.raises(ConnectionLost, match="NAME is not set"):
                await host.read("b", "note://one")

    async def test_a_call_waits_for_a_server_that_comes_back(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await host.ready()
            with pytest.raises(ConnectionLost):
                await host.call("a__leave")
            assert (await host.read("a", "note://one")).contents

    async def test_several_that_want_it_start_it_once(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await asyncio.gather(*(host.call("a__add", a=number, b=1) for number in range(20)))
            launched = [line for line in host.traffic("a") if b"server/discover" in line.message]
            assert len(launched) <= 2

    async def test_a_server_that_dies_while_it_is_first_looked_at(self, tmp_path: Path) -> None:
        """What it offers is approved when it is known, and not as nothing."""
        once = entry("a", HOSTILE / "villain.py", "dies-once", str(tmp_path / "mark"))
        async with hosting(tmp_path, once, policy=ALLOW) as host:
            await host.ready()
            await until(lambda: host.servers["a"].state == "ready")
            assert host.servers["a"].restarts == 1
            assert host.withheld() == []
            assert (await host.call("a__read")).text == "done"

    async def test_what_it_says_of_itself(self, tmp_path: Path) -> None:
        began = time.time()
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await host.ready()
            status = host.servers["a"]
            assert (status.era, status.server) == ("envelope", "plain 1.0")
            assert (status.tools, status.prompts, status.resources, status.templates) == (7, 1, 1, 1)
            assert began <= status.since <= time.time()
