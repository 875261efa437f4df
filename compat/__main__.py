"""Runs other people's clients and servers against ours, and writes docs/compatibility.md.

python -m compat                          everything
python -m compat --only mcp-1.2.0         what begins with a name; may be given several times
python -m compat --resume                 what has no result yet
python -m compat --report                 nothing; the page from the results of earlier runs
python -m compat --quick --install        install the clients that are part of `make test`, and run nothing
"""

import argparse
import asyncio
import sys
import time

from . import inspection, install, report, results, visits
from .clients import CLIENTS, QUICK
from .entries import Expected, ThirdPartyClient, ThirdPartyServer
from .results import Result
from .servers import ENDPOINTS, SERVERS

Entry = ThirdPartyClient | ThirdPartyServer


def kind(entry: Entry) -> str:
    """The folder of an entry's result."""
    return "clients" if isinstance(entry, ThirdPartyClient) else "servers"


def problems(entry: Entry, result: Result) -> list[str]:
    """The problems with a result, as `make compat` fails with them."""
    unavailable = isinstance(entry, ThirdPartyServer) and entry.unavailable
    if unavailable and not report.connects(result):
        return []
    expected: tuple[Expected, ...] = entry.expected
    return results.judge(result, expected)


async def visit(entry: Entry, turns: asyncio.Semaphore) -> list[str]:
    """Visit one client or server, save its result, and print a line."""
    async with turns:
        began = time.monotonic()
        visited = visits.visit_client(entry) if isinstance(entry, ThirdPartyClient) else visits.visit_server(entry)
        result = await visited
        result.save()
    found = problems(entry, result)
    passed, total = result.counts
    remark = "ok" if not found else f"{len(found)} unexpected"
    print(f"{entry.slug:<60} {passed:>4}/{total:<4} {time.monotonic() - began:>5.0f} s  {remark}", flush=True)
    return found


async def _install(entry: Entry, turns: asyncio.Semaphore) -> None:
    async with turns:
        began = time.monotonic()
        await install.install(entry.environment)
    print(f"{entry.slug:<60} {time.monotonic() - began:>5.0f} s  installed", flush=True)


async def main() -> int:
    """Visit what was chosen; exit code 1 for unexpected failures, and for expected ones that did not occur."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="the beginning of a name, as it is printed")
    parser.add_argument("--kind", choices=("clients", "servers"), help="only clients, or only servers")
    parser.add_argument("--resume", action="store_true", help="leave out what has a result")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--quick", action="store_true", help="only the clients that are part of `make test`")
    parser.add_argument("--install", action="store_true", help="install, and run nothing")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time")
    chosen = parser.parse_args()
    entries: list[Entry] = [*CLIENTS, *SERVERS, *ENDPOINTS]
    wanted = [
        entry
        for entry in entries
        if (not chosen.only or entry.slug.startswith(tuple(chosen.only)))
        and chosen.kind in (None, kind(entry))
        and not (chosen.quick and entry.slug not in QUICK)
        and not (chosen.resume and results.load(kind(entry), entry.slug))
    ]
    turns = asyncio.Semaphore(chosen.workers)
    if chosen.install:
        await asyncio.gather(*(_install(entry, turns) for entry in wanted))
        return 0
    if chosen.report:
        saved = [(entry, results.load(kind(entry), entry.slug)) for entry in wanted]
        found = [problem for entry, result in saved if result for problem in problems(entry, result)]
    else:
        visited = await asyncio.gather(*(visit(entry, turns) for entry in wanted))
        found = [problem for part in visited for problem in part]
    sentence, alarms = inspection.inspect()
    found += alarms
    print(*found, sep="\n", end="\n" if found else "")
    if report.write(sentence):
        print(f"The table is in {report.PAGE.relative_to(report.ROOT)}")
    else:
        print("The table is written when everything has a result: run the rest with --resume")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
