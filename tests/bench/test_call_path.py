"""Bounds on the path of one warm `tools/call` through the server, as `bench.call_path` counts it."""

import asyncio
import sys

import pytest

from bench.call_path import CASES, CallPath, measure

NESTED = 7
"""Frames of Dovetail nested at the handler, on every transport and era."""

FRAMES = {"HTTP, 2026-07-28": 60, "HTTP with a session, 2025-11-25": 80}
"""Frames of Dovetail entered, over HTTP."""

TASKS = {"HTTP, 2026-07-28": 0, "WebSocket, 2025-11-25": 2, "WebSocket, 2026-07-28": 2}
"""Tasks created, where it is not one: a WebSocket's frames are sent by a task of their own."""


@pytest.fixture(scope="module")
def paths() -> dict[str, CallPath]:
    return {title: asyncio.run(measure(connect)) for title, connect in CASES.items() if on_this_platform(title)}


def on_this_platform(title: str) -> bool:
    return sys.platform != "win32" or not title.startswith(("stdio", "Unix"))


def test_no_handler_is_nested_deeper_than_the_bound(paths: dict[str, CallPath]) -> None:
    assert {title: path.nested for title, path in paths.items() if not 0 < path.nested <= NESTED} == {}


def test_no_http_call_enters_more_frames_than_its_bound(paths: dict[str, CallPath]) -> None:
    assert {title: paths[title].frames for title, most in FRAMES.items() if not 0 < paths[title].frames <= most} == {}


def test_no_call_creates_more_tasks_than_its_bound(paths: dict[str, CallPath]) -> None:
    assert {title: path.tasks for title, path in paths.items() if path.tasks > TASKS.get(title, 1)} == {}


def test_no_call_passes_through_a_queue(paths: dict[str, CallPath]) -> None:
    assert {title: path.queues for title, path in paths.items() if path.queues} == {}
