"""Record the animated picture at the top of the README from the real program.

`python -m docs.screens.readme_recording [FILE] [--fast]` writes docs/images/recording.svg, or another file. A shell
runs in a pseudo-terminal, in a folder with the server below, and the model follows a script, so that no network is
needed. With `--fast` there are no pauses to read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from docs.screens.record import Pause, Step, Type, Wait, paced, record
from docs.screens.svg import animated_svg

PICTURE = Path(__file__).resolve().parents[1] / "images" / "recording.svg"
COLUMNS, LINES = 88, 28

SERVER = '''\
from dataclasses import dataclass
from dovetail import Server

server = Server("weather")

@dataclass
class Day:
    day: str
    sky: str
    high: int

@server.tool
def forecast(city: str, days: int = 3) -> list[Day]:
    """Forecast the weather in a city."""
    week = [("Mon", "rain", 17), ("Tue", "sun", 24), ("Wed", "clouds", 21)]
    return [Day(*day) for day in week[:days]]
'''
ANSWER = """\
## Tuesday is your day

| day | sky | high |
|---|---|---|
| Mon | rain | 17 °C |
| **Tue** | **sun** | **24 °C** |
| Wed | clouds | 21 °C |

Take the *Sintra* trail: two hours, mostly in the shade. Bring **water** and a hat.
"""
MODEL = {"": [{"use": [{"name": "weather__forecast", "arguments": {"city": "Lisbon"}}]}, {"say": ANSWER}]}

STEPS: tuple[Step, ...] = (
    Wait("$"),
    Type("cat weather.py\r"),
    Wait("days]"),
    Pause(2.5),
    Type("clear; dovetail call weather.py forecast city=Lisbon\r"),
    Wait("Wed"),
    Pause(2),
    Type("dovetail host weather.py --model scripted:guide.json\r"),
    Wait("you>"),
    Pause(0.5),
    Type("Which day is best for a walk in Lisbon?\r"),
    Wait("[v] whole definition"),
    Pause(2.5),
    Type("y", every=0),
    Wait("a hat."),
    Pause(3),
    Type("/traffic\r"),
    Wait("tools/call"),
    Pause(3),
)


def main() -> None:
    """Record the session and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m docs.screens.readme_recording")
    parser.add_argument("file", nargs="?", type=Path, default=PICTURE)
    parser.add_argument("--fast", action="store_true", help="no pauses")
    options = parser.parse_args()
    picture: Path = options.file
    steps = [step for step in STEPS if not (options.fast and isinstance(step, Pause))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "weather.py").write_text(SERVER)
        (folder / "guide.json").write_text(json.dumps(MODEL))
        command = ["/bin/bash", "--norc", "--noprofile", "-c", f"cd {folder}; PS1='$ ' exec bash --norc --noprofile -i"]
        frames = paced(record(command, environment(folder), steps, COLUMNS, LINES))
    picture.write_text(animated_svg(frames, "dovetail"))


def environment(home: Path) -> dict[str, str]:
    """The environment of the shell: this virtual environment, and an empty home."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8"}


if __name__ == "__main__":
    main()
