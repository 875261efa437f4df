"""`dovetail tasks list | get | wait | cancel TARGET [TASK]`."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import INTERRUPTED, OK, CommandFailed
from dovetail.cli.options.client_options import Work, add_client_options, run_with_client
from dovetail.cli.options.targets import HELP
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.protocol.errors import LocalError, TaskNotFound

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.tasks.task import Task

_CANCEL_SECONDS = 3.0
"""Seconds in which a task that was cancelled should have ended; servers may take longer."""
_POLL = 0.1
_ENDED = {"completed": "has completed", "failed": "has failed", "cancelled": "was cancelled"}


def configure_tasks(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = tuple(_ACTIONS)
    parser.add_argument("action", choices=actions, metavar="|".join(actions), help="what to do with the tasks")
    parser.add_argument("target", nargs="?", metavar="TARGET", help=HELP)
    parser.add_argument("task", nargs="?", metavar="TASK", help="its reference, or its id; not needed for the only one")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module as the TARGET, such as package.server")
    parser.add_argument("--save", metavar="DIR", help="wait: save images, audio and other bytes of the result there")
    parser.set_defaults(takes_program=True, takes_target=True, before_target=actions)
    add_client_options(parser)


def run_tasks(options: argparse.Namespace) -> int:
    """List tasks, or get, wait for or cancel one."""
    from dovetail.cli.tasks.left_tasks import fill_in_target, left_tasks

    fill_in_target(options)
    if options.target is None:
        if options.action != "list":
            raise UsageError(f"name the TARGET and the task: dovetail tasks {options.action} TARGET TASK")
        _show_left([(each.target, each.tool, each.at, each.reference) for each in left_tasks()], options)
        return OK
    if options.action == "list" and options.task is not None:
        raise UsageError(f"list takes no task; `dovetail tasks get` shows {options.task}")
    # A question that cannot be answered here ends the wait, and leaves the task as it is.
    options.always_asks = options.action == "wait"
    try:
        return run_with_client(options, _ACTIONS[options.action])
    except KeyboardInterrupt:
        if options.action != "wait":
            raise
        raise CommandFailed("cancelled", "Stopped waiting; the task goes on.", INTERRUPTED) from None


async def _list(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.tasks.left_tasks import check_has_tasks, drop_task, left_tasks

    check_has_tasks(client)
    shown: dict[str, dict[str, Any]] = {}
    for task in await _listed(client):
        shown[task.id or ""] = _as_json(task)
    for left in left_tasks(options.target):
        task = client.task(left.reference)
        if task.id in shown:
            shown[task.id] |= {"tool": left.tool, "reference": left.reference}
            continue
        try:
            await task.refresh()
        except TaskNotFound:
            drop_task(left.reference)
            display.note(f"The server does not have the task of {left.tool} any more that you left {_when(left.at)}.")
        else:
            shown[task.id or ""] = _as_json(task)
    if options.format == "json":
        output.show_json({"tasks": list(shown.values())})
    elif shown:
        _show_states(list(shown.values()))
    else:
        output.show_text("You have left no task here.")


async def _listed(client: Client) -> list[Task]:
    """The tasks that the server lists; none where it has no list."""
    try:
        return await client.tasks()
    except LocalError:
        return []


async def _get(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    task = await _found(client, options)
    if options.format == "json":
        output.show_json(_as_json(task))
        return
    _show_states([_as_json(task)])
    if task.status == "input_required":
        display.note("It waits for an answer: `dovetail tasks wait` asks you.")


async def _wait(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.commands.call import show_call_result
    from dovetail.cli.tasks.left_tasks import drop_task
    from dovetail.protocol.errors import RemoteError, TaskCancelled, ToolFailed

    task = await _found(client, options)
    try:
        async with display.activity(f"Waiting for {task.tool or 'the task'}"):
            async for update in task:
                display.message(update.message or "")
            result = await task.result()
    except (ToolFailed, RemoteError, TaskCancelled):
        if task.status in _ENDED:
            drop_task(task.reference)
        raise
    show_call_result(result, options)
    drop_task(task.reference)


async def _cancel(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.tasks.left_tasks import drop_task

    task = await _found(client, options)
    if task.status in _ENDED and task.status != "cancelled":
        raise CommandFailed(
            "ended", f"The task {_ENDED[task.status]} already; `dovetail tasks wait` prints its result."
        )
    await task.cancel()
    end = time.monotonic() + _CANCEL_SECONDS
    # Not followed: that would ask the questions of the task.
    while True:
        update = await task.refresh()
        if update.is_ended or time.monotonic() >= end:
            break
        await asyncio.sleep(_POLL)
    if task.status in _ENDED:
        drop_task(task.reference)
    if options.format == "json":
        output.show_json(_as_json(task))
    elif task.status in _ENDED:
        output.show_text(f"The task {_ENDED[task.status]}.")
    else:
        output.show_text("The server was told to cancel the task, and has not stopped it yet.")


async def _found(client: Client, options: argparse.Namespace) -> Task:
    """The task with its present state; an error for one that the server does not have."""
    from dovetail.cli.tasks.left_tasks import drop_task, find_task

    task = find_task(client, options)
    try:
        await task.refresh()
    except TaskNotFound as problem:
        drop_task(task.reference)
        raise CommandFailed(
            "not_found",
            f"The server has no such task: its id or reference is wrong, it has expired, or it is another user's. "
            f"The server says: {problem.message}",
            rpcCode=problem.code,
        ) from None
    return task


def _as_json(task: Task) -> dict[str, Any]:
    """A task for scripts."""
    update = task.update
    times = {} if update is None else {"created": update.created, "updated": update.updated, "ttl": update.ttl}
    return {
        "id": task.id,
        "tool": task.tool,
        "status": task.status,
        "message": task.message,
        **times,
        "reference": task.reference,
    }


def _show_states(tasks: list[dict[str, Any]]) -> None:
    rows = [
        [each["id"], each["tool"], each["status"], _local(each["created"]), _kept_until(each), each["message"] or ""]
        for each in tasks
    ]
    output.show_table(None, ("id", "tool", "status", "created", "kept until", "message"), rows)


def _show_left(left: list[tuple[str, str, float, str]], options: argparse.Namespace) -> None:
    if options.format == "json":
        names = ("target", "tool", "created", "reference")
        output.show_json({"tasks": [dict(zip(names, each, strict=True)) for each in left]})
    elif not left:
        output.show_text("You have left no tasks. `dovetail call TARGET TOOL --detach` leaves one.")
    else:
        rows = [[tool, _when(at), target, reference] for target, tool, at, reference in left]
        output.show_table(None, ("tool", "created", "target", "reference"), rows)


def _kept_until(task: dict[str, Any]) -> str:
    created = _seconds(task.get("created"))
    return "" if created is None or task.get("ttl") is None else _when(created + task["ttl"])


def _local(text: str | None) -> str:
    """A time of a server in the user's time zone."""
    at = _seconds(text)
    return (text or "") if at is None else _when(at)


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _when(at: float) -> str:
    """A time for users: without the date if it is today's."""
    there = time.localtime(at)
    is_today = there[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", there)


_ACTIONS: dict[str, Work] = {"list": _list, "get": _get, "wait": _wait, "cancel": _cancel}
