"""Tasks of the 2025-11-25 revision."""

from dovetail.types.serialization import dump, load
from dovetail.types.tasks import CreateTaskResult, ListTasksResult, Task, TaskPayload, TaskResult, TaskStatusParams

PLAIN = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttl": None}


def test_a_task_without_end_says_so() -> None:
    assert load(Task, PLAIN).ttl is None
    assert dump(load(Task, PLAIN)) == PLAIN


def test_the_same_fields_stand_in_results_and_notifications() -> None:
    for kind in (TaskResult, TaskStatusParams):
        value = load(kind, {**PLAIN, "_meta": {"a": 1}})
        assert isinstance(value, Task)
        assert dump(value) == {**PLAIN, "_meta": {"a": 1}}


def test_the_payload_is_whatever_the_request_gives() -> None:
    plain = {"content": [{"type": "text", "text": "a"}], "isError": False, "_meta": {"a": 1}}
    assert load(TaskPayload, plain).extra["content"] == plain["content"]
    assert dump(load(TaskPayload, plain)) == plain


def test_lists_and_first_answers() -> None:
    assert dump(CreateTaskResult(load(Task, PLAIN))) == {"task": PLAIN}
    assert dump(ListTasksResult([load(Task, PLAIN)], "c")) == {"tasks": [PLAIN], "nextCursor": "c"}
