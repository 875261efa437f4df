"""Make an SVG of a program at a terminal.

`python -m docs.screens OUT.svg --script SCRIPT.json -- COMMAND…` runs a command in a pseudo-terminal, plays the script
and writes the last frame, or with `--animate` all frames. The script is a list of steps: {"type": "text"} or
{"type": "text", "every": 0.05}, {"wait": "text on the screen"}, {"pause": 1.5}.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from docs.screens.record import Pause, Step, Type, Wait, paced, record
from docs.screens.svg import animated_svg, static_svg


def main() -> None:
    """Read the options and write the file."""
    parser = argparse.ArgumentParser(prog="python -m docs.screens", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="OUT.svg")
    parser.add_argument("--script", type=Path, required=True, help="JSON file with the steps")
    parser.add_argument("--animate", action="store_true", help="all frames instead of the last one")
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--lines", type=int, default=24)
    parser.add_argument("--title", default="")
    parser.add_argument("--rest", type=float, default=3.0, help="seconds that the last frame stays")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    steps = [read_step(step) for step in json.loads(options.script.read_text())]
    frames = record(options.command, dict(os.environ), steps, options.columns, options.lines)
    if options.animate:
        options.file.write_text(animated_svg(paced(frames), options.title, options.rest))
    else:
        options.file.write_text(static_svg(frames[-1].frame, options.title))


def read_step(step: dict[str, Any]) -> Step:
    """A step of a script in JSON."""
    match step:
        case {"type": text}:
            return Type(text, step.get("every", 0.05))
        case {"wait": text}:
            return Wait(text)
        case {"pause": seconds}:
            return Pause(seconds)
        case _:
            raise SystemExit(f"A step is type, wait or pause, not {step}")


if __name__ == "__main__":
    main()
