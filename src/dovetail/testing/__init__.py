"""Testing servers and clients: scripted answers, transcripts, snapshots, a clock to fast-forward, and a pytest plugin.

Each name is imported when it is first used: pytest loads this package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.testing.auth_server.dev_auth import DevAuth

    from .interface_diff import InterfaceChange, changes, report
    from .interface_reader import Interface, interface
    from .scripted_answers import AnsweredRequest, Script, UnexpectedQuestion
    from .snapshot import SnapshotDiffers, check_snapshot, load_snapshot, save_snapshot
    from .transcript import Line, Transcript
    from .transcript_playback import TranscriptDiffers, play_back
    from .transcript_server import Replay
    from .virtual_clock import VirtualClock

_HOMES = {
    "AnsweredRequest": "testing.scripted_answers",
    "InterfaceChange": "testing.interface_diff",
    "DevAuth": "testing.auth_server.dev_auth",
    "Interface": "testing.interface_reader",
    "Line": "testing.transcript",
    "Replay": "testing.transcript_server",
    "Script": "testing.scripted_answers",
    "SnapshotDiffers": "testing.snapshot",
    "Transcript": "testing.transcript",
    "TranscriptDiffers": "testing.transcript_playback",
    "UnexpectedQuestion": "testing.scripted_answers",
    "VirtualClock": "testing.virtual_clock",
    "changes": "testing.interface_diff",
    "check_snapshot": "testing.snapshot",
    "interface": "testing.interface_reader",
    "load_snapshot": "testing.snapshot",
    "play_back": "testing.transcript_playback",
    "report": "testing.interface_diff",
    "save_snapshot": "testing.snapshot",
}

__all__ = [
    "AnsweredRequest",
    "DevAuth",
    "Interface",
    "InterfaceChange",
    "Line",
    "Replay",
    "Script",
    "SnapshotDiffers",
    "Transcript",
    "TranscriptDiffers",
    "UnexpectedQuestion",
    "VirtualClock",
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
