"""The pictures of a terminal: what stands on a screen, stands in the SVG, in its place and its colour."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pyte
import pytest

from docs.screens.frame import Frame, Run, Style, capture
from docs.screens.record import Pause, TimedFrame, Type, Wait, paced, record
from docs.screens.svg import CELL, animated_svg, static_svg
from tests.support.emulated import emulated_screen

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def shown(text: str, columns: int = 20, lines: int = 3) -> Frame:
    screen = emulated_screen(columns, lines)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return capture(screen)


def test_a_frame_has_runs_of_one_style_without_blanks_at_the_end() -> None:
    frame = shown("\x1b[1;32mgo\x1b[0m now  \n\x1b[2mdim\x1b[22m\x1b[38;5;2m not\x1b[0m")
    assert frame.lines[0].runs == (Run(0, 2, "go", Style("green", bold=True)), Run(3, 3, "now", Style()))
    assert frame.lines[1].runs[0] == Run(0, 3, "dim", Style(dim=True))
    assert frame.lines[1].runs[-1].style.dim is False
    assert frame.text == "go now\ndim not"
    assert frame.lines[1].cursor == 7 and frame.lines[0].cursor is None


def test_reversed_text_has_a_background() -> None:
    (run,) = shown("\x1b[7mon\x1b[0m").lines[0].runs
    assert (run.style.fg, run.style.bg) == ("background", "foreground")


def test_what_differs_from_run_to_run_is_replaced() -> None:
    assert shown("took 0.73 s").replaced(r"\d+\.\d+ s", "1.2 s").text == "took 1.2 s"


def test_a_static_picture_places_each_piece_on_the_grid() -> None:
    drawn = ET.fromstring(static_svg(shown("a <b>   c\n   你 x"), "a title & more"))
    texts = {element.text: element for element in drawn.iter(f"{SVG}text")}
    assert set(texts) == {"a title & more", "a <b>", "c", "你 x"}
    assert float(texts["c"].attrib["x"]) == pytest.approx(8 * CELL)
    assert float(texts["你 x"].attrib["textLength"]) == pytest.approx(4 * CELL), "a wide character takes two cells"


def test_boxes_are_shapes_without_gaps() -> None:
    drawn = static_svg(shown("┌────┐\n│ ok │\n└────┘"))
    assert "─" not in drawn and "│" not in drawn and drawn.count("<path") == 3
    assert drawn.count("H") == 2, "a horizontal line is one stroke"


def test_an_animation_defines_each_line_once() -> None:
    frames = [TimedFrame(at, shown("the first line\n" + "x" * at)) for at in range(8)]
    drawn = animated_svg(frames)
    ET.fromstring(drawn)
    assert drawn.count("the first line") == 1, "a line that stays is neither repeated nor moved"
    assert drawn.count("@keyframes") == 1
    assert "prefers-reduced-motion" in drawn


def test_frames_that_nobody_could_see_are_dropped_and_long_gaps_shortened() -> None:
    one = shown("x")
    times = [at for at, _ in paced([TimedFrame(at, one) for at in (0.0, 0.01, 0.02, 0.5, 60.5)], 0.04, 2.0)]
    assert times == [0.0, 0.02, 0.5, 2.5]


def test_a_program_is_driven_by_a_script() -> None:
    code = "name = input('name? '); print(f'\\x1b[1mhello {name}\\x1b[0m')"
    steps = [Wait("name?"), Type("Ann\r"), Wait("hello Ann"), Pause(0.05)]
    frames = record([sys.executable, "-c", code], dict(os.environ), steps, columns=30, lines=4)
    texts = [frame.text for _, frame in frames]
    assert "name? A" in texts, "keys are typed one by one"
    assert texts[-1] == "name? Ann\nhello Ann"


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps([{"wait": "ready"}, {"pause": 0.01}]))
    words = [str(tmp_path / "out.svg"), "--script", str(tmp_path / "script.json"), "--columns", "40", "--animate", "--"]
    code = "print('ready')"
    done = subprocess.run([sys.executable, "-m", "docs.screens", *words, sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 0
    assert ">ready</text>" in (tmp_path / "out.svg").read_text()
