"""`dovetail call --detach`: start a call, and leave its task running."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.terminal.progress import ProgressDisplay

from .left_tasks import check_has_tasks, keep_task, way_back

if TYPE_CHECKING:
    from dovetail.client.client import Client


async def detach(
    client: Client, options: argparse.Namespace, arguments: dict[str, Any], display: ProgressDisplay
) -> None:
    """Print the reference of the task; the result of a call that does not become one."""
    from dovetail.cli.commands.call import show_call_result

    check_has_tasks(client)
    async with display.activity(f"Calling {options.tool}"):
        task = await client.start(options.tool, arguments)
        if task.id is None:
            if task.status == "working":
                display.note(f"{options.tool} is no task yet; waiting until it is one, or has its result.")
            async for update in task:
                display.message(update.message or "")
                if task.id is not None:
                    break
    if task.id is None:
        show_call_result(await task.result(), options)
        display.note(f"{options.tool} was no task: the call is over, and this is its result.")
        return
    problem = keep_task(options.target, options.tool, task.reference, None if task.update is None else task.update.ttl)
    if options.format == "json":
        output.show_json({"reference": task.reference, "id": task.id, "tool": options.tool, "status": task.status})
    else:
        output.show_text(task.reference)
    display.note(f"To wait for the result: {way_back('wait', options, task.reference)}")
    if problem is not None:
        display.note(problem)
    if options.starts_server:
        display.note(
            "The server runs only as long as this command: the task is there again if the server keeps it in a store."
        )
