"""Tasks on three replicas of which one is killed, one is stopped for a while, and finally all are replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replicas.task_chaos import SERVER, run_chaos, summary
from tests.support.raw import eventually
from tests.support.redis_server import PROGRAM, WHY_NOT, redis_server
from tests.support.replicas import Replicas
from tests.support.task_caller import ENDED, TaskCaller

pytestmark = pytest.mark.slow

ALIVE_SECONDS = 6.0
"""Seconds for which a process counts as alive after its last heartbeat."""


@contextlib.contextmanager
def store_url(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield str(folder / "store.db")
        return
    if PROGRAM is None:
        pytest.skip(WHY_NOT)
    with redis_server(folder / "redis") as server:
        yield server.url


class Aftermath:
    """What became of the tasks that ran on a replica that was killed, and on one that was stopped for a while."""

    def __init__(self, replicas: Replicas, notes: Path) -> None:
        self.replicas = replicas
        self._notes = notes
        first, second, third = (TaskCaller(replica.port) for replica in replicas.all)
        self.survivor = third
        self.seen_at_once = self._race(first, second)
        self.working = first.start("steps", name="working", number=4, seconds=1.0)
        self.once = first.start("once", name="once", seconds=3600)
        self.waiting = first.start("ask", name="waiting")
        self.waits_longer = first.start("ask", name="waits-longer")
        self.unrecorded = first.start("unrecorded", name="unrecorded")
        self.unrecorded_once = first.start("unrecorded_once", name="unrecorded-once")
        self.paused = second.start("steps", name="paused", number=20, seconds=0.25)
        self.paused_once = second.start("once", name="paused-once", seconds=8)
        for id in (self.waiting, self.waits_longer):
            third.wait_until(id, ["input_required"])
        for name, note in (("working", "step 0"), ("once", "run"), ("unrecorded", "effect"), ("paused", "step 1")):
            eventually(lambda name=name, note=note: self.notes(name).count(note), f"{name} has noted {note}")
        eventually(lambda: self.notes("unrecorded-once") and self.notes("paused-once"), "the other two have begun")
        replicas[0].kill()
        replicas[1].pause()
        self.before_pause = self.notes("paused")
        question = third.get(self.waiting)
        third.answer(question, {"name": "red"})
        self.outcomes = {
            name: third.outcome(getattr(self, name))
            for name in ("waiting", "once", "paused_once", "working", "unrecorded", "unrecorded_once")
        }
        # By now the paused task runs at the survivor, from the first step that was not recorded.
        eventually(lambda: self.notes("paused").count("run") == 2, "the paused task was taken over")
        replicas[1].resume()
        self.outcomes["paused"] = third.outcome(self.paused)

    def notes(self, name: str) -> list[str]:
        file = self._notes / name
        return file.read_text().splitlines() if file.exists() else []

    def _race(self, first: TaskCaller, second: TaskCaller) -> list[tuple[str, str, str]]:
        """Cancel tasks elsewhere while they complete; each status as two replicas see it, and once more later."""
        ids = [first.start("once", name=f"race-{index}", seconds=0.01 * (index % 6)) for index in range(24)]
        for id in ids:
            second.cancel(id)
        seen = [(first.wait_until(id, ENDED)["status"], second.wait_until(id, ENDED)["status"]) for id in ids]
        time.sleep(0.1)
        return [(*each, first.get(id)["status"]) for each, id in zip(seen, ids, strict=True)]


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def aftermath(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    folder = tmp_path_factory.mktemp("killed")
    notes = folder / "notes"
    notes.mkdir()
    environment = {"LONG_WORK_FOLDER": str(notes)}
    with (
        store_url(request.param, folder) as store,
        Replicas(SERVER, folder / "nginx", store, "--grace", "2", environment=environment) as replicas,
    ):
        yield Aftermath(replicas, notes)


def is_unknown(outcome: tuple[str, Any]) -> bool:
    status, error = outcome
    return status == "failed" and "It is not known" in error["message"]


def test_a_resumable_task_of_a_killed_process_goes_on_after_its_last_recorded_step(aftermath: Aftermath) -> None:
    assert aftermath.outcomes["working"] == ("completed", "working")
    notes = aftermath.notes("working")
    assert notes.count("run") == 2 and [notes.count(f"step {index}") for index in range(4)] == [1, 1, 1, 1]


def test_a_task_of_a_killed_process_that_may_not_be_resumed_fails_and_never_runs_again(aftermath: Aftermath) -> None:
    assert is_unknown(aftermath.outcomes["once"])
    assert aftermath.notes("once") == ["run"]


def test_a_task_that_waits_is_answered_at_another_replica_after_its_process_was_killed(aftermath: Aftermath) -> None:
    assert aftermath.outcomes["waiting"] == ("completed", "red")
    assert aftermath.notes("waiting") == ["before", "after red"]


def test_a_step_without_a_record_runs_again_where_the_task_may_be_resumed(aftermath: Aftermath) -> None:
    assert aftermath.outcomes["unrecorded"] == ("completed", "2")
    assert aftermath.notes("unrecorded") == ["effect", "effect"]


def test_a_step_without_a_record_never_runs_again_where_the_task_may_not_be_resumed(aftermath: Aftermath) -> None:
    assert is_unknown(aftermath.outcomes["unrecorded_once"])
    assert aftermath.notes("unrecorded-once") == ["effect"]


def test_a_process_that_was_stopped_for_a_while_runs_no_step_of_a_task_that_others_took_over(
    aftermath: Aftermath,
) -> None:
    assert aftermath.outcomes["paused"] == ("completed", "paused")
    steps = [note for note in aftermath.notes("paused") if note != "run"]
    assert sorted(steps) == sorted(f"step {index}" for index in range(20))


def test_a_process_that_was_stopped_for_a_while_does_not_overwrite_an_outcome(aftermath: Aftermath) -> None:
    assert is_unknown(aftermath.outcomes["paused_once"])
    second = TaskCaller(aftermath.replicas[1].port)
    assert is_unknown(second.outcome(aftermath.paused_once))
    assert aftermath.notes("paused-once") == ["run"]


def test_cancellation_and_completion_at_once_have_one_outcome_that_all_replicas_see(aftermath: Aftermath) -> None:
    assert all(len(set(each)) == 1 for each in aftermath.seen_at_once), aftermath.seen_at_once
    assert {each[0] for each in aftermath.seen_at_once} <= {"completed", "cancelled"}


def test_sigterm_hands_resumable_tasks_over_at_once_and_lets_the_others_end(aftermath: Aftermath) -> None:
    second, third = TaskCaller(aftermath.replicas[1].port), aftermath.survivor
    moved = second.start("steps", name="moved", number=8, seconds=0.25)
    ends = second.start("once", name="ends", seconds=1)
    late = second.start("once", name="late", seconds=60)
    eventually(lambda: aftermath.notes("moved").count("step 1"), "the task runs")
    stopping = threading.Thread(target=aftermath.replicas[1].terminate)
    began = time.monotonic()
    stopping.start()
    eventually(lambda: aftermath.notes("moved").count("run") == 2, "another replica goes on")
    took = time.monotonic() - began
    assert third.outcome(moved) == ("completed", "moved")
    assert third.outcome(ends) == ("completed", "ends")
    assert is_unknown(third.outcome(late))
    stopping.join()
    aftermath.replicas[1].start()
    assert sorted(set(aftermath.notes("moved"))) == sorted(["run", *(f"step {index}" for index in range(8))])
    assert took < ALIVE_SECONDS / 2, "nobody waited until the process counted as dead"


def test_a_task_that_waits_is_answered_after_every_process_was_replaced(aftermath: Aftermath) -> None:
    replicas = aftermath.replicas
    for replica in replicas.all:
        replica.close()
        replica.start()
    caller = TaskCaller(replicas[0].port)
    task = caller.get(aftermath.waits_longer)
    assert task["status"] == "input_required"
    caller.answer(task, {"name": "blue"})
    assert TaskCaller(replicas[1].port).outcome(aftermath.waits_longer) == ("completed", "blue")
    assert aftermath.notes("waits-longer") == ["before", "after blue"]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_every_task_ends_once_and_as_it_should_while_replicas_are_killed(kind: str, tmp_path: Path) -> None:
    with store_url(kind, tmp_path) as store:
        outcomes, problems = run_chaos(tmp_path / "run", store, tasks=60, seconds=5, seed=1)
    assert not problems, "\n".join(problems)
    assert outcomes, summary(outcomes)
