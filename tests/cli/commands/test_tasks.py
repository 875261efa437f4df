"""Calls that become tasks, and tasks that the user left: `call`, `call --detach` and `tasks`."""

import shlex
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from dovetail.host.tasks.saved_tasks import MAX_SAVED_TASKS, SavedTask, SavedTasks, expiry
from tests.cli.invoke import DESK, FILM, AtTerminal, dovetail
from tests.support.http_process import HttpProcess


class Studio:
    """A server over HTTP, and the folder of a user who calls it."""

    def __init__(self, url: str, gate: Path, home: Path) -> None:
        self.url = url
        self.gate = gate
        self.home = home

    def does(self, *words: str):
        """Run a command of this user; U stands for the server."""
        return dovetail(*(self.url if word == "U" else word for word in words), XDG_CONFIG_HOME=str(self.home))

    def at_terminal(self, *words: str) -> AtTerminal:
        return AtTerminal(
            *(self.url if word == "U" else word for word in words), XDG_CONFIG_HOME=str(self.home), columns=200
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, Path]]:
    gate = tmp_path_factory.mktemp("film") / "gate"
    with HttpProcess(FILM, environment={"FILM_GATE": str(gate)}) as server:
        yield f"{server.url}/mcp", gate


@pytest.fixture
def studio(served: tuple[str, Path], tmp_path: Path) -> Studio:
    url, gate = served
    gate.unlink(missing_ok=True)
    return Studio(url, gate, tmp_path)


def test_a_call_waits_for_its_task_and_shows_its_status(studio: Studio) -> None:
    with studio.at_terminal("call", "U", "render") as terminal:
        terminal.until("Calling render: rendering harbour … ")
        studio.gate.touch()
        code, rest = terminal.end()
    assert code == 0 and rest.endswith("harbour is rendered\n")


def test_a_detached_task_is_waited_for_by_another_command(studio: Studio) -> None:
    left = studio.does("call", "U", "render", "scene=night", "--detach")
    assert left.code == 0
    reference = left.out.strip()
    way_back = left.err.split("`")[1]
    assert shlex.split(way_back) == ["dovetail", "tasks", "wait", studio.url, reference]
    state = studio.does("tasks", "get", "U", reference, "--format", "json").result
    assert (state["tool"], state["status"], state["message"]) == ("render", "working", "rendering night")
    studio.gate.touch()
    done = studio.does(*shlex.split(way_back)[1:])
    assert (done.code, done.out) == (0, "night is rendered\n")
    assert studio.does("tasks", "list", "--format", "json").result == {"tasks": []}


def test_a_task_that_was_left_is_found_without_its_reference(studio: Studio) -> None:
    reference = studio.does("call", "U", "render", "--detach", "-q").out.strip()
    listed = studio.does("tasks", "list", "U", "--format", "json").result["tasks"]
    assert [(each["tool"], each["status"], each["reference"]) for each in listed] == [("render", "working", reference)]
    studio.gate.touch()
    assert studio.does("tasks", "wait", "U", listed[0]["id"]).out == "harbour is rendered\n"
    studio.does("call", "U", "render", "--detach")
    assert studio.does("tasks", "wait", "U").out == "harbour is rendered\n"
    reference = studio.does("call", "U", "render", "--detach").out.strip()
    assert studio.does("tasks", "wait", reference).out == "harbour is rendered\n"


def test_ctrl_c_cancels_the_task_of_a_call(studio: Studio) -> None:
    with studio.at_terminal("call", "U", "render") as terminal:
        terminal.until("rendering harbour")
        terminal.interrupt()
        code, rest = terminal.end()
    assert code == 130 and "Cancelled: the server was told to stop the task." in rest


def test_ctrl_c_ends_the_wait_and_not_the_task(studio: Studio) -> None:
    studio.does("call", "U", "render", "--detach")
    with studio.at_terminal("tasks", "wait", "U") as terminal:
        terminal.until("Waiting for render: rendering harbour")
        terminal.interrupt()
        code, rest = terminal.end()
    assert code == 130 and "the task goes on" in rest
    studio.gate.touch()
    assert studio.does("tasks", "wait", "U").out == "harbour is rendered\n"


def test_a_task_is_cancelled_once(studio: Studio) -> None:
    reference = studio.does("call", "U", "render", "--detach").out.strip()
    assert studio.does("tasks", "cancel", "U").out == "The task was cancelled.\n"
    waited = studio.does("tasks", "wait", "U", reference, "--format", "json")
    assert (waited.code, waited.error["code"]) == (5, "cancelled")
    studio.gate.touch()
    reference = studio.does("call", "U", "render", "--detach").out.strip()
    while studio.does("tasks", "get", "U", reference, "--format", "json").result["status"] == "working":
        pass
    refused = studio.does("tasks", "cancel", "U", reference)
    assert refused.code == 5 and "The task has completed already" in refused.err


def test_a_question_of_a_detached_task_is_answered_by_whoever_waits(studio: Studio) -> None:
    studio.does("call", "U", "paint", "--detach")
    unanswered = studio.does("tasks", "wait", "U")
    assert unanswered.code == 5 and "--answer style=…" in unanswered.err
    assert studio.does("tasks", "get", "U", "--format", "json").result["status"] == "input_required"
    with studio.at_terminal("tasks", "wait", "U") as terminal:
        terminal.answer("style: ", "cubist")
        terminal.answer("Send?", "y")
        code, rest = terminal.end()
    assert code == 0 and rest.endswith("painted: cubist\n")
    studio.does("call", "U", "paint", "--detach")
    assert studio.does("tasks", "wait", "U", "--answer", "style=pop").out == "painted: pop\n"


def test_a_task_that_fails_has_the_exit_code_of_a_call_that_fails(studio: Studio) -> None:
    studio.does("call", "U", "tear", "--detach")
    done = studio.does("tasks", "wait", "U", "--format", "json")
    assert (done.code, done.error["code"], done.error["tool"]) == (5, "tool_error", "tear")


def test_a_call_that_is_no_task_is_not_detached(studio: Studio) -> None:
    done = studio.does("call", "U", "title", "--detach")
    assert (done.code, done.out) == (0, "The Harbour\n")
    assert "was no task" in done.err
    assert studio.does("tasks", "list").out.startswith("You have left no tasks.")


def test_a_server_without_tasks_is_an_error_before_anything_is_called() -> None:
    done = dovetail("call", DESK, "add", "a=1", "--detach", "--format", "json")
    assert (done.code, done.error["code"]) == (5, "not_found")
    assert done.error["message"] == "desk has no tasks on revision 2026-07-28."


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["get", "U", "AAAAAAAAAAAAAAAAAAAAAA"], 5, "The server has no such task"),
        (["get", "U", "WzEsIktWNU1pR2xYRWgyb3Z3a0"], 1, "is not whole"),
        (["get", "U"], 1, "you have left none there"),
        (["wait"], 1, "name the TARGET and the task"),
        (["wait", "WzEsIktWNU1pR2xYRWgyb3Z3a0"], 1, "not among those you left"),
        (["list", "U", "x"], 1, "list takes no task"),
    ],
)
def test_a_wrong_word_is_explained(studio: Studio, words: list[str], code: int, message: str) -> None:
    done = studio.does("tasks", *words)
    assert done.code == code and message in done.err


def test_tasks_that_were_left_are_private_bounded_and_expire(tmp_path: Path) -> None:
    now = time.time()
    saved = SavedTasks(tmp_path, now=lambda: now)
    for number in range(MAX_SAVED_TASKS + 3):
        task = SavedTask(reference=f"r{number}", tool="render", target="U", at=now, expires=expiry(now, 60 + number))
        saved.add(task)
    assert (tmp_path / "tasks.json").stat().st_mode & 0o77 == 0
    assert [each.reference for each in saved.all()] == [f"r{number}" for number in range(3, MAX_SAVED_TASKS + 3)]
    now += 65
    assert saved.all()[0].reference == "r6"
    saved.remove("r6")
    saved.remove("r6")
    assert saved.all()[0].reference == "r7"
