"""A report that takes two minutes, asks once on the way, and survives `kill -9`.

    dovetail serve examples/report.py --http --store report.sqlite

Start the report from a second terminal, kill the server with `kill -9`, and start it again: the report goes on with the
month that was not finished. The question may wait for days; no process waits with it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, Server

SECONDS = float(os.environ.get("REPORT_SECONDS", "10"))
"""Seconds that the sales of one month take to read."""

server = Server("report", version="1.0.0", instructions="Start a report with `report`; it takes two minutes.")


@dataclass
class Settings:
    """How the report is written."""

    currency: Literal["EUR", "USD"]


@dataclass
class Report:
    """The finished report."""

    year: int
    currency: str
    total: float


async def read_month(year: int, month: int) -> int:
    """Read the sales of a month, in cents, from a system that takes its time."""
    await asyncio.sleep(SECONDS)
    return year * month


@server.tool(task="optional", resume=True, ttl=7 * 86400)
async def report(year: Annotated[int, Param("The year", ge=2000, le=2100)], ctx: Context) -> Report:
    """Write the report of a year, which takes about two minutes."""
    cents = 0
    for month in range(1, 13):
        await ctx.status(f"reading month {month} of 12")
        # A step that has finished never runs again, whatever happens to this process.
        cents += await ctx.step(f"month {month}", read_month, year, month)
    answer = await ctx.elicit("In which currency?", Settings)
    currency = answer.data.currency if answer.accepted else "EUR"
    await ctx.status("writing")
    return Report(year, currency, round(cents / 100 * (1 if currency == "EUR" else 1.1), 2))


if __name__ == "__main__":
    server.run()
