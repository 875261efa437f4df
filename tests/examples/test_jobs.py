"""examples/jobs.py: progress arrives, and a cancelled job stops and tidies up."""

import asyncio
from pathlib import Path

import pytest

from dovetail import Client, Timeout
from examples import jobs
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jobs, "FOLDER", tmp_path)
    monkeypatch.setattr(jobs, "outcomes", [])
    return tmp_path


async def test_progress_arrives(revision: str, folder: Path) -> None:
    seen: list[tuple[float, float | None]] = []
    async with Client(jobs.server, revision=revision) as c:
        result = await c.call("render", frames=5, progress=lambda done, total, _: seen.append((done, total)))
        assert result.data == "5 frames, 40 bytes"
        assert seen == [(n, 5) for n in range(1, 6)]
        assert (await c.call("jobs")).data == ["done"]
    assert list(folder.iterdir()) == []


async def test_a_cancelled_job_stops_and_tidies_up(revision: str, folder: Path) -> None:
    started = asyncio.Event()
    async with Client(jobs.server, revision=revision) as c:
        call = asyncio.ensure_future(c.call("render", frames=10_000, progress=lambda *_: started.set()))
        await started.wait()
        assert len(list(folder.iterdir())) == 1
        call.cancel()
        await until(lambda: jobs.outcomes == ["cancelled"])
        await until(lambda: not list(folder.iterdir()))
        assert (await c.call("jobs")).data == ["cancelled"]


async def test_a_caller_who_waits_no_longer_cancels_it_too(folder: Path) -> None:
    async with Client(jobs.server, max_timeout=0.2) as c:
        with pytest.raises(Timeout):
            await c.call("render", frames=10_000, timeout=0.1)
        await until(lambda: jobs.outcomes == ["cancelled"] and not list(folder.iterdir()))
