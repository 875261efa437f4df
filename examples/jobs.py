"""A long job: it tells how far it is, can be cancelled, and leaves nothing half done behind.

    dovetail call examples/jobs.py render frames=200

Ctrl-C cancels it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from dovetail import Context, Param, Server

server = Server("jobs", version="1.0.0")

Outcome = Literal["running", "done", "cancelled"]
FOLDER = Path(tempfile.gettempdir())
outcomes: list[Outcome] = []


@server.tool(timeout=600, concurrency=2)
async def render(frames: Annotated[int, Param("How many pictures", ge=1, le=10_000)], ctx: Context) -> str:
    """Render a film, at about a hundred frames a second."""
    job = len(outcomes)
    outcomes.append("running")
    # The file is there for the time of the job only, however the job ends.
    with tempfile.NamedTemporaryFile(prefix="film-", dir=FOLDER) as film:
        try:
            for frame in range(1, frames + 1):
                film.write(b"frame %d\n" % frame)
                await asyncio.sleep(0.01)
                await ctx.progress(frame, frames, f"frame {frame}")
        except asyncio.CancelledError:
            # The client gave up, or is gone. Tidy up, then let the cancellation go on.
            outcomes[job] = "cancelled"
            raise
        size = film.tell()
    outcomes[job] = "done"
    return f"{frames} frames, {size} bytes"


@server.tool(read_only=True)
async def jobs() -> list[Outcome]:
    """Tell what became of each job so far."""
    return outcomes


if __name__ == "__main__":
    server.run()
