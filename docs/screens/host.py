"""Pictures of `dovetail host`, made from the real program: `python -m docs.screens.host --update` writes docs/images.

The program runs in a pseudo-terminal, with a server of our own and an endpoint for a model that plays a script. Without
`--update` nothing is written, and the exit code says whether a picture is out of date.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.screens.frame import Frame, capture
from docs.screens.svg import static_svg
from tests.cli.invoke import COMMAND, environment
from tests.support.emulated import Emulated
from tests.support.model_endpoint import Answer, Endpoint, Piece, openai_events, serving

IMAGES = Path(__file__).resolve().parents[1] / "images"
SERVER = Path(__file__).with_name("travel_server.py")
SIZES = ((80, 24), (120, 30))
MODEL = "qwen3"
ENTER, RIGHT, CTRL_D, ESC = "\r", "\x1b[C", "\x04", "\x1b"

PLAN = """## Two days in Lisbon

It will be **sunny** on both days, with *some* wind in the evening; see \
[the forecast](https://example.com/lisbon) before you leave.

| day | sky | high |
|---|---|--:|
| Monday | clear | 24 °C |
| Tuesday | some clouds | 21 °C |

1. Take the tram 28 early, before nine.
2. Walk down from the castle, and have lunch in `Alfama`.

```python
def pack(days: int) -> list[str]:
    \"\"\"What to take along.\"\"\"
    return ["sun cream"] * days
"""
REST = """```

> Bring a jacket for the evening.
"""

VARYING = (
    (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠹"),
    (r"\b\d+ s\b(?= · )", "2 s"),
    (r"\b\d+\.\d s\b", "2.4 s"),
    (r"\d\d:\d\d:\d\d", "09:30:00"),
)
"""Patterns of text that differs from run to run, and what stands there in a picture."""


class ModelThread:
    """An endpoint for a model, in a thread with an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._started = threading.Event()
        self.gate = asyncio.Event()
        """The first answer waits for it before its last words."""
        self.url = ""
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[ModelThread]:
        """Answer requests meanwhile."""
        self._thread.start()
        self._started.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join()
            self._loop.close()

    def open_gate(self) -> None:
        """Let the first answer go on."""
        self._loop.call_soon_threadsafe(self.gate.set)

    async def _run(self) -> None:
        endpoint = Endpoint(answers(self.gate))
        async with serving(endpoint.app, interface="asgi3") as self.url:
            self._started.set()
            await self._done.wait()


def answers(gate: asyncio.Event) -> list[Answer]:
    """The script of the model, one answer for each request."""
    first = _events(*_deltas(PLAN), *_deltas(REST), tokens=(1843, 214))
    pieces: list[Piece] = [*first[: len(_deltas(PLAN))], gate, *first[len(_deltas(PLAN)) :]]
    return [
        Answer(pieces),
        Answer(_events(*_use("travel__forecast", city="Lisbon"), tokens=(2090, 31))),
        Answer(_events(*_deltas("Monday is the best day: *clear*, and **24 °C**."), tokens=(2260, 18))),
        Answer(_events(*_use("travel__book_room", city="Lisbon"), tokens=(2290, 27))),
        Answer(_events(*_deltas("Your room is booked."), tokens=(2400, 9))),
    ]


GATE = "gate"
"""In place of keys: let the first answer go on."""
PROMPT = "1/1 servers ready"

STEPS: list[tuple[tuple[str, ...], str, str]] = [
    (("travel is ready", PROMPT), "", "Plan two days in Lisbon for me." + ENTER),
    (("sun cream", "tokens · Esc stops"), "streaming", GATE),
    (("214 out", PROMPT), "", "How will the weather be, day by day,"),
    (("day by day,",), "", ESC + ENTER),
    ((), "", "and which day is the best one?"),
    (("the best one?",), "status-line", ENTER),
    (("[w] no, because",), "", RIGHT),
    ((), "approval", "y"),
    (("49 out", PROMPT), "result", "Book a room there." + ENTER),
    (("[w] no, because",), "", "y"),
    (("Your name:",), "", "Ann" + ENTER),
    (("Nights (",), "", "3" + ENTER),
    (("Room (",), "", "3" + ENTER),
    (("Breakfast (",), "", ENTER),
    (("[y] yes",), "form", "y"),
    (("36 out", PROMPT), "", "/tools" + ENTER),
    (("/ filter",), "tools", "q"),
    ((PROMPT,), "", "/traffic" + ENTER),
    (("tools/call", PROMPT), "traffic", CTRL_D),
]
"""What to wait for, the name of the picture that is taken then, and keys to press."""


def screens(columns: int, lines: int) -> dict[str, Frame]:
    """The frames of all pictures at one size of the terminal."""
    made: dict[str, Frame] = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        model = stack.enter_context(ModelThread().running())
        terminal = stack.enter_context(_host(Path(folder), model.url, columns, lines))
        for texts, name, keys in STEPS:
            terminal.until(*texts)
            if name:
                terminal.read_for(0.3)  # what is drawn after the text that was waited for
                made[name] = _steady(capture(terminal.grid))
            if keys == GATE:
                model.open_gate()
            else:
                terminal.type(keys)
        terminal.end()
    return made


def pictures() -> dict[str, str]:
    """All pictures, by the name of their file."""
    return {
        f"host-{name}-{columns}.svg": static_svg(frame, "dovetail host")
        for columns, lines in SIZES
        for name, frame in screens(columns, lines).items()
    }


def outdated(drawn: dict[str, str]) -> list[str]:
    """Files of docs/images that differ from these pictures, or are missing."""
    return [
        name
        for name, text in drawn.items()
        if not (IMAGES / name).exists() or (IMAGES / name).read_text(encoding="utf-8") != text
    ]


def _host(folder: Path, url: str, columns: int, lines: int) -> Emulated:
    entry = {"command": sys.executable, "args": [str(SERVER)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"travel": entry}}))
    settings = folder / "user" / "dovetail"
    settings.mkdir(parents=True)
    model = {"provider": "openai", "name": MODEL, "base_url": f"{url}/v1", "context_window": 32_000}
    table = ["[[models]]", *(f"{key} = {json.dumps(value)}" for key, value in model.items())]
    (settings / "models.toml").write_text("\n".join(table))
    env = environment(
        XDG_CONFIG_HOME=str(folder / "user"),
        XDG_DATA_HOME=str(folder / "data"),
        XDG_RUNTIME_DIR=str(folder),
        HOME=str(folder),
        DOVETAIL_KEYRING="off",
        OPENAI_API_KEY="none",
        COLORTERM="",
    )
    words = ["host", "--config", str(folder / "mcp.json"), "--launch", "travel"]
    return Emulated([*COMMAND, *words], {key: value for key, value in env.items() if key != "NO_COLOR"}, columns, lines)


def _steady(frame: Frame) -> Frame:
    frame = frame.replaced(r" *\d+(?:\.\d+)? ms\b", "7 ms", aligned=True)
    frame = frame.replaced(r" *\d+(?:\.\d+)? k?B\b", "1.2 kB", aligned=True)
    for pattern, text in VARYING:
        frame = frame.replaced(pattern, text)
    return frame


def _deltas(text: str) -> list[dict[str, Any]]:
    return [{"content": piece} for piece in re.findall(r"\S+\s*|\s+", text)]


def _use(name: str, **arguments: str) -> list[dict[str, Any]]:
    call = {"name": name, "arguments": json.dumps(arguments)}
    return [{"tool_calls": [{"index": 0, "id": f"call_{name}", "type": "function", "function": call}]}]


def _events(*deltas: dict[str, Any], tokens: tuple[int, int]) -> list[bytes]:
    """The stream of an answer, with the tokens read and written and their cost."""
    *events, end = openai_events(*deltas, usage=False)
    read, written = tokens
    usage = {"prompt_tokens": read, "completion_tokens": written, "cost": round(read * 4e-7 + written * 1.6e-6, 6)}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [], "usage": usage}
    return [*events, f"data: {json.dumps(chunk)}\n\n".encode(), end]


def main() -> None:
    """Compare the pictures, or write them."""
    drawn = pictures()
    names = outdated(drawn)
    if "--update" in sys.argv[1:]:
        IMAGES.mkdir(exist_ok=True)
        for name in names:
            (IMAGES / name).write_text(drawn[name], encoding="utf-8")
    elif names:
        raise SystemExit(f"Out of date: {', '.join(names)}; run: python -m docs.screens.host --update")


if __name__ == "__main__":
    main()
