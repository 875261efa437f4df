"""The methods of tasks, of both generations, and calls that become tasks."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from dovetail.protocol.envelope import SUBSCRIPTION_ID
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    DovetailError,
    LocalError,
    ProtocolError,
    RemoteError,
)
from dovetail.protocol.extension import Extension
from dovetail.protocol.tasks import (
    TaskQuestion,
    TaskRecord,
    core_fields,
    error_fields,
    extension_fields,
    related,
)
from dovetail.runtime.serve import Work
from dovetail.server.context import invocation_of
from dovetail.server.invocation import Invocation
from dovetail.server.mrtr.suspended_calls import StillRunning
from dovetail.server.replicas.messages import SessionNotification
from dovetail.types.base import PageParams
from dovetail.types.tasks import TASKS_EXTENSION, TaskParams, TaskStatus
from dovetail.types.tools import CallToolParams
from dovetail.wire import codec

from .options import decide, extension_needed
from .result_shapes import in_shape_of
from .stored_tasks import StoredTask, handle_of

if TYPE_CHECKING:
    from dovetail.server.context import Context
    from dovetail.server.core import ServerCore
    from dovetail.server.features.tools import RegisteredTool
    from dovetail.server.session import ServerCall
    from dovetail.types.messages import SubscriptionFilter

MAX_WATCHED_TASKS = 1000
"""Tasks that one `subscriptions/listen` request may name."""

PAGE = 100
"""Tasks on one page of `tasks/list`."""


def task_extension(core: ServerCore) -> Extension:
    """The extension of 2026-07-28, with its methods."""
    return Extension(
        id=TASKS_EXTENSION,
        requests={
            "tasks/get": functools.partial(_get_extension_task, core),
            "tasks/update": functools.partial(_update_task, core),
            "tasks/cancel": functools.partial(_cancel_extension_task, core),
        },
        result_types=frozenset({"task"}),
    )


def work_as_task(core: ServerCore, call: ServerCall, params: CallToolParams, tool: RegisteredTool) -> Work | None:
    """The work of a call that becomes a task, or may become one; None for an ordinary call."""
    assert tool.task is not None
    kind = decide(tool.task, call.terms, params.task)
    if kind == "call":
        return None
    if kind == "later":
        return functools.partial(_call_then_task, core, call, params, tool)
    return functools.partial(_create, core, call, params, tool)


async def _create(core: ServerCore, call: ServerCall, params: CallToolParams, tool: RegisteredTool) -> bytes:
    tool.check_arguments(call.terms.revision, params.arguments or {})
    # The extension has no `task` in the params; what an older client says there is ignored.
    wanted = params.task if call.terms.revision.tasks == "core" else None
    stored = await core.tasks.create(call, tool, params.arguments or {}, wanted)
    return _created(core, call, stored)


async def _call_then_task(core: ServerCore, call: ServerCall, params: CallToolParams, tool: RegisteredTool) -> bytes:
    """Serve a call, in rounds if it asks; if it still runs after the time that its author gave, make it a task."""
    assert tool.task is not None
    handle = functools.partial(tool.invoke, arguments=params.arguments or {})
    result = await core.suspended_calls.serve_for(tool.task.after, core, call, params, handle, keep=tool.unlimited)
    if isinstance(result, StillRunning):
        try:
            stored = await core.tasks.create(
                call, tool, params.arguments or {}, None, (result.suspendable, result.invocation)
            )
        except BaseException:
            result.suspendable.cancel()
            raise
        return _created(core, call, stored)
    return result if isinstance(result, bytes) else core.encode_result(call, result)


def _created(core: ServerCore, call: ServerCall, stored: StoredTask) -> bytes:
    record = stored.record
    if call.terms.revision.tasks == "core":
        _notify_of_changes(core, call, stored)
        return codec.encode({"task": core_fields(record)})
    return codec.encode({"resultType": "task", **extension_fields(record, detailed=False)})


def _notify_of_changes(core: ServerCore, call: ServerCall, stored: StoredTask) -> None:
    """Notify the session that created a task of its status, as long as this process knows the session (2025-11-25)."""
    connection, session, seen = call.connection, call.session.id, stored.record.status
    if connection is None or not call.session.keeps_state:
        return
    # The stream of a session over HTTP may be at another replica.
    replica = None if session is None else core.tasks.replica

    def changed(record: TaskRecord) -> None:
        nonlocal seen
        if record.status != seen and connection.gone is None:
            seen = record.status
            line = codec.notification("notifications/tasks/status", codec.encode(core_fields(record)))
            if replica is None or session is None:
                connection.send(line)
            else:
                replica.announce(SessionNotification(session, line, kept=False))
        if record.is_ended or connection.gone is not None:
            unwatch()

    unwatch = core.tasks.watch(stored.handle, changed)


async def _get_extension_task(core: ServerCore, params: dict[str, Any], context: Context) -> dict[str, Any]:
    call = _extension_call(context)
    stored = await core.tasks.find(_id(params), call.terms.principal)
    return extension_fields(in_shape_of(stored.record, call.terms.revision), detailed=True)


async def _update_task(core: ServerCore, params: dict[str, Any], context: Context) -> dict[str, Any]:
    call = _extension_call(context)
    responses = params.get("inputResponses")
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: inputResponses must be an object")
    await core.tasks.update(_id(params), call.terms.principal, cast("dict[str, Any]", responses))
    return {}


async def _cancel_extension_task(core: ServerCore, params: dict[str, Any], context: Context) -> dict[str, Any]:
    call = _extension_call(context)
    await core.tasks.cancel(_id(params), call.terms.principal)
    return {}


def _extension_call(context: Context) -> ServerCall:
    call = invocation_of(context).call
    if call.terms.revision.tasks != "extension":
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {call.request.method}")
    return call


def _id(params: dict[str, Any]) -> str:
    id = params.get("taskId")
    if not isinstance(id, str):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: taskId must be a string")
    return id


def get_task(core: ServerCore, call: ServerCall, params: TaskParams) -> Work:
    """Return the state of a task (2025-11-25)."""

    async def work() -> bytes:
        _check_offered(core)
        return codec.encode(core_fields((await core.tasks.find(params.task_id, call.terms.principal)).record))

    return work


def cancel_task(core: ServerCore, call: ServerCall, params: TaskParams) -> Work:
    """Cancel a task; one that has ended is refused (2025-11-25, "Task Cancellation")."""

    async def work() -> bytes:
        _check_offered(core)
        record, cancelled = await core.tasks.cancel(params.task_id, call.terms.principal)
        if not cancelled:
            raise ProtocolError(INVALID_PARAMS, f"The task cannot be cancelled: it is {core_fields(record)['status']}")
        return codec.encode(core_fields(record))

    return work


def list_tasks(core: ServerCore, call: ServerCall, params: PageParams) -> Work:
    """List the tasks of the caller, where callers are identified (2025-11-25, "Task Isolation and Access Control")."""

    async def work() -> bytes:
        _check_offered(core)
        principal = call.terms.principal
        if core.auth is None or principal is None:
            raise ProtocolError(METHOD_NOT_FOUND, "Tasks are listed only where callers are authenticated")
        # By handle and not by age, which only the records tell: those of other pages need not be read.
        handles = await core.tasks.stored.handles_of(principal)
        if core.stored_keys is not None:
            await core.stored_keys.prepare()
        part, following = core.pager.page("tasks/list", handles, params.cursor, PAGE)
        records = await core.tasks.find_all(handles[part], principal)
        result: dict[str, Any] = {"tasks": [core_fields(record) for record in records]}
        if following is not None:
            result["nextCursor"] = following
        return codec.encode(result)

    return work


def task_result(core: ServerCore, call: ServerCall, params: TaskParams) -> Work:
    """Wait until a task has ended and return what its call returns; carry its questions meanwhile (2025-11-25)."""

    async def work() -> bytes:
        _check_offered(core)
        return await _result(core, call, params.task_id)

    return work


async def _result(core: ServerCore, call: ServerCall, id: str) -> bytes:
    tasks, principal = core.tasks, call.terms.principal
    changed = asyncio.Event()
    asked: dict[str, asyncio.Task[None]] = {}
    record = (await tasks.find(id, principal)).record

    def watch(latest: TaskRecord) -> None:
        nonlocal record
        if latest.version >= record.version:
            record = latest
            changed.set()

    unwatch = tasks.watch(handle_of(id), watch)
    try:
        # What was read may be older than what was announced meanwhile.
        watch((await tasks.find(id, principal)).record)
        while not record.is_ended:
            changed.clear()
            for key in asked.keys() - record.questions.keys():
                asked.pop(key).cancel()
            for key, question in record.questions.items():
                if key not in asked:
                    asked[key] = asyncio.create_task(_ask(core, call, id, key, question))
            await changed.wait()
    finally:
        unwatch()
        for task in asked.values():
            task.cancel()
        # Questions are cancelled before the response, which ends the stream that they were asked on.
        await asyncio.gather(*asked.values(), return_exceptions=True)
    return _final(in_shape_of(record, call.terms.revision))


async def _ask(core: ServerCore, call: ServerCall, id: str, key: str, question: TaskQuestion) -> None:
    """Ask a question of a task by a request on the stream of `tasks/result`, and give the task the answer."""
    params: dict[str, Any] = question.params or {}
    params = {**params, "_meta": {**(params.get("_meta") or {}), **related(id)}}
    try:
        answer = await Invocation(core, call).send_request(question.method, params, None, None)
    except (RemoteError, LocalError) as problem:
        await core.tasks.refuse(id, key, f"The client refused what the task asked: {problem}")
    except DovetailError:
        return  # the client is gone: the question stays open, until the result is asked for again
    else:
        # Not here: when the question is answered, this coroutine is cancelled.
        core.tasks.spawn(_give_answer(core, call, id, key, answer))


async def _give_answer(core: ServerCore, call: ServerCall, id: str, key: str, answer: Any) -> None:
    try:
        await core.tasks.update(id, call.terms.principal, {key: answer})
    except ProtocolError as problem:
        await core.tasks.refuse(id, key, problem.message)


def _final(record: TaskRecord) -> bytes:
    """The result of the call that became a task, related to it; or its error."""
    status: TaskStatus = record.status
    if status == "completed":
        result = record.result or {}
        return codec.encode({**result, "_meta": {**(result.get("_meta") or {}), **related(record.id)}})
    if status == "failed":
        error = error_fields(record)
        raise ProtocolError(error["code"], error["message"], error.get("data"))
    raise ProtocolError(INTERNAL_ERROR, record.message or "The task was cancelled")


def _check_offered(core: ServerCore) -> None:
    if not core.has_task_tools:
        raise ProtocolError(METHOD_NOT_FOUND, "This server has no tasks")


async def accepted_tasks(core: ServerCore, call: ServerCall, wanted: SubscriptionFilter) -> list[str]:
    """The tasks of a subscription that the caller may watch; raises if the request does not declare the extension."""
    given = wanted.extra.get("taskIds")
    if TASKS_EXTENSION not in (call.terms.capabilities.extensions or {}):
        raise extension_needed("Watching tasks")
    ids: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [None]
    if len(ids) > MAX_WATCHED_TASKS or not all(isinstance(id, str) for id in ids):
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: taskIds must be at most {MAX_WATCHED_TASKS} strings")
    accepted: list[str] = []
    for id in dict.fromkeys(ids):
        try:
            await core.tasks.find(id, call.terms.principal)
        except ProtocolError:
            continue
        accepted.append(id)
    return accepted


async def push_tasks(core: ServerCore, call: ServerCall, ids: list[str]) -> Callable[[], None]:
    """Send the state of tasks now and whenever it changes; returns what ends that."""
    tasks = core.tasks
    versions: dict[str, int] = {}
    unwatch: list[Callable[[], None]] = []

    def push(record: TaskRecord) -> None:
        if call.silent or versions.get(record.id, -1) >= record.version:
            return
        versions[record.id] = record.version
        meta = {SUBSCRIPTION_ID: call.request.id}
        fields = extension_fields(in_shape_of(record, call.terms.revision), detailed=True)
        call.notify("notifications/tasks", {"_meta": meta, **fields})

    def end() -> None:
        for one in unwatch:
            one()

    try:
        for id in ids:
            unwatch.append(tasks.watch(handle_of(id), push))
            stored = await tasks.stored.find(handle_of(id))
            if stored is not None:
                push(stored.record)
    except BaseException:
        end()
        raise
    return end
