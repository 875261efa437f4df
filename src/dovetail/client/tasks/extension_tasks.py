"""Tasks of the extension (2026-07-28): changes are pushed or polled, and questions answered with `tasks/update`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    InvalidAnswer,
    ProtocolError,
    RemoteError,
    TaskCancelled,
    remote_error,
)
from dovetail.protocol.tasks import TERMINAL, TaskError
from dovetail.types.client_features import InputRequest, method_of
from dovetail.types.tasks import DetailedTask

from .polling import poll_pause
from .push import TaskSubscription
from .questions import QuestionKeys, read_questions
from .services import TaskServices
from .state import Ending, TaskState, as_update, read_task


class ExtensionTaskDriver:
    """Follows one task of the extension."""

    def __init__(self, services: TaskServices, id: str, interval_ms: int | None = None) -> None:
        self._services = services
        self._id = id
        self._interval_ms = interval_ms
        self._keys = QuestionKeys(services.max_rounds)
        self._answers: dict[str, dict[str, Any]] = {}
        """Answers that the server has not confirmed yet."""
        self._rejected: dict[str, RemoteError] = {}
        """By key: the error for an answer; of no account if the task has no such question any more."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._changes = -1
        self._changed_at = 0.0
        """The number of changes that are known, and the time of the last one."""
        self._is_due = False
        self._problem: Exception | None = None
        self._first: DetailedTask | None = None
        """The state that `look` has fetched, for `follow` to begin with."""

    @property
    def id(self) -> str:
        """The id at the server."""
        return self._id

    async def refresh(self, state: TaskState) -> None:
        """Send `tasks/get` once; questions are left alone."""
        publish_task(state, await self._get())

    async def look(self, state: TaskState) -> None:
        """Fetch the state of a task that was just created: one that is quick has ended already."""
        self._first = await self._get()
        if self._first.status in TERMINAL:
            publish_task(state, self._first)

    async def cancel(self, state: TaskState) -> None:
        """Send `tasks/cancel`: the server need not obey, and ignores it for a task that has ended."""
        await self._services.send("tasks/cancel", {"taskId": self._id})

    async def follow(self, state: TaskState) -> None:
        """Publish each change and answer all questions, until the task has ended."""
        subscription: TaskSubscription | None = None
        self._problem = None
        try:
            while True:
                self._is_due = False
                latest, self._first = self._first, None
                self._observe(state, latest or await self._get())
                if state.ending is not None:
                    return
                if subscription is None or subscription.is_outdated:
                    if subscription is not None:
                        await subscription.close()
                    subscription = self._subscribe(state)
                await self._wait(state, subscription)
                if state.ending is not None:
                    return
        finally:
            asking = list(self._asking.values())
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            self._keys.interrupt()
            if subscription is not None:
                await subscription.close()

    async def _get(self) -> DetailedTask:
        return read_task(DetailedTask, await self._services.send("tasks/get", {"taskId": self._id}), self._id)

    async def _wait(self, state: TaskState, subscription: TaskSubscription) -> None:
        """Wait until the next poll is due, or the task has ended; raises what went wrong with a question."""
        loop = asyncio.get_running_loop()
        polled = loop.time()
        while state.ending is None:
            if self._problem is not None:
                raise self._problem
            if state.changes != self._changes:
                self._changes, self._changed_at = state.changes, loop.time()
            pause = poll_pause(self._interval_ms, loop.time() - self._changed_at, pushed=subscription.is_accepted)
            if self._is_due or polled + pause <= loop.time():
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(polled + pause):
                    await self._changed.wait()

    def _subscribe(self, state: TaskState) -> TaskSubscription:
        def pushed(raw: dict[str, Any]) -> None:
            try:
                self._observe(state, read_task(DetailedTask, raw, self._id))
            except Exception as problem:
                self._problem = problem
            self._changed.set()

        def subscribed(begun: bool) -> None:
            # What changed between the last poll and the subscription was not pushed.
            self._is_due = self._is_due or begun
            self._changed.set()

        return TaskSubscription(self._services, self._id, pushed, subscribed)

    def _observe(self, state: TaskState, task: DetailedTask) -> None:
        """Take over a state that the server told, and handle the questions that are new in it."""
        if not publish_task(state, task):
            return
        self._interval_ms = task.poll_interval_ms
        questions = read_questions(task.input_requests) if task.status == "input_required" else {}
        for key, problem in self._rejected.items():
            if key in questions:
                raise problem
        new, withdrawn = self._keys.observe(questions)
        for key in withdrawn:
            # An answer that is on its way is what closed the question.
            if key in self._asking and key not in self._answers:
                self._asking.pop(key).cancel()
        revision = self._services.supervisor().agreement.revision
        for key in new:
            # Before any of them is handled: a user must not answer one when another makes the call fail.
            self._services.handlers.check(method_of(questions[key]), revision)
        for key in new:
            self._asking[key] = asyncio.create_task(self._ask(state, key, questions[key]))

    async def _ask(self, state: TaskState, key: str, request: InputRequest) -> None:
        """Handle one question and send its answer, without waiting for the answers to others."""
        try:
            if key not in self._answers:
                self._answers[key] = await self._answer(state, request)
            await self._services.send("tasks/update", {"taskId": self._id, "inputResponses": {key: self._answers[key]}})
        except RemoteError as problem:
            self._rejected[key] = problem
        except Exception as problem:
            self._problem = problem
            return
        finally:
            if self._asking.get(key) is asyncio.current_task():
                del self._asking[key]
            self._changed.set()
        self._keys.answer(key)
        self._answers.pop(key, None)

    async def _answer(self, state: TaskState, request: InputRequest) -> dict[str, Any]:
        services, method = self._services, method_of(request)
        agreement = services.supervisor().agreement
        state.open_questions += 1
        state.wake()
        try:
            value = await services.handlers.handle(method, request.params, agreement.revision, agreement.server)
        except ProtocolError as problem:
            raise InvalidAnswer(f"The task asked what it may not ask: {problem.message}") from problem
        finally:
            state.open_questions -= 1
            state.wake()
        return agreement.revision.emit_result(method, value)


def publish_task(state: TaskState, task: DetailedTask) -> bool:
    """Publish a state that the server told; False if it is of no use any more."""
    return state.publish(as_update(task), _ending(task))


def _ending(task: DetailedTask) -> Ending | None:
    if task.status == "completed":
        if task.result is None:
            raise InvalidAnswer("The task is completed, and has no result")
        return Ending(task.result)
    if task.status == "failed":
        return Ending(error=_failure(task))
    if task.status == "cancelled":
        return Ending(error=TaskCancelled(task.status_message or "The task was cancelled"))
    return None


def _failure(task: DetailedTask) -> Exception:
    if task.error is None:
        return RemoteError(INTERNAL_ERROR, task.status_message or "The task failed")
    try:
        error = msgspec.convert(task.error, TaskError)
    except msgspec.ValidationError as problem:
        return InvalidAnswer(f"The error of the task cannot be read: {problem}")
    return remote_error(error.code, error.message, error.data)
