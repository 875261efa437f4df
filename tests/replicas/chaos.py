"""Three replicas behind nginx under load, with replicas killed, the store restarted and the network cut; then a check.

    python -m tests.replicas.chaos [--minutes 10] [--only killed] [--seed 1] [--gateway 2025-11-25]

Every three seconds one replica is killed with SIGKILL and started again. A third of the time only that happens, a third
with Redis restarted as well, and a third with one replica cut off from Redis for a while. Clients of every revision
call, report progress, ask, resume and watch. Exit code 1: the history breaks a rule; the events that show it are
printed. With --gateway the replicas are gateways, in front of one server of that revision.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.replicas.chaos_clients import REVISIONS, ChaosClient, Recorder, ResumingClient
from tests.replicas.faults import SCENARIOS, Fault, Surroundings, find_slow_times, surroundings
from tests.replicas.history import (
    Answered,
    Event,
    Failed,
    Heard,
    Issued,
    Killed,
    Ran,
    Seen,
    Started,
    StoreOutage,
    Violation,
    check,
)
from tests.support.raw_http import SESSIONS

RECORDING = Path(__file__).parent / "servers" / "recording.py"
SHOWN_VIOLATIONS = 3
"""Violations of one rule that are printed."""
SETTLE_SECONDS = 30.0
"""Time limit, after the last fault, for clients to hear of the last change."""


class Run:
    """One scenario: clients, faults, and the history that comes of them."""

    def __init__(
        self, around: Surroundings, folder: Path, clients: int, seed: int, revisions: Sequence[str] = REVISIONS
    ) -> None:
        self.recorder = Recorder(folder, around.replicas.nginx)
        self.around = around
        for replica in around.replicas.all:
            self.recorder.add(Started(self.recorder.now(), replica.pid, replica.port))
        self._random = random.Random(seed)
        replicas, seeds = around.replicas, iter(range(seed, seed + 10_000))
        self.callers = [
            ChaosClient(self.recorder, replicas, f"{revision} caller {number}", revision, next(seeds))
            for revision in revisions
            for number in range(1, clients + 1)
        ]
        self.resumers = [
            ResumingClient(self.recorder, replicas, f"{revision} resumer", revision, next(seeds))
            for revision in SESSIONS
        ]
        self.watchers = [
            ChaosClient(self.recorder, replicas, f"{revision} watcher", revision, next(seeds)) for revision in revisions
        ]
        self._changer = ChaosClient(self.recorder, replicas, "changer", REVISIONS[-1], next(seeds))

    async def run(self, seconds: float, faults: list[Fault]) -> None:
        """Let clients and faults go on for some time, then let all calls end and all changes arrive."""
        ends = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(watcher.watch()) for watcher in self.watchers]
            calling = [group.create_task(client.call()) for client in (*self.callers, *self.resumers)]
            changing = group.create_task(self._change())
            probing = group.create_task(find_slow_times(self.around, self.recorder))
            causing = [group.create_task(fault(self.around, self.recorder, ends, self._random)) for fault in faults]
            await asyncio.gather(*causing)
            for client in (*self.callers, *self.resumers, *self.watchers):
                client.stopped.set()
            await asyncio.gather(*calling)
            changing.cancel()
            await asyncio.wait([changing])
            await self._settle()
            for task in (*watching, probing):
                task.cancel()

    async def _change(self) -> None:
        while True:
            await self._changer.change()
            await asyncio.sleep(0.2)

    async def _settle(self) -> None:
        """Make a last change, and wait until all watchers have seen it, or until there is no hope."""
        await asyncio.to_thread(self.around.repair)
        while not await self._changer.change():
            await asyncio.sleep(0.1)
        ends, value = time.monotonic() + SETTLE_SECONDS, self.recorder.value()
        while time.monotonic() < ends:
            newest = {event.client: event.value for event in self.recorder.events if isinstance(event, Seen)}
            if all(newest.get(watcher.name) == value for watcher in self.watchers):
                return
            await asyncio.sleep(0.05)


def summary(recorder: Recorder, events: list[Event], seconds: float) -> str:
    """The figures of a run, one line for each revision."""
    calls = {event.call: event for event in events if isinstance(event, Issued)}
    revision_of = {call: event.client.split()[0] for call, event in calls.items()}
    answered = Counter(revision_of[event.call] for event in events if isinstance(event, Answered))
    failed = Counter(revision_of[event.call] for event in events if isinstance(event, Failed))
    heard = Counter(revision_of[event.call] for event in events if isinstance(event, Heard))
    seen = Counter(event.client.split()[0] for event in events if isinstance(event, Seen))
    reopened = Counter[str]()
    for name, number in recorder.reopened.items():
        reopened[name.split()[0]] += number
    lines = [f"{'revision':12}{'calls':>8}{'answered':>10}{'failed':>8}{'events':>8}{'changes':>9}{'reconnects':>12}"]
    for revision in REVISIONS:
        issued = sum(1 for each in revision_of.values() if each == revision)
        figures = (answered[revision], failed[revision], heard[revision], seen[revision], reopened[revision])
        lines.append("{:12}{:8}{:10}{:8}{:8}{:9}{:12}".format(revision, issued, *figures))
    kills = sum(1 for event in events if isinstance(event, Killed))
    outages = [event for event in events if isinstance(event, StoreOutage)]
    slow = sum(event.slow for event in outages)
    lines.append(
        f"{seconds:.0f} s, {kills} replicas killed, {len(outages) - slow} outages of the store, "
        f"{slow} times that it was slow by itself, {recorder.value()} changes"
    )
    errors = Counter(
        re.sub(r"\b[0-9a-f]*\d{2,}[0-9a-f]*\b", "…", event.error)[:130] for event in events if isinstance(event, Failed)
    )
    lines += [f"  {number:5} {text}" for text, number in errors.most_common(8)]
    if slowest := slowest_failure(events):
        lines.append(f"at most {slowest:.1f} s between the end of a replica and the error of a call that ran there")
    return "\n".join(lines)


def slowest_failure(events: list[Event]) -> float:
    """The longest time between the end of a process and the failure of a call that ran there."""
    killed = {event.process: event.at for event in events if isinstance(event, Killed)}
    ran = {event.call: event.process for event in events if isinstance(event, Ran)}
    failed = [event for event in events if isinstance(event, Failed) and ran.get(event.call) in killed]
    return max((event.at - killed[ran[event.call]] for event in failed), default=0.0)


def described(violation: Violation, begun: float) -> str:
    """A violation with its events, with times from the beginning of the run."""
    lines = [f"VIOLATION of {violation.rule}: {violation.description}"]
    for event in violation.events[-20:]:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(event).items() if name != "at")
        lines.append(f"    {event.at - begun:8.3f} {type(event).__name__}({fields})")
    return "\n".join(lines)


def tracebacks(written: str) -> Counter[str]:
    """The tracebacks in a log, and how often each is there."""
    found = re.findall(r"^(?:[^\n]*\n)?Traceback \(most recent.*?^(?=\S)[^\n]*$", written, re.MULTILINE | re.DOTALL)
    return Counter(re.sub(r"^.*?(?=Traceback)", "", each, flags=re.DOTALL) for each in found)


@contextlib.asynccontextmanager
async def prepared(scenario: str, options: argparse.Namespace) -> AsyncIterator[Run]:
    """Replicas, store and clients of a scenario, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        (folder / "record").mkdir()
        async with surroundings(
            folder,
            RECORDING,
            options.store,
            options.replicas,
            cuttable=scenario == "cut",
            behind=options.gateway,
        ) as around:
            # A view of one server, whose tools have their own names, is not served over HTTP+SSE.
            revisions = REVISIONS if options.gateway is None else REVISIONS[1:]
            yield Run(around, folder / "record", options.clients, options.seed, revisions)


async def chaos(scenario: str, seconds: float, options: argparse.Namespace) -> list[Violation]:
    """Run one scenario, print its figures and return what is wrong."""
    begun = time.time()
    async with prepared(scenario, options) as run:
        await run.run(seconds, SCENARIOS[scenario])
        events = run.recorder.everything()
        violations = check(events)
        print(f"== {scenario}\n{summary(run.recorder, events, time.time() - begun)}")
        shown = Counter[str]()
        for violation in violations:
            shown[violation.rule] += 1
            if shown[violation.rule] <= SHOWN_VIOLATIONS:
                print(described(violation, begun))
        for traceback, times in tracebacks(run.around.replicas.stderr).most_common(SHOWN_VIOLATIONS):
            violations.append(Violation("no_replica_writes_a_traceback", f"{times} times:\n{traceback}", ()))
            print(described(violations[-1], begun))
    print(f"{len(violations)} violations\n" if violations else "no violations\n", flush=True)
    return violations


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="for all scenarios together")
    parser.add_argument("--only", choices=SCENARIOS, help="run this scenario")
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--clients", type=int, default=2, help="callers of each revision")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gateway", choices=REVISIONS, help="gateways, in front of a server of this revision")
    options = parser.parse_args()
    return run_scenarios(options)


def run_scenarios(options: argparse.Namespace) -> int:
    """Run one scenario after the other, and return the exit code."""
    scenarios = [options.only] if options.only else [name for name in SCENARIOS if name != "none"]
    seconds = options.minutes * 60 / len(scenarios)
    wrong = 0
    for scenario in scenarios:
        wrong += len(asyncio.run(chaos(scenario, seconds, options)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
