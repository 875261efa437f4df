"""Drive a program in a pseudo-terminal with a script of keys and waits, and keep the frames it shows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from docs.screens.frame import Frame, capture
from tests.support.emulated import Emulated


@dataclass(frozen=True)
class Type:
    """Type text, as a user does: key after key."""

    text: str
    every: float = 0.05
    """Seconds between two keys; 0 sends all at once."""


@dataclass(frozen=True)
class Wait:
    """Wait until a text is on the screen."""

    text: str


@dataclass(frozen=True)
class Pause:
    """Let the viewer read."""

    seconds: float


Step: TypeAlias = Type | Wait | Pause


class TimedFrame(NamedTuple):
    """A frame, and the seconds since the first one."""

    at: float
    frame: Frame


class Recorder:
    """Keeps each different frame of a terminal with its time."""

    def __init__(self, terminal: Emulated) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self.frames: list[TimedFrame] = []
        terminal.on_output = self.keep

    def keep(self) -> None:
        """Keep the present frame, if it differs from the one before."""
        frame = capture(self._terminal.grid)
        if not self.frames or self.frames[-1].frame != frame:
            self.frames.append(TimedFrame(time.monotonic() - self._began, frame))


def play(terminal: Emulated, steps: Iterable[Step]) -> None:
    """Carry out the steps of a script at a terminal."""
    for step in steps:
        match step:
            case Type(text, every):
                for key in text if every else [text]:
                    terminal.type(key)
                    terminal.read_for(every)
            case Wait(text):
                terminal.until(text)
            case Pause(seconds):
                terminal.read_for(seconds)


def record(
    command: Sequence[str], env: dict[str, str], steps: Iterable[Step], columns: int = 80, lines: int = 24
) -> list[TimedFrame]:
    """Run a command with a script; all frames up to the end of the script."""
    with Emulated(command, env, columns, lines) as terminal:
        recorder = Recorder(terminal)
        play(terminal, steps)
        recorder.keep()
    return recorder.frames


def paced(frames: Sequence[TimedFrame], shortest: float = 0.04, longest: float = 2.5) -> list[TimedFrame]:
    """The frames with gaps that are long enough to be seen, and not too long to wait for; others are dropped."""
    made: list[TimedFrame] = []
    at, before = 0.0, 0.0
    for number, (moment, frame) in enumerate(frames):
        following = frames[number + 1].at if number + 1 < len(frames) else None
        if made and following is not None and following - before < shortest:
            continue
        at += min(moment - before, longest) if made else 0.0
        before = moment
        made.append(TimedFrame(round(at, 3), frame))
    return made
