"""`/tasks`: tasks and other work, running and ended; waiting for one, answering its question, and cancelling it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Row, ask_back_to_list
from dovetail.cli.traffic.views import duration
from dovetail.protocol.errors import DovetailError
from dovetail.types.tools import CallToolResult

from .rendering import addressed_to_user, one_line, rule
from .results import show_result

if TYPE_CHECKING:
    from dovetail.host.running_work import WorkInProgress
    from dovetail.host.tasks.host_task import HostTask

_KEYS = {"enter": "show or answer", "w": "wait", "x": "cancel"}
_MARKS = {"input_required": "?", "completed": "+", "failed": "!", "lost": "!", "cancelled": "-"}
_WORDS = {"input_required": "asks you", "reattaching": "waits for its server", "lost": "gone from its server"}
_TICK = 1.0


async def tasks(session: ChatSession, words: list[str]) -> None:
    """List tasks and other work, and run actions on them."""
    items: list[HostTask | WorkInProgress] = []

    def rows() -> list[Row]:
        items[:] = _items(session)
        return [_row(item) for item in items]

    if not rows():
        session.ui.say(("dim", "  Nothing is running. `/call TOOL … &` runs a call while you go on."))
        return
    at = 0
    while (choice := await session.ui.pick("Tasks", rows, _KEYS, at)) is not None:
        at = choice.row
        try:
            if not await _act(session, items[choice.row], choice.key):
                return
        except DovetailError as problem:
            # Such as a server that is not connected; the list stays open.
            session.ui.say(("bad", f"  {one_line(addressed_to_user(str(problem)))}"))


def running_tasks(session: ChatSession) -> list[HostTask]:
    """The tasks that have not ended."""
    return [task for task in session.host.tasks() if not task.is_ended]


def _items(session: ChatSession) -> list[HostTask | WorkInProgress]:
    """Tasks, and the work that waits for none of them; ended tasks last."""
    known = session.host.tasks()
    calls = {task.call for task in known}
    others = [work for work in session.host.running() if work.number not in calls]
    ended = sorted((task for task in known if task.is_ended), key=lambda task: task.ended or 0, reverse=True)
    return [*(task for task in known if not task.is_ended), *others, *ended]


def _row(item: HostTask | WorkInProgress) -> Row:
    from dovetail.host.running_work import WorkInProgress

    now = time.time()
    if isinstance(item, WorkInProgress):
        owner = f", for {item.server}" if item.server else ""
        return Row(item.what, mark="…", note=f"{duration(max(now - item.since, 1.0))}{owner}")
    took = duration(max((item.ended or now) - item.since, 1.0))
    said = f": {one_line(item.message)}" if item.message and not item.is_ended else ""
    note = f"task {item.number}, {_WORDS.get(item.status, item.status)}, {took}{said}"
    return Row(f"{item.server}: {one_line(item.tool)}", mark=_MARKS.get(item.status, "…"), note=note)


async def _act(session: ChatSession, item: HostTask | WorkInProgress, key: str) -> bool:
    """Run an action; whether the user returns to the list."""
    from dovetail.host.running_work import WorkInProgress

    say = session.ui.say
    if isinstance(item, WorkInProgress):
        if key == "x":
            cancelled = session.host.cancel(item.number)
            say(("warn", f"  {item.what} {'is cancelled' if cancelled else 'was over already'}."))
        return True
    if key == "x":
        await _cancel(session, item)
        return True
    say(("strong", rule(f"task {item.number}, {item.server}: {item.tool}", session.ui.width)))
    if key == "w" and not item.is_ended:
        await _wait(session, item)
    elif session.questions.answer(item):
        await session.questions.answered(item)
    _show(session, item)
    return await ask_back_to_list(session.ui)


async def _cancel(session: ChatSession, task: HostTask) -> None:
    if task.is_ended:
        session.ui.say(("warn", f"  Task {task.number} was over already."))
        return
    await task.cancel()
    session.ui.say(("warn", f"  The server was told to cancel task {task.number}."))


async def _wait(session: ChatSession, task: HostTask) -> None:
    """Wait for the end and ask what the task asks; Ctrl-C ends the wait, and not the task."""
    session.ui.say(("dim", "  Waiting; Esc or Ctrl-C ends the wait, and the task goes on."))
    began = time.monotonic()
    was_in_background, task.in_background = task.in_background, False
    try:
        while not task.is_ended:
            session.questions.answer(task)
            session.ui.activity(f"{one_line(task.message or task.tool)} · {time.monotonic() - began:.0f} s")
            await task.changes(_TICK)
    finally:
        task.in_background = was_in_background
        session.ui.activity("")


def _show(session: ChatSession, task: HostTask) -> None:
    say = session.ui.say
    if isinstance(task.outcome, CallToolResult):
        show_result(session, task.server, task.outcome)
        return
    say(f"  {_WORDS.get(task.status, task.status)}, {duration(max((task.ended or time.time()) - task.since, 1.0))}")
    if task.outcome is not None:
        say(("bad", f"  {one_line(addressed_to_user(str(task.outcome)))}"))
    elif task.message:
        say(("dim", f"  it says: {one_line(task.message)}"))
