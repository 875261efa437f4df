"""For tests of servers and of what uses them: scripted answers, transcripts, snapshots, and a pytest plugin.

Each name is imported when it is first used: pytest loads this package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from .authority.authority import DevAuth
    from .comparing import Change, changes, report
    from .describing import Interface, interface
    from .playback import TranscriptDiffers, play_back
    from .replay import Replay
    from .script import Asked, Script, UnexpectedQuestion
    from .snapshot import SnapshotDiffers, check_snapshot, load_snapshot, save_snapshot
    from .transcript import Line, Transcript

_HOMES = {
    "Asked": "testing.script",
    "Change": "testing.comparing",
    "DevAuth": "testing.authority.authority",
    "Interface": "testing.describing",
    "Line": "testing.transcript",
    "Replay": "testing.replay",
    "Script": "testing.script",
    "SnapshotDiffers": "testing.snapshot",
    "Transcript": "testing.transcript",
    "TranscriptDiffers": "testing.playback",
    "UnexpectedQuestion": "testing.script",
    "changes": "testing.comparing",
    "check_snapshot": "testing.snapshot",
    "interface": "testing.describing",
    "load_snapshot": "testing.snapshot",
    "play_back": "testing.playback",
    "report": "testing.comparing",
    "save_snapshot": "testing.snapshot",
}

__all__ = [
    "Asked",
    "Change",
    "DevAuth",
    "Interface",
    "Line",
    "Replay",
    "Script",
    "SnapshotDiffers",
    "Transcript",
    "TranscriptDiffers",
    "UnexpectedQuestion",
    "changes",
    "check_snapshot",
    "interface",
    "load_snapshot",
    "play_back",
    "report",
    "save_snapshot",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
