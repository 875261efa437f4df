"""What cannot be recorded is not done, and what was done is not said to be undone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail.host.host import Host
from dovetail.policy.approval_questions import CallQuestion, DefinitionQuestion, Question, Reply, Yes
from dovetail.policy.audit.log import Unrecorded
from dovetail.policy.rules import Policy, Rule
from dovetail.types.tools import CallToolResult
from tests.host.hosting import HOSTILE, Somebody, entry, hosting
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


def cut(folder: Path) -> None:
    """Take the end of the record away, after which nothing more is added to it."""
    log = folder / "user" / "audit.jsonl"
    log.write_bytes(log.read_bytes()[:-10])


async def test_a_result_that_cannot_be_recorded_is_still_the_result(tmp_path: Path) -> None:
    """Who was told that nothing was done would do it twice."""

    def progress(*_: Any) -> None:
        cut(tmp_path)

    async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
        result = await host.call("a__wait", seconds=0.1, progress=progress)
        assert result.data == "waited"
        with pytest.raises(Unrecorded, match="Nothing was done"):
            await host.call("a__add", a=1, b=2)
        assert not [line for line in host.traffic("a") if b'"add"' in line.message and b"tools/call" in line.message]


async def test_a_cancelled_call_is_cancelled(tmp_path: Path) -> None:
    async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
        await host.ready()
        begun = asyncio.Event()
        call = asyncio.create_task(host.call("a__wait", seconds=20, progress=lambda *_: begun.set()))
        await begun.wait()
        cut(tmp_path)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_call_that_is_cancelled_while_the_user_is_asked_is_cancelled(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def approve(question: Question) -> Reply:
        if isinstance(question, CallQuestion):
            asked.set()
            await asyncio.Event().wait()
        return True

    async with hosting(tmp_path, entry("a"), on_approve=approve) as host:
        call = asyncio.create_task(host.call("a__add", a=1, b=2))
        await asked.wait()
        cut(tmp_path)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_an_answer_that_cannot_be_recorded_is_not_saved(tmp_path: Path) -> None:
    def answer(question: Question) -> Reply:
        if isinstance(question, CallQuestion):
            cut(tmp_path)
        return Yes(remember="always")

    async with hosting(tmp_path, entry("a"), person=Somebody(answer)) as host:
        with pytest.raises(Unrecorded):
            await host.call("a__echo", text="x")
    assert not (tmp_path / "user" / "answers.json").exists()


async def test_trust_switches_and_approvals_that_cannot_be_recorded_do_not_happen(tmp_path: Path) -> None:
    lock = tmp_path / "mcp.lock"
    person = Somebody(lambda question: not isinstance(question, DefinitionQuestion))
    async with hosting(tmp_path, entry("a", HOSTILE / "villain.py", "rug-pull"), person=person, lock=lock) as host:
        assert (await host.call("a__read", check=False)).is_error
        (held,) = host.withheld()
        await until(lambda: not host._controller.definitions.is_asking)
        before = lock.read_bytes()
        cut(tmp_path)
        for attempt in (
            host.approve("a", "tool", "read", held.digest),
            host.trust("a", True),
            host.set_tool("a", "read", False),
        ):
            with pytest.raises(Unrecorded):
                await attempt
        assert lock.read_bytes() == before
        assert host.withheld() == [held]
        assert not host.servers["a"].trusted
        assert not host.switched_off()


async def test_a_tool_that_is_switched_off_while_the_person_thinks(tmp_path: Path) -> None:
    hosts: list[Host] = []

    async def approve(question: Question) -> Reply:
        if isinstance(question, CallQuestion):
            await hosts[0].set_tool("a", "echo", False)
        return True

    async with hosting(tmp_path, entry("a"), on_approve=approve) as host:
        hosts.append(host)
        await host.ready()
        await host.trust("a", True)
        result: CallToolResult = await host.call("a__echo", text="x", check=False)
        assert "switched off" in result.text
        assert not [line for line in host.traffic("a") if b'"tools/call"' in line.message]
