"""`/servers`: how each server is, and starting, stopping and trusting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.cli.chat.session import Session
from dovetail.cli.chat.ui.contract import Row, back

from .log import log
from .rendering import counted, exact, one_line, rule

if TYPE_CHECKING:
    from dovetail.host.events import ServerStatus

_KEYS = {"enter": "look", "r": "restart", "e": "enable/disable", "t": "trust/distrust", "l": "log"}
_MARKS = {"ready": "+", "failed": "!", "waiting": "!", "asking": "?", "starting": "…", "idle": " ", "disabled": "-"}


async def servers(session: Session, words: list[str]) -> None:
    """Show the servers, and do what the person wants with them."""
    at, host = 0, session.host
    while True:
        found = list(host.servers.values())
        choice = await session.surface.pick("Servers", [_row(status) for status in found], _KEYS, at)
        if choice is None:
            return
        at, status = choice.row, found[choice.row]
        if choice.key == "r":
            await host.restart(status.key)
        elif choice.key == "e":
            await host.set_enabled(status.key, status.state == "disabled")
            if status.state == "disabled":
                await host.ready(status.key)
        elif choice.key == "t":
            await _trust(session, status)
        else:
            await log(session, [status.key]) if choice.key == "l" else _look(session, status)
            if not await back(session.surface):
                return


def summary(status: ServerStatus) -> str:
    """How a server is, on one line."""
    parts = [status.state]
    if status.state == "ready":
        parts += [f"{status.revision}", counted(status.tools, "tool")]
    if status.trusted:
        parts.append("trusted")
    if status.quarantined:
        parts.append(f"{status.quarantined} held back")
    if status.error and status.state != "ready":
        parts.append(one_line(status.error))
    return ", ".join(parts)


def _row(status: ServerStatus) -> Row:
    return Row(status.key, mark=_MARKS[status.state], note=summary(status))


async def _trust(session: Session, status: ServerStatus) -> None:
    if status.trusted:
        await session.host.trust(status.key, False)
        return
    session.surface.say(("warn", f"  What {status.key} says of its tools would be believed: those that it calls"))
    session.surface.say(("warn", "  read-only would run without a question."))
    if await session.surface.key({"y": f"trust {status.key}", "n": "no"}) == "y":
        await session.host.trust(status.key, True)


def _look(session: Session, status: ServerStatus) -> None:
    import time

    say = session.surface.say
    say(("strong", rule(f"{status.key}: {status.state}", session.surface.width)))
    since = time.strftime("%H:%M:%S", time.localtime(status.since)) if status.since else "the beginning"
    say(f"  since {since}, {counted(status.restarts, 'restart')}")
    if status.revision:
        say(f"  revision {status.revision} ({status.era}); it calls itself {one_line(status.server or 'nothing')}")
    kinds = {"tool": status.tools, "prompt": status.prompts, "resource": status.resources, "template": status.templates}
    say(f"  {', '.join(counted(number, kind) for kind, number in kinds.items())}")
    for problem in status.problems:
        say(("warn", f"  {one_line(problem)}"))
    if status.error:
        say(("bad", f"  last error: {one_line(status.error)}"))
    if instructions := session.host.instructions().get(status.key):
        say(("dim", "  its instructions for the model:"))
        say("\n".join(f"  | {line}" for line in exact(instructions).split("\n")))
