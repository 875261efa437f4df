"""examples/report.py: a report takes its time, asks once, and goes on after its server was killed."""

import asyncio
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Task, TaskUpdate
from dovetail.testing import VirtualClock
from examples.report import SECONDS, Report, server
from tests.support.http_process import ROOT, HttpProcess
from tests.support.replicas import reserved_port

EXAMPLE = ROOT / "examples" / "report.py"
DOLLARS: dict[str, Any] = {"currency": "USD"}
TOTAL = 1738.31


def test_a_report_takes_two_minutes_and_asks_once(asking_revision: str) -> None:
    asked: list[str] = []

    def answer(question: Any) -> dict[str, str]:
        asked.append(question.message)
        return DOLLARS

    async def main() -> None:
        with VirtualClock(server) as clock:
            began = clock.time()
            async with Client(server, revision=asking_revision, on_elicit=answer, timeout=None) as client:
                made = await clock.until(client.call("report", year=2026, returns=Report))
            assert clock.time() - began >= 12 * SECONDS
        assert made.data == Report(2026, "USD", TOTAL)

    asyncio.run(main())
    assert asked == ["In which currency?"]


def month(message: str | None) -> int:
    found = re.search(r"month (\d+)", message or "")
    return int(found[1]) if found else 0


@pytest.mark.slow
async def test_a_report_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    port, store = reserved_port(), str(tmp_path / "report.sqlite")
    url, messages = f"http://127.0.0.1:{port}/mcp", list[str | None]()

    def start() -> HttpProcess:
        return HttpProcess(EXAMPLE, "--http", "--store", store, environment={"REPORT_SECONDS": "0.2"}, port=port)

    async def until(task: Task[Any], reached: Callable[[TaskUpdate], bool]) -> None:
        while not reached(update := await task.refresh()):
            assert not update.is_ended, update
            messages.append(update.message)
            await asyncio.sleep(0.02)

    with start() as first:
        async with Client(url, on_elicit=lambda _: DOLLARS) as client:
            task = await client.start("report", year=2026)
            await until(task, lambda update: month(update.message) >= 4)
            reference = task.reference
        os.kill(first.process.pid, signal.SIGKILL)
        first.wait()
    messages.clear()
    with start() as second:
        async with Client(url) as client:
            await until(client.task(reference), lambda update: update.status == "input_required")
        os.kill(second.process.pid, signal.SIGKILL)
        second.wait()
    assert min(map(month, messages)) >= 4  # no month that was finished is read again
    with start():
        async with Client(url, on_elicit=lambda _: DOLLARS) as client:
            made = await client.task(reference, returns=Report).result()
    assert made.data == Report(2026, "USD", TOTAL)
