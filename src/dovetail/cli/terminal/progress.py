"""Progress bars at the bottom of the terminal, with lines above them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import IO, Any, Self

from dovetail.cli.output import cut, printable

_BAR = 24
_MOST = 4
"""Bars shown at once."""
_PAUSE = 0.05
"""Minimum seconds between two redraws."""

_ERASE = "\r\x1b[K"
_UP = "\x1b[A\x1b[K"


class ProgressDisplay:
    """Progress bars on a stream; stands in for `sys.stderr` meanwhile, so that other output goes above the bars."""

    def __init__(self, under: IO[str]) -> None:
        self._under = under
        self._live = under.isatty() and os.environ.get("TERM") != "dumb"
        self._bars: dict[str, str] = {}
        self._drawn = 0
        self._drawn_at = float("-inf")
        self._hidden = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)

    def __enter__(self) -> Self:
        sys.stderr = self  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr = self._under
        self.end_progress()

    def write(self, text: str) -> int:
        """Write above the bars."""
        self._erase()
        written = self._under.write(text)
        if text.endswith("\n"):
            self._draw()
        self._under.flush()
        return written

    def line(self, text: str) -> None:
        """Print a line; on a terminal with control characters escaped."""
        self.write((printable(text) if self._live else text) + "\n")

    def progress(self, progress: float, total: float | None, message: str | None, call: str = "") -> None:
        """Update the bar of a call; does nothing if the stream is not a terminal."""
        if not self._live:
            return
        self._bars[call] = progress_bar(progress, total, message, shutil.get_terminal_size().columns)
        finished = total is not None and progress >= total
        if finished or time.monotonic() - self._drawn_at >= _PAUSE:
            self._draw()

    def end_progress(self, call: str | None = None) -> None:
        """Remove the bar of a call, or all bars."""
        self._erase()
        if call is None:
            self._bars.clear()
        else:
            self._bars.pop(call, None)
            self._draw()

    def hide(self) -> None:
        """Hide the bars during a prompt."""
        self._erase()
        self._hidden = True

    def show(self) -> None:
        """Show the bars again."""
        self._hidden = False
        self._draw()

    def _draw(self) -> None:
        if self._bars and not self._hidden:
            self._drawn_at = time.monotonic()
            lines = list(self._bars.values())[:_MOST]
            if more := len(self._bars) - len(lines):
                lines.append(f"and {more} more")
            self._erase()
            self._under.write(_ERASE + "\n".join(lines))
            self._under.flush()
            self._drawn = len(lines)

    def _erase(self) -> None:
        if self._drawn:
            self._under.write(_ERASE + _UP * (self._drawn - 1))
            self._under.flush()
            self._drawn = 0


def progress_bar(progress: float, total: float | None, message: str | None, width: int) -> str:
    """A progress bar that fits on one line."""
    said = " ".join(printable(message or "").split())
    if total is not None and total > 0:
        share = min(max(progress / total, 0.0), 1.0)
        full = round(share * _BAR)
        head = f"[{'#' * full}{'-' * (_BAR - full)}] {share:4.0%}"
    else:
        head = f"[{progress:g}]"
    return cut(f"{head} {said}".rstrip(), max(width - 1, 1))
