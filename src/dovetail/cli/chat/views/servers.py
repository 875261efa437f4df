"""`/servers`: list, restart, enable and trust servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Row, ask_back_to_list
from dovetail.protocol.errors import DovetailError

from .log import log
from .rendering import addressed_to_user, counted, exact, one_line, rule

if TYPE_CHECKING:
    from dovetail.host.events import ServerStatus

_KEYS = {"enter": "details", "r": "restart", "e": "enable/disable", "t": "trust/distrust", "l": "log"}
_MARKS = {"ready": "+", "failed": "!", "waiting": "!", "asking": "?", "starting": "…", "idle": " ", "disabled": "-"}


async def servers(session: ChatSession, words: list[str]) -> None:
    """List the servers and run actions on them."""
    at, host = 0, session.host
    statuses: list[ServerStatus] = []

    def rows() -> list[Row]:
        statuses[:] = host.servers.values()
        return [_row(status) for status in statuses]

    while True:
        choice = await session.ui.pick("Servers", rows, _KEYS, at)
        if choice is None:
            return
        at, status = choice.row, statuses[choice.row]
        try:
            if not await _act(session, status, choice.key):
                return
        except DovetailError as problem:
            # Such as a server whose entry is invalid; the list stays open.
            session.ui.say(("bad", f"  {one_line(addressed_to_user(str(problem)))}"))


async def _act(session: ChatSession, status: ServerStatus, key: str) -> bool:
    """Run an action; whether the user returns to the list."""
    host = session.host
    if key == "r":
        await host.restart(status.key)
    elif key == "e":
        await host.set_enabled(status.key, status.state == "disabled")
        if status.state == "disabled":
            await host.ready(status.key)
    elif key == "t":
        await _trust(session, status)
    else:
        if key == "l":
            await log(session, [status.key])
        else:
            _show_details(session, host.servers.get(status.key, status))
        return await ask_back_to_list(session.ui)
    return True


def summary(status: ServerStatus) -> str:
    """The state of a server on one line."""
    parts = [str(status.state)]
    if status.state == "ready":
        parts += [f"{status.revision}", counted(status.tools, "tool")]
    if status.trusted:
        parts.append("trusted")
    if status.quarantined:
        parts.append(f"{status.quarantined} withheld")
    if status.error and status.state in ("failed", "waiting"):
        parts.append(one_line(addressed_to_user(status.error).partition("\n")[0]))
    return ", ".join(parts)


def _row(status: ServerStatus) -> Row:
    return Row(status.key, mark=_MARKS[status.state], note=summary(status))


async def _trust(session: ChatSession, status: ServerStatus) -> None:
    if status.trusted:
        await session.host.trust(status.key, False)
        return
    session.ui.say(("warn", f"  The annotations of {status.key} would be trusted: tools that it marks as"))
    session.ui.say(("warn", "  read-only would run without approval."))
    if await session.ui.key({"y": f"trust {status.key}", "n": "no"}) == "y":
        await session.host.trust(status.key, True)


def _show_details(session: ChatSession, status: ServerStatus) -> None:
    import time

    say = session.ui.say
    say(("strong", rule(f"{status.key}: {status.state}", session.ui.width)))
    since = time.strftime("%H:%M:%S", time.localtime(status.since)) if status.since else "the beginning"
    say(f"  since {since}, {counted(status.restarts, 'restart')}")
    if status.revision:
        say(f"  revision {status.revision} ({status.era}); it calls itself {one_line(status.server or 'nothing')}")
    kinds = {"tool": status.tools, "prompt": status.prompts, "resource": status.resources, "template": status.templates}
    say(f"  {', '.join(counted(number, kind) for kind, number in kinds.items())}")
    for problem in status.problems:
        say(("warn", f"  {one_line(problem)}"))
    if status.error:
        first, *rest = exact(addressed_to_user(status.error)).split("\n")
        say(("bad", "\n".join([f"  last error: {first}", *(f"    {line}" for line in rest)])))
    if instructions := session.host.instructions().get(status.key):
        say(("dim", "  its instructions for the model:"))
        say("\n".join(f"  | {line}" for line in exact(instructions).split("\n")))
