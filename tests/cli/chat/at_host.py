"""`dovetail host` at a terminal of 80 columns and 24 lines, with a model that has a script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cli.invoke import COMMAND, DESK, environment
from tests.support.emulated import Emulated

YOU = "you>"
ENTER, DOWN, UP, RIGHT, ESC = "\r", "\x1b[B", "\x1b[A", "\x1b[C", "\x1b"
CTRL_C, CTRL_D, CTRL_S = "\x03", "\x04", "\x13"
CLEAR = "\x1b>" + "\x15\x7f" * 12
"""To the end of an editor, then every line away."""


def step(say: str = "", **tools: dict[str, Any]) -> dict[str, Any]:
    """What the model says and wants."""
    return {"say": say, "use": [{"name": name, "arguments": arguments} for name, arguments in tools.items()]}


SCRIPT: dict[str, list[dict[str, Any]]] = {
    "add": [step("Adding.", desk__add={"a": 1, "b": 2}), step("Added.")],
    "sleep": [step("Good night.", desk__sleep={}), step("Awake.")],
    "trip": [step(desk__book={}), step("About the trip: done.")],
    "sign in": [step(desk__visit={}), step("About the page: done.")],
    "think": [step(desk__think={}), step("Thought.")],
    "6 times 7": [step("42")],
    "picture": [step(desk__picture={}), step("Look.")],
    "letter": [step("Dear all.")],
    "both": [step(desk__say={"text": "y" * 200}, desk__echo={"text": "hi"}), step("Both.")],
    "quiet": [step()],
    "Back at nine": [step("I read the note.")],
    "": [step("I do not know.")],
}


class AtHost(Emulated):
    """The application with the desk as its server, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        model: bool = True,
        server: str = DESK,
        launch: bool = True,
        dumb: bool = False,
        **env: str,
    ) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        entry = {"command": sys.executable, "args": [server], "env": {"DESK_NOTES": str(self.notes), **env}}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": entry}}, indent=2))
        (folder / "talk.json").write_text(json.dumps(SCRIPT))
        options = ["--config", str(folder / "mcp.json")]
        options += ["--model", f"scripted:{folder / 'talk.json'}"] if model else []
        options += ["--launch", "desk"] if launch else []
        settings = {"XDG_CONFIG_HOME": str(folder / "user"), "HOME": str(folder), "DOVETAIL_KEYRING": "off"}
        command = [*(["/usr/bin/env", "TERM=dumb"] if dumb else []), *COMMAND, "host", *options, *words]
        super().__init__(command, environment(**{**settings, **env}))

    def until_prompt(self) -> str:
        """Wait until the person can say something, and has typed nothing yet."""
        return self.until_true(lambda: self.last_line == YOU, "an empty prompt")

    @property
    def last_line(self) -> str:
        """The last line above the status line."""
        above, _, last = self.screen.rpartition("\n")
        return above.rstrip().rpartition("\n")[2] if "servers ready" in last else last

    def ready(self) -> None:
        """Wait until the server is there, and the program for the person."""
        self.until("desk is ready")
        self.until_prompt()

    def say(self, text: str) -> None:
        """Type a line at the prompt."""
        self.until_prompt()
        self.type(text)
        # A menu may stand below the line; it is gone with Enter.
        self.until(f"{YOU} {text}")
        self.type(ENTER)

    def leave(self) -> int:
        """Leave as people do; the exit code."""
        self.until_prompt()
        self.type(CTRL_D)
        return self.end()
