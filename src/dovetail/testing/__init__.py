"""For tests of servers and of what uses them: scripted answers, transcripts, snapshots, and a pytest plugin.

Each name is imported when it is first used: pytest loads this package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparing import Change, changes, report
    from .describing import Interface, interface
    from .playback import TranscriptDiffers, play_back
    from .replay import Replay
    from .script import Asked, Script, UnexpectedQuestion
    from .snapshot import SnapshotDiffers, check_snapshot, load_snapshot, save_snapshot
    from .transcript import Line, Transcript

_HOMES = {
    "Asked": "script",
    "Change": "comparing",
    "Interface": "describing",
    "Line": "transcript",
    "Replay": "replay",
    "Script": "script",
    "SnapshotDiffers": "snapshot",
    "Transcript": "transcript",
    "TranscriptDiffers": "playback",
    "UnexpectedQuestion": "script",
    "changes": "comparing",
    "check_snapshot": "snapshot",
    "interface": "describing",
    "load_snapshot": "snapshot",
    "play_back": "playback",
    "report": "comparing",
    "save_snapshot": "snapshot",
}

__all__ = [
    "Asked",
    "Change",
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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dovetail.testing' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
