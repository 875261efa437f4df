"""The demo runs to its end, shows each feature, and can be used at a terminal."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.invoke import environment
from tests.support.emulated import Emulated

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"


def test_the_scripted_demo_shows_each_feature_and_ends(tmp_path: Path) -> None:
    started = time.monotonic()
    env = environment(XDG_CONFIG_HOME=str(tmp_path), HOME=str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(DEMO / "scripted.py")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert time.monotonic() - started < 50
    for revision in ("2024-11-05", "2025-11-25", "2026-07-28"):
        assert f"ready, {revision}" in done.stdout
    for shown in (
        'May "almanac" be started?',
        'May "hotels" be reached?',
        "[ ] search",
        'May the tool "weather" of "almanac" be called?',
        '── "hotels" asks for input',
        "  | Which room in Lisbon?",
        "arguments, edited:",
        "~ notes://all of notes has changed",
        "H-001: Lisbon, 3 nights, garden room",
        'May "notes" ask the model "scripted"?',
        'May "notes" see what the model said?',
        "x clear was refused",
        "you approved     start almanac",
        "you refused      call clear of notes",
        "complete and unchanged",
    ):
        assert shown in done.stdout, shown
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_the_live_demo_can_be_used_at_a_terminal(tmp_path: Path) -> None:
    env = environment(XDG_CONFIG_HOME=str(tmp_path), HOME=str(tmp_path), PATH=os.environ["PATH"])
    with Emulated([sys.executable, str(DEMO / "live.py")], env) as terminal:
        for _ in range(3):
            terminal.until_at_cursor("[y] once")
            terminal.type("s")
            terminal.until_gone("[y] once")
        terminal.until("almanac is ready", "hotels is ready", "notes is ready")
        terminal.until_at_cursor("you>")
        terminal.type("search hotels\r")
        terminal.until('May the tool "search" of "hotels" be called?')
        terminal.answer("[v] whole definition", "y")
        terminal.until("% search: hotel")
        terminal.type("\x03")
        terminal.until("(stopped)")
        terminal.until_at_cursor("you>")
        terminal.type("/quit\r")
        assert terminal.end() == 0
