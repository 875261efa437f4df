"""Tasks with the clients of others: the TypeScript SDK 1.x on 2025-11-25, ext-tasks on both revisions with tasks, and
the inspector on 2026-07-28."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.peers import ENVELOPE, PROGRAMS, inspector_session_command, node_program, our_tasks_server
from tests.support.http import serving_program

pytestmark = pytest.mark.interop

EXTENSION = "io.modelcontextprotocol/tasks"


def printed(command: list[str]) -> dict[str, Any]:
    """What a client printed of its visit."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_program(PROGRAMS / "dovetail_tasks.py", "--http") as server:
        yield f"{server.url}/mcp"


@pytest.fixture(scope="module", params=["stdio", "http"])
def typed(request: pytest.FixtureRequest) -> dict[str, Any]:
    server = our_tasks_server() if request.param == "stdio" else [request.getfixturevalue("url")]
    return printed([*node_program("typescript_tasks.mjs"), *server])


@pytest.fixture(scope="module", params=["legacy", ENVELOPE])
def extended(request: pytest.FixtureRequest, url: str) -> dict[str, Any]:
    return {"mode": request.param, **printed([*node_program("ext_tasks_client.mjs"), url, request.param])}


@pytest.fixture(scope="module")
def inspect(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    home = tmp_path_factory.mktemp("inspector")
    environment = {**os.environ, "HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "memory"}
    exported = subprocess.run(
        [*inspector_session_command(), "private"], capture_output=True, text=True, check=True, env=environment
    )
    for line in exported.stdout.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            environment[name] = value.strip("'\"; ")

    def run(*words: str, code: int = 0) -> Any:
        command = [*inspector_session_command(), "--format", "json", "--connection", "tasks", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=50, check=False, env=environment, cwd=home
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    run("connect", url, "--era", "modern")
    try:
        yield run
    finally:
        subprocess.run([*inspector_session_command(), "daemon", "stop"], capture_output=True, env=environment)


class TestTypeScript1:
    """`client.experimental.tasks` of the TypeScript SDK 1.x."""

    def test_it_sees_which_tools_may_be_tasks(self, typed: dict[str, Any]) -> None:
        assert typed["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
        assert (typed["support"]["render"], typed["support"]["paint"]) == ("optional", "required")
        assert typed["support"]["add"] is None
        [refused] = typed["add as a task"]
        assert refused["error"]["code"] == -32601

    def test_it_follows_a_task_to_its_result(self, typed: dict[str, Any]) -> None:
        created, *statuses, last = typed["render"]
        assert created["task"]["status"] == "working" and created["task"]["ttl"] == 60_000
        assert statuses[-1]["task"]["status"] == "completed"
        assert last["result"]["structuredContent"] == typed["plain"]["structuredContent"] | {"movie": "sea"}

    def test_it_answers_the_question_of_a_task(self, typed: dict[str, Any]) -> None:
        created, *_, last = typed["paint"]
        assert last["result"]["content"] == [{"type": "text", "text": "painted cubist"}]
        assert typed["asked"] == [{"message": "Which style?", "related": created["task"]["taskId"]}]

    def test_it_learns_why_a_task_failed(self, typed: dict[str, Any]) -> None:
        *_, status, _ = typed["refuse"]
        assert (status["task"]["status"], status["task"]["statusMessage"]) == ("failed", "Not on a Sunday.")
        assert (typed["error of the result"]["code"], typed["error of the result"]["data"]) == (
            4711,
            {"resets": "tomorrow"},
        )
        assert typed["missing"]["code"] == -32602

    def test_it_cancels_a_task_and_hears_of_it(self, typed: dict[str, Any]) -> None:
        assert typed["cancel"]["status"] == typed["cancelled"]["status"] == "cancelled"
        assert typed["cancel again"]["code"] == -32602
        assert typed["told"][-1]["status"] == "cancelled"


class TestExtTasks:
    """`@modelcontextprotocol/ext-tasks`, which drives tasks of both generations."""

    def test_it_finds_the_tasks_of_its_revision(self, extended: dict[str, Any]) -> None:
        if extended["mode"] == ENVELOPE:
            assert extended["capabilities"]["extensions"] == {EXTENSION: {}} and "tasks" not in extended["capabilities"]
            assert {"tools/call", "tasks/get", "tasks/update", "tasks/cancel"} == set(extended["sent"])
        else:
            assert "tasks" in extended["capabilities"] and "extensions" not in extended["capabilities"]
        assert extended["reference"]["generation"] == ("v2" if extended["mode"] == ENVELOPE else "v1")

    def test_it_settles_a_task(self, extended: dict[str, Any]) -> None:
        assert (extended["render"]["kind"], extended["render"]["status"]) == ("task", "completed")
        assert extended["render"]["result"]["structuredContent"] == {"movie": "sea"}
        assert extended["add"]["kind"] == "immediate"

    def test_it_answers_the_question_of_a_task(self, extended: dict[str, Any]) -> None:
        if extended["mode"] == ENVELOPE:
            assert extended["asked"] == [{"message": "Which style?", "scope": "task", "delivery": "task-update"}]
            assert "input_required" in extended["paint"]["statuses"]
            assert extended["paint"]["result"]["content"][0]["text"] == "painted cubist"

    def test_it_tells_failures_apart(self, extended: dict[str, Any]) -> None:
        if extended["mode"] == ENVELOPE:
            assert extended["refuse"]["status"] == "completed" and extended["refuse"]["result"]["isError"]
            assert (extended["break_down"]["error"]["code"], extended["break_down"]["status"]) == (4711, "failed")
        else:
            assert (extended["refuse"]["status"], extended["refuse"]["error"]["message"]) == (
                "failed",
                "Not on a Sunday.",
            )
            assert extended["break_down"]["error"]["message"] == "No quota left"

    def test_it_cancels_a_task(self, extended: dict[str, Any]) -> None:
        assert extended["hold"] == "cancelled"


class TestInspector:
    """The inspector with connections that last, on 2026-07-28."""

    def test_it_settles_a_task(self, inspect: Callable[..., Any]) -> None:
        assert inspect("tools/call", "render", "scene:=sea")["structuredContent"] == {"movie": "sea"}

    def test_it_answers_the_question_of_a_task(self, inspect: Callable[..., Any]) -> None:
        pending = inspect("tools/call", "paint")["elicitationPending"]
        assert (pending["message"], pending["origin"]) == ("Which style?", "task-input-required")
        done = inspect("elicitation/respond", pending["elicitationId"], "style:=cubist")
        assert "painted cubist" in json.dumps(done)
