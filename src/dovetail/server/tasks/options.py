"""The `task` options of a tool, and the decision whether a call of it becomes a task."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dovetail.protocol.errors import METHOD_NOT_FOUND, LocalError, ProtocolError
from dovetail.protocol.extension import missing_extension
from dovetail.protocol.tasks import MAX_TTL_SECONDS, TTL_SECONDS
from dovetail.protocol.terms import Terms
from dovetail.types.tasks import TASKS_EXTENSION, TaskMetadata

TaskSupport: TypeAlias = Literal["optional", "required"]


class TaskOptions(msgspec.Struct, frozen=True):
    """The rules by which calls of one tool become tasks."""

    support: TaskSupport
    after: float = 0.0
    """Seconds after which a call that still runs becomes a task, where the server decides; 0 for at once."""
    resume: bool = False
    ttl: float = TTL_SECONDS
    max_tasks: int = 0
    """The number of tasks of the tool that may be open at once, over all clients; 0 for no limit."""

    def ttl_for(self, wanted: TaskMetadata | None) -> float:
        """The time for which a task is kept: what its client asks for (in milliseconds), up to the author's."""
        if wanted is None or wanted.ttl is None:
            return self.ttl
        return min(max(wanted.ttl / 1000, 1.0), self.ttl)


def task_options(
    name: str, task: str | float | None, resume: bool | None, ttl: float | None, max_tasks: int | None
) -> TaskOptions | None:
    """The options of a tool, as its author gave them; None if its calls never become tasks."""
    if task is None:
        for option, given in (("resume", resume), ("ttl", ttl), ("max_tasks", max_tasks)):
            if given is not None:
                raise LocalError(
                    f'Tool {name!r}: {option}= is for tasks; give task="optional", "required" or seconds too'
                )
        return None
    if max_tasks is not None and max_tasks < 1:
        raise LocalError(f"Tool {name!r}: max_tasks is 1 or more, not {max_tasks}")
    kept = TTL_SECONDS if ttl is None else ttl
    if not 1 <= kept <= MAX_TTL_SECONDS:
        raise LocalError(f"Tool {name!r}: ttl is from 1 to {MAX_TTL_SECONDS:,.0f} seconds (30 days), not {kept:g}")
    if task in ("optional", "required"):
        return TaskOptions("optional" if task == "optional" else "required", 0.0, bool(resume), kept, max_tasks or 0)
    if isinstance(task, (int, float)) and not isinstance(task, bool) and 0 <= task < float("inf"):
        return TaskOptions("optional", float(task) or 1e-9, bool(resume), kept, max_tasks or 0)
    raise LocalError(f'Tool {name!r}: task is "optional", "required", or a number of seconds, not {task!r}')


def decide(options: TaskOptions, terms: Terms, wanted: TaskMetadata | None) -> Literal["call", "task", "later"]:
    """A call becomes a task, may become one later, or stays a call; raises where only a task would do.

    2025-11-25 tasks, "Tool-Level Negotiation": the client decides. 2026-07-28 extension, "Capability Negotiation": the
    server does, if the request declares the extension. Revisions without tasks have calls only.
    """
    kind = terms.revision.tasks
    if kind == "core":
        if wanted is not None:
            return "task"
        if options.support == "required":
            raise ProtocolError(METHOD_NOT_FOUND, "This tool runs as a task only: send the request with `task`")
    elif kind == "extension":
        if TASKS_EXTENSION in (terms.capabilities.extensions or {}):
            return "later" if options.after else "task"
        if options.support == "required":
            raise extension_needed("This tool runs as a task only")
    return "call"


def extension_needed(why: str) -> ProtocolError:
    """The error for a request that does not declare the extension (−32021)."""
    return missing_extension(TASKS_EXTENSION, f"{why}: the request must declare the extension {TASKS_EXTENSION}")
