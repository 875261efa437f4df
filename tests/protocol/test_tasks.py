"""The status machine of a task, with any history of events, and its fields on the wire of both generations."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.mrtr import JournalEntry
from dovetail.protocol.tasks import (
    MAX_TTL_SECONDS,
    RELATED_TASK,
    TERMINAL,
    TRANSITIONS,
    Event,
    TaskError,
    TaskQuestion,
    TaskRecord,
    core_fields,
    extension_fields,
    related,
    task_not_found,
    timestamp,
)
from dovetail.types.serialization import load
from dovetail.types.tasks import CreatedTask, DetailedTask, Task, TaskStatus
from tests.support.closed_schema import closed_schema, spec_folder
from tests.support.tasks_schema import problems

QUESTION = TaskQuestion("elicitation/create", {"message": "Which?", "requestedSchema": {"type": "object"}}, "digest")
ROOTS = TaskQuestion("roots/list", None, "digest")

PATHS: dict[TaskStatus, set[TaskStatus]] = {
    "working": {"working", "input_required", "completed", "failed", "cancelled"},
    "input_required": {"input_required", "working", "completed", "failed", "cancelled"},
    "completed": set(),
    "failed": set(),
    "cancelled": set(),
}
"""The paths that the pages of both generations allow (Task Status Lifecycle)."""

FIELDS: dict[Event, st.SearchStrategy[dict[str, Any]]] = {
    Event.ASKED: st.just({"questions": {"style": QUESTION, "where": ROOTS}}),
    Event.ANSWERED: st.just({"questions": {}, "journal": {"style": JournalEntry("digest", {"action": "accept"})}}),
    Event.RETURNED: st.booleans().map(lambda failed: {"result": {"content": [], "isError": failed}}),
    Event.RAISED: st.sampled_from([None, {"why": "?"}]).map(
        lambda data: {"error": TaskError(-32603, "It broke", data)}
    ),
    Event.CANCELLED: st.just({}),
}
"""What a server records with each event."""

happenings = st.sampled_from(list(Event)).flatmap(
    lambda event: st.tuples(st.just(event), FIELDS[event], st.none() | st.text(max_size=20))
)
times = st.floats(-100, 10_000)
"""Seconds between two events; clocks of several machines differ, so that time may go back."""


def record(**fields: Any) -> TaskRecord:
    made: dict[str, Any] = {"id": "x" * 22, "tool": "render", "arguments": {}, "revision": "2026-07-28"}
    return TaskRecord(**{**made, "created": 1_800_000_000.0, "updated": 1_800_000_000.0, **fields})


@given(st.lists(st.tuples(times, happenings), max_size=12))
def test_any_history_of_events_keeps_to_the_rules(
    history: list[tuple[float, tuple[Event, dict[str, Any], str]]],
) -> None:
    task, now = record(), 1_800_000_000.0
    for step, (event, fields, message) in history:
        now += step
        after = task.change(event, now, message, **fields)
        if after is None:
            assert (task.status, event) not in TRANSITIONS
            assert task.is_ended or event is Event.ANSWERED
            continue
        assert not task.is_ended
        assert after.status in PATHS[task.status]
        assert after.version == task.version + 1
        assert after.updated == max(now, task.updated)
        assert (after.created, after.id) == (task.created, task.id)
        assert after.message == message
        if after.is_ended:
            assert not after.questions and not after.journal and not after.worker
        task = after
        assert_valid_on_the_wire(task)


def assert_valid_on_the_wire(task: TaskRecord) -> None:
    """Hold the fields of both generations against their schemas, and the record against its own type."""
    detailed = extension_fields(task, detailed=True)
    assert problems("notifications/tasks", detailed) == []
    assert problems("GetTaskResult", {"resultType": "complete", **detailed}) == []
    assert problems("CreateTaskResult", {"resultType": "task", **extension_fields(task, detailed=False)}) == []
    assert load(DetailedTask, detailed).task_id == load(CreatedTask, detailed).task_id == task.id
    core = core_fields(task)
    assert load(Task, core).status == core["status"]
    if (folder := spec_folder()) is not None:
        assert closed_schema(folder, "2025-11-25").strict_problems("Task", core) == []
    assert msgspec.json.decode(msgspec.json.encode(task), type=TaskRecord) == task


def test_the_table_has_exactly_the_paths_of_the_pages() -> None:
    reached: dict[str, set[str]] = {}
    for (start, _), end in TRANSITIONS.items():
        reached.setdefault(start, set()).add(end)
    assert reached == {"working": PATHS["working"] - {"working"}, "input_required": PATHS["input_required"]}


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("event", Event)
def test_a_task_that_has_ended_never_changes(status: TaskStatus, event: Event) -> None:
    assert record(status=status).change(event, 1_900_000_000.0) is None


def test_what_only_a_running_task_needs_is_not_kept_when_it_ends() -> None:
    waiting = record(journal={"a": JournalEntry("a", "secret")}, questions={"b": QUESTION}, worker="replica")
    ended = waiting.change(Event.CANCELLED, 1_800_000_001.0)
    assert ended is not None and (ended.journal, ended.questions, ended.worker) == ({}, {}, "")


def test_a_result_with_is_error_is_completed_in_the_extension_and_failed_in_core() -> None:
    ended = record().change(Event.RETURNED, 1_800_000_001.0, result={"content": [], "isError": True})
    assert ended is not None
    assert extension_fields(ended, detailed=True)["status"] == "completed"
    assert core_fields(ended)["status"] == "failed"


def test_a_status_shows_what_it_calls_for_and_nothing_else() -> None:
    waiting = record(status="input_required", questions={"style": QUESTION, "where": ROOTS})
    assert extension_fields(waiting, detailed=True)["inputRequests"] == {
        "style": {"method": QUESTION.method, "params": QUESTION.params},
        "where": {"method": "roots/list"},
    }
    assert "inputRequests" not in extension_fields(waiting, detailed=False)
    failed = record(status="failed", error=TaskError(-32602, "No such city", {"city": "X"}))
    assert extension_fields(failed, detailed=True)["error"] == {
        "code": -32602,
        "message": "No such city",
        "data": {"city": "X"},
    }


def test_the_ttl_of_the_wire_counts_from_creation_and_grows_with_every_change() -> None:
    task = record(ttl=60.0)
    assert (extension_fields(task, detailed=False)["ttlMs"], core_fields(task)["ttl"]) == (60_000, 60_000)
    later = task.change(Event.ASKED, task.created + 30, questions={"style": QUESTION})
    assert later is not None
    assert (extension_fields(later, detailed=True)["ttlMs"], core_fields(later)["ttl"]) == (90_000, 90_000)
    assert later.expires == task.created + 90


@given(st.floats(0, MAX_TTL_SECONDS), st.floats(0, 10 * MAX_TTL_SECONDS))
def test_a_task_never_says_that_it_is_kept_longer_than_it_is(ttl: float, age: float) -> None:
    task = record(ttl=ttl).replace(1_800_000_000.0 + age)
    assert task.created + extension_fields(task, detailed=False)["ttlMs"] / 1000 <= task.expires + 0.001


def test_times_are_iso_8601_in_utc() -> None:
    assert timestamp(1_800_000_000.25) == "2027-01-15T08:00:00.250Z"


def test_the_metadata_of_a_related_message_name_the_task() -> None:
    assert related("abc") == {RELATED_TASK: {"taskId": "abc"}}


def test_the_error_for_a_missing_task_says_nothing_about_which() -> None:
    assert (task_not_found().code, str(task_not_found())) == (
        -32602,
        "Task not found: there is none with this id, or it has expired",
    )
