"""Lines at the bottom of the terminal that are redrawn: an open block, progress bars, activity."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable
from typing import IO, Any, Self

from dovetail.cli.output import cut, plain_terminal, printable

_BAR = 24
_MOST = 4
"""Bars shown at once."""
_PAUSE = 0.05
"""Minimum seconds between two redraws."""

_SILENCE = 1.0
"""Seconds without progress until the display shows what it waits for, and between two updates of that line."""

_BELOW = "\x1b[J"


class ProgressDisplay:
    """Redrawn lines on a stream; stands in for `sys.stderr` meanwhile, so that other output goes above them."""

    def __init__(self, under: IO[str], *, quiet: bool = False) -> None:
        """With `quiet` there are no bars and no notes."""
        self._under = under
        self._quiet = quiet
        self.is_live = under.isatty() and not plain_terminal() and not quiet
        """True if lines can be redrawn; if not, bars, activity and open blocks are not shown."""
        self.open_lines: Callable[[], list[str]] = list
        """Lines of a block that will change, above the bars; they are computed when they are drawn."""
        self._status = ""
        self._activity = ""
        self._message = ""
        self._activity_began = 0.0
        self._in_line = False
        self._bars: dict[str, str] = {}
        self._drawn: list[str] = []
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
        """Write above the redrawn lines."""
        if self._drawn and text.endswith("\n"):
            self._draw(above=text)  # in one go, so that nothing flickers
            return len(text)
        self._erase()
        written = self._under.write(text)
        if text:
            self._in_line = not text.endswith("\n")
        self._draw()
        self._under.flush()
        return written

    def line(self, text: str) -> None:
        """Print a line; on a terminal with control characters escaped."""
        self.write((printable(text) if self._under.isatty() else text) + "\n")

    def note(self, text: str) -> None:
        """Print a line that `--quiet` leaves out."""
        if not self._quiet:
            self.line(text)

    @contextlib.asynccontextmanager
    async def activity(self, text: str) -> AsyncGenerator[None]:
        """Show what the command waits for, with the seconds so far, whenever it takes more than a second."""
        import asyncio

        async def tick() -> None:
            while True:
                await asyncio.sleep(_SILENCE)
                self._draw()

        self._activity, self._message, self._activity_began = text, "", time.monotonic()
        ticking = asyncio.create_task(tick()) if self.is_live else None
        try:
            yield
        finally:
            self._activity = ""
            self._draw()
            if ticking is not None:
                ticking.cancel()

    def message(self, text: str) -> None:
        """Show how far the activity is, after its own text; the empty text removes it."""
        if self.is_live and text != self._message:
            self._message = text
            self._draw()

    def progress(self, progress: float, total: float | None, message: str | None, call: str = "") -> None:
        """Update the bar of a call; does nothing if the stream is not a terminal."""
        if not self.is_live:
            return
        self._bars[call] = progress_bar(progress, total, message, shutil.get_terminal_size().columns)
        finished = total is not None and progress >= total
        if finished or time.monotonic() - self._drawn_at >= _PAUSE:
            self._draw()

    def end_progress(self, call: str | None = None) -> None:
        """Remove the bar of a call, or all bars."""
        if call is None:
            self._bars.clear()
        else:
            self._bars.pop(call, None)
        self._draw()

    def status(self, text: str) -> None:
        """Show a text in the last line; the empty text removes it."""
        if self.is_live and text != self._status:
            self._status = text
            self._draw()

    def update(self) -> None:
        """Draw open lines that have changed, unless that was done just now."""
        if self.is_live and time.monotonic() - self._drawn_at >= _PAUSE:
            self._draw()

    def hide(self) -> None:
        """Hide the redrawn lines during a prompt."""
        self._erase()
        self._hidden = True

    def show(self) -> None:
        """Show them again."""
        self._hidden = False
        self._draw()

    def _lines(self) -> list[str]:
        """The open block, the bars and the status; without bars the activity, once it takes long."""
        if self._hidden or not self.is_live:
            return []
        columns, rows = shutil.get_terminal_size()
        lines = list(self._bars.values())[:_MOST]
        if more := len(self._bars) - len(lines):
            lines.append(f"and {more} more")
        took = time.monotonic() - self._activity_began
        if not lines and self._activity and took >= _SILENCE:
            lines.append(self._activity_line(f" … {took:.0f} s", max(columns - 1, 1)))
        if self._status:
            lines.append(cut(self._status, max(columns - 1, 1)))
        room = max(rows - len(lines) - 1, 1)
        return [*self.open_lines()[-room:], *lines]

    def _activity_line(self, time: str, room: int) -> str:
        """The activity, its message and the time, which is never cut off."""
        text = f"{self._activity}: {self._message}" if self._message else self._activity
        return cut(cut(" ".join(printable(text).split()), max(room - len(time), 1)) + time, room)

    def _draw(self, above: str = "") -> None:
        """Redraw from the first line that differs; `above` is text that stays, before them."""
        if self._in_line:
            return
        lines = self._lines()
        if lines == self._drawn and not above:
            return
        self._drawn_at = time.monotonic()
        kept = 0
        while not above and kept < min(len(lines), len(self._drawn)) - 1 and lines[kept] == self._drawn[kept]:
            kept += 1
        up = max(len(self._drawn) - 1 - kept, 0)
        new = [*above.split("\n")[:-1], *lines[kept:]]
        end = "\n" if above and not lines else ""
        self._under.write("\r" + (f"\x1b[{up}A" if up else "") + _BELOW + "\n".join(new) + end)
        self._under.flush()
        self._drawn = lines

    def _erase(self) -> None:
        if self._drawn:
            up = len(self._drawn) - 1
            self._under.write("\r" + (f"\x1b[{up}A" if up else "") + _BELOW)
            self._under.flush()
            self._drawn = []


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
