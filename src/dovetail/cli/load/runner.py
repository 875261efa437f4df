"""Repeated calls of one tool, several at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import FAILED, OK, explain
from dovetail.protocol.errors import ConnectionLost, DovetailError

from .measurement import LoadMeasurement
from .options import CONCURRENCY, MAX_LOAD_CALLS, MAX_LOAD_SECONDS

if TYPE_CHECKING:
    import argparse

    from dovetail.cli.terminal.progress import ProgressDisplay
    from dovetail.client.client import Client


async def run_load(
    client: Client, options: argparse.Namespace, arguments: dict[str, Any], display: ProgressDisplay
) -> int:
    """Call the tool until the number or the duration is reached; print the summary, on Ctrl-C of the calls so far."""
    concurrency: int = options.concurrency or CONCURRENCY
    test = _LoadTest(client, options.tool, arguments, display)
    try:
        await test.run(options.load or MAX_LOAD_CALLS, concurrency, options.duration or MAX_LOAD_SECONDS)
    finally:
        display.end_progress()
        measured = test.measurement
        if options.format == "json":
            output.show_json({"tool": options.tool, "concurrency": concurrency, **measured.as_json()})
        else:
            output.show_text("\n".join(measured.lines(options.tool, concurrency)))
    return FAILED if measured.failed else OK


class _LoadTest:
    def __init__(self, client: Client, tool: str, arguments: dict[str, Any], display: ProgressDisplay) -> None:
        self.measurement = LoadMeasurement()
        self._client = client
        self._tool = tool
        self._arguments = arguments
        self._display = display
        self._left = 0
        self._total = 0
        self._began = 0.0
        self._deadline = 0.0

    async def run(self, calls: int, concurrency: int, duration: float) -> None:
        """Make the calls; returns early when the server is lost."""
        self._left = self._total = calls
        self._began = time.perf_counter()
        self._deadline = self._began + duration
        workers = [asyncio.create_task(self._work()) for _ in range(min(concurrency, calls))]
        try:
            await asyncio.gather(*workers)
        finally:
            self.measurement.seconds = time.perf_counter() - self._began
            for worker in workers:
                worker.cancel()

    async def _work(self) -> None:
        measurement = self.measurement
        while self._left > 0 and time.perf_counter() < self._deadline:
            self._left -= 1
            began = time.perf_counter()
            try:
                await self._client.call(self._tool, self._arguments)
            except DovetailError as problem:
                report = explain(problem)
                measurement.add_error(report.code if report is not None else "failed", str(problem))
                if isinstance(problem, ConnectionLost):
                    self._left = 0
            else:
                measurement.add_success(time.perf_counter() - began)
            self._show_progress()

    def _show_progress(self) -> None:
        done = self.measurement.calls
        took = time.perf_counter() - self._began
        rate = f"{done / took:.0f} calls/s" if took > 0 else ""
        by_time = took / (self._deadline - self._began)
        self._display.progress(max(done / self._total, by_time), 1.0, rate)
