"""Tasks of every kind on three replicas that are killed and started again; then a check that each ended as it should.

    python -m tests.replicas.task_chaos [--tasks 1000] [--seconds 60] [--store sqlite] [--seed 1]

Exit code 1: some task has not ended, or has another outcome than the file in which it notes what it does allows.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.support.redis_server import redis_server
from tests.support.replicas import Replicas
from tests.support.task_caller import ENDED, TaskCaller

SERVER = Path(__file__).parent / "servers" / "long_work.py"
CALLERS = 4
SETTLE_SECONDS = 90.0
"""Seconds for the tasks to end after the last fault."""

ValueT = TypeVar("ValueT")


class Started(NamedTuple):
    """A task that a client knows of."""

    id: str
    tool: str
    name: str


class Outcome(NamedTuple):
    """The end of a task, and what it noted."""

    started: Started
    status: str
    result: Any
    notes: Counter[str]


class ChaosRun:
    """Clients that start, answer and cancel tasks at any replica, while replicas are killed."""

    def __init__(self, replicas: Replicas, folder: Path, seed: int) -> None:
        self._replicas = replicas
        self._folder = folder
        self._seed = seed
        self._lock = threading.Lock()
        self.started: list[Started] = []
        self.cancelled: set[str] = set()
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self._over = threading.Event()

    def run(self, tasks: int, seconds: float) -> list[Outcome]:
        """Start so many tasks over some time with faults, let them end, and return how they ended."""
        ends = time.monotonic() + seconds
        threads = [threading.Thread(target=self._guard, args=(self._call, n, tasks, ends)) for n in range(CALLERS)]
        threads.append(threading.Thread(target=self._guard, args=(self._answer,)))
        for thread in threads:
            thread.start()
        self._break_replicas(ends)
        for thread in threads[:-1]:
            thread.join()
        outcomes = self._settle()
        self._over.set()
        threads[-1].join()
        return outcomes

    def _guard(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as problem:
            self.problems.append(f"a client failed: {problem!r}")
            raise

    def _break_replicas(self, ends: float) -> None:
        chance = random.Random(self._seed)
        while time.monotonic() < ends:
            time.sleep(min(chance.uniform(0.5, 3.0), max(ends - time.monotonic(), 0)))
            replica = chance.choice(self._replicas.all)
            if chance.random() < 0.75:
                replica.kill()
                self.faults["killed"] += 1
            else:
                replica.terminate()
                self.faults["stopped"] += 1
            time.sleep(chance.uniform(0, 0.5))
            replica.start()

    def _call(self, number: int, tasks: int, ends: float) -> None:
        chance = random.Random(self._seed * 1000 + number)
        share, began = tasks // CALLERS, time.monotonic()
        for index in range(share):
            due = began + (ends - began) * index / share
            time.sleep(max(due - time.monotonic(), 0))
            started = self._start(chance, index, f"{number}-{index}")
            id = started.id
            with self._lock:
                self.started.append(started)
            task = self._at_any(chance, lambda other, id=id: other.get(id))
            assert task["taskId"] == id, "every replica knows a task that was returned"
            if index % 17 == 0:
                self.cancelled.add(id)
                self._at_any(chance, lambda other, id=id: other.cancel(id))

    def _start(self, chance: random.Random, index: int, name: str) -> Started:
        """Start a task at some replica; under another name if the client cannot know whether it was started."""
        tool, arguments = _KINDS[index % len(_KINDS)](chance)
        for attempt in itertools.count():
            caller = TaskCaller(chance.choice(self._replicas.all).port)
            with contextlib.suppress(OSError, http.client.HTTPException):
                return Started(caller.start(tool, name=f"{name}-{attempt}", **arguments), tool, f"{name}-{attempt}")
            time.sleep(0.02)
        raise AssertionError

    def _at_any(self, chance: random.Random, ask: Callable[[TaskCaller], ValueT]) -> ValueT:
        """Ask one replica after the other until one responds."""
        ends = time.monotonic() + SETTLE_SECONDS
        while True:
            caller = TaskCaller(chance.choice(self._replicas.all).port)
            try:
                return ask(caller)
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < ends, "no replica responds"
                time.sleep(0.02)

    def _answer(self) -> None:
        """Answer the tasks that ask, a while after they do."""
        chance, answered = random.Random(self._seed + 1), set[str]()
        while not self._over.is_set():
            with self._lock:
                waiting = [task for task in self.started if task.tool == "ask" and task.id not in answered]
            for started in waiting:
                task = self._at_any(chance, lambda other, id=started.id: other.get(id))
                if task["status"] == "input_required" and chance.random() < 0.5:
                    content = {"name": f"color-{started.name}"}
                    self._at_any(chance, lambda other, task=task, content=content: other.answer(task, content))
                elif task["status"] in ENDED:
                    answered.add(started.id)
            time.sleep(0.2)

    def _settle(self) -> list[Outcome]:
        """Wait until every task has ended, and look again when all have: what has ended never changes."""
        chance, ends = random.Random(self._seed + 2), time.monotonic() + SETTLE_SECONDS
        outcomes: list[Outcome] = []
        ended: dict[Started, dict[str, Any]] = {}
        for started in self.started:
            while (task := self._at_any(chance, lambda other, id=started.id: other.get(id)))["status"] not in ENDED:
                if time.monotonic() > ends:
                    self.problems.append(f"{started} has not ended: {task}; it noted {self._notes(started.name)}")
                    break
                time.sleep(0.1)
            else:
                result = task["result"]["content"][0]["text"] if task["status"] == "completed" else task.get("error")
                outcomes.append(Outcome(started, task["status"], result, self._notes(started.name)))
                ended[started] = task
        for started, task in ended.items():
            later = self._at_any(chance, lambda other, id=started.id: other.get(id))
            if later != task:
                self.problems.append(f"{started} has ended twice: {task}, and later {later}")
        for outcome in outcomes:
            if (notes := self._notes(outcome.started.name)) != outcome.notes and outcome.status != "cancelled":
                self.problems.append(f"{outcome} went on after its end: {notes}")
        return outcomes

    def _notes(self, name: str) -> Counter[str]:
        file = self._folder / name
        return Counter(file.read_text().splitlines() if file.exists() else [])

    def check(self, outcomes: list[Outcome]) -> list[str]:
        """What is wrong with the outcomes."""
        wrong = [f"{outcome}: {text}" for outcome in outcomes if (text := self._problem(outcome)) is not None]
        return self.problems + wrong

    def _problem(self, outcome: Outcome) -> str | None:
        (id, tool, name), status, result, notes = outcome
        cancelled = id in self.cancelled
        if status == "cancelled":
            return None if cancelled else "nobody cancelled it"
        if tool == "once":
            if notes["run"] > 1:
                return "it ran twice"
            if status == "failed":
                return None if "not known" in str(result) else "it failed for another reason"
            return None if (result, notes["run"]) == (name, 1) else "it has another result"
        if status == "failed":
            # A handler that has been answered and not asked for more is not resumed unless its author says so.
            return None if tool == "ask" and "not known" in str(result) else "it failed"
        if tool == "ask":
            expected = f"color-{name}"
            return None if result == expected and notes[f"after {expected}"] >= 1 else "it has another result"
        return None if result == name and notes["step 2"] >= 1 else "it has another result"


def _quick(chance: random.Random) -> tuple[str, dict[str, Any]]:
    return "once", {"seconds": chance.uniform(0, 0.05)}


def _slow(chance: random.Random) -> tuple[str, dict[str, Any]]:
    return "once", {"seconds": chance.uniform(0.1, 2)}


def _in_steps(chance: random.Random) -> tuple[str, dict[str, Any]]:
    return "steps", {"number": 3, "seconds": chance.uniform(0.05, 0.5)}


def _asking(_: random.Random) -> tuple[str, dict[str, Any]]:
    return "ask", {}


_KINDS: list[Callable[[random.Random], tuple[str, dict[str, Any]]]] = [_quick, _in_steps, _asking, _slow]


def summary(outcomes: list[Outcome]) -> str:
    """The number of outcomes of each kind."""
    counted = Counter((outcome.started.tool, outcome.status) for outcome in outcomes)
    again = sum(outcome.notes[note] - 1 for outcome in outcomes for note in outcome.notes if note != "run")
    lines = [f"{tool:8}{status:12}{number:6}" for (tool, status), number in sorted(counted.items())]
    return "\n".join([*lines, f"{len(outcomes)} tasks; {again} steps ran again that were cut off before their record"])


def run_chaos(folder: Path, store: str, tasks: int, seconds: float, seed: int) -> tuple[list[Outcome], list[str]]:
    """Run it with a store at a URL; the outcomes, and what is wrong."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    with Replicas(SERVER, folder / "nginx", store, environment={"LONG_WORK_FOLDER": str(notes)}) as replicas:
        chaos = ChaosRun(replicas, notes, seed)
        outcomes = chaos.run(tasks, seconds)
        print(", ".join(f"{number} replicas {how}" for how, number in sorted(chaos.faults.items())))
        problems = chaos.check(outcomes)
        if problems:
            problems.append(replicas.stderr[-20_000:])
        return outcomes, problems


def main() -> int:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.store == "sqlite":
            outcomes, problems = run_chaos(
                folder / "run", str(folder / "store.db"), options.tasks, options.seconds, options.seed
            )
        else:
            with redis_server(folder / "redis") as server:
                outcomes, problems = run_chaos(folder / "run", server.url, options.tasks, options.seconds, options.seed)
    print(summary(outcomes))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
