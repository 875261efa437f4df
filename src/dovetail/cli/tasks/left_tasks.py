"""Tasks that commands have left running: keeping them, and finding them by a word of the user."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import time
from typing import TYPE_CHECKING

from dovetail.cli.exit_status import CommandFailed
from dovetail.cli.parser import MODULE_TARGET, UsageError
from dovetail.host.tasks.saved_tasks import SavedTask, SavedTasks, expiry
from dovetail.protocol.errors import LocalError

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.tasks.task import Task

_REFERENCE = "WzEs"
"""Beginning of every reference of a task: `[1,` in base64."""


def keep_task(target: str, tool: str, reference: str, ttl: float | None) -> str | None:
    """Keep a task in the user's folder; the reason if that fails, since its reference is printed all the same."""
    now = time.time()
    task = SavedTask(reference=reference, tool=tool, target=target_key(target), at=now, expires=expiry(now, ttl))
    try:
        SavedTasks().add(task)
    except LocalError as problem:
        return f"`dovetail tasks list` will not have it: {problem}"
    return None


def drop_task(reference: str) -> None:
    """Drop a task that has ended; a file that cannot be changed is no reason to fail."""
    with contextlib.suppress(LocalError):
        SavedTasks().remove(reference)


def left_tasks(target: str | None = None) -> list[SavedTask]:
    """The tasks that were left, at one target or at all of them."""
    kept = SavedTasks().all()
    return kept if target is None else [each for each in kept if each.target == target_key(target)]


def target_key(target: str) -> str:
    """A target as it is kept; a file is the same from every folder."""
    return os.path.abspath(target) if os.path.exists(target) else target


def way_back(action: str, options: argparse.Namespace, reference: str) -> str:
    """The command line that continues with a task: `dovetail tasks ACTION TARGET REFERENCE`."""
    target = options.target
    words = ["dovetail", "tasks", action]
    words += ["-m", target.removeprefix(MODULE_TARGET)] if target.startswith(MODULE_TARGET) else [target]
    words.append(reference)
    for name in ("revision", "account", "token_env"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", value]
    if options.after_dashes:
        words += ["--", *options.after_dashes]
    return f"`{shlex.join(words)}`"


def check_has_tasks(client: Client) -> None:
    """Refuse a server without tasks."""
    if has_tasks(client):
        return
    name = client.server.name if client.server is not None else "This server"
    raise CommandFailed("not_found", f"{name} has no tasks on revision {client.revision}.")


def has_tasks(client: Client) -> bool:
    """True if the server makes tasks of calls."""
    from dovetail.protocol.revisions import REVISIONS
    from dovetail.types.tasks import TASKS_EXTENSION

    generation = REVISIONS[client.revision].tasks
    if generation == "extension":
        return TASKS_EXTENSION in (client.capabilities.extensions or {})
    return generation == "core" and client.capabilities.tasks is not None


def fill_in_target(options: argparse.Namespace) -> None:
    """Let a task that was left stand for its target as well: `dovetail tasks wait REFERENCE`."""
    if options.target is None or options.task is not None:
        return
    if (saved := _saved(options.target, left_tasks())) is not None:
        options.target, options.task = saved.target, saved.reference
    elif options.target.startswith(_REFERENCE):
        raise UsageError(f"this task is not among those you left; name its TARGET: dovetail tasks {options.action} …")


def find_task(client: Client, options: argparse.Namespace) -> Task:
    """The task that the words of the user mean: a reference, an id, or the only one that was left at the target."""
    from dovetail.client.tasks.reference import make_reference, read_reference

    check_has_tasks(client)
    word, left = options.task, left_tasks(options.target)
    if word is None:
        if len(left) != 1:
            ids = ", ".join(task_id(each) for each in left)
            known = f"those you left there: {ids}" if left else "you have left none there"
            raise UsageError(f"name the task by its reference or its id; {known}")
        word = left[0].reference
    saved = _saved(word, left)
    if saved is None and word.startswith(_REFERENCE):
        try:
            read_reference(word)
        except LocalError:
            raise UsageError("this reference of a task is not whole; copy all of it") from None
        return client.task(word)
    return client.task(saved.reference if saved is not None else make_reference(word, "", client.revision))


def _saved(word: str, left: list[SavedTask]) -> SavedTask | None:
    return next((each for each in left if word in (each.reference, task_id(each))), None)


def task_id(task: SavedTask) -> str:
    """The id of a task that was left; empty if its reference cannot be read."""
    from dovetail.client.tasks.reference import read_reference

    try:
        return read_reference(task.reference).id
    except LocalError:
        return ""
