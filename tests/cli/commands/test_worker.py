"""`dovetail worker`, and stores without HTTP: tasks that other processes run, and that survive their process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoke import COMMAND, DESK, dovetail, environment
from tests.replicas.task_chaos import SERVER
from tests.support.http_process import HttpProcess
from tests.support.raw import RawServer, eventually
from tests.support.task_caller import ENDED, TaskCaller, task_request

NO_STORE = "A worker needs the store that the servers share: a SQLite file, or Redis"


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("LONG_WORK_FOLDER", str(folder))
    return folder


@contextlib.contextmanager
def worker(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that has begun to work."""
    log = folder / f"worker-{time.monotonic_ns()}.log"
    with log.open("wb") as errors:
        command = [*COMMAND, "worker", str(SERVER), "--store", str(folder / "store.db"), *options]
        process = subprocess.Popen(command, stderr=errors, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: "runs tasks of the store" in log.read_text() or process.poll() is not None, "it starts")
        yield process
    finally:
        process.kill()
        process.wait()


def ask(server: RawServer, method: str, **params: Any) -> dict[str, Any]:
    """The result of a request over stdio."""
    server.write(json.dumps(task_request(1, method, **params)).encode() + b"\n")
    line = server.line()
    assert line is not None, server.stderr
    return json.loads(line)["result"]


def stdio(folder: Path, *options: str) -> RawServer:
    return RawServer([*COMMAND, "run", str(SERVER), "--store", f"sqlite://{folder / 'store.db'}", *options])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((str(SERVER),), NO_STORE),
        ((str(SERVER), "--store", "memory:"), NO_STORE),
        (
            (str(SERVER), "--store", "reddis://:secret@x"),
            "There is no store with the scheme reddis: did you mean redis:?",
        ),
        (
            (str(SERVER), "--store", "/nonexistent/tasks.db"),
            "The store cannot be used: /nonexistent/tasks.db cannot be created: No such file or directory",
        ),
    ],
)
def test_a_worker_without_a_store_that_it_can_share_is_an_error(words: tuple[str, ...], line: str) -> None:
    done = dovetail("worker", *words)
    assert (done.code, done.err) == (1, f"dovetail: {line}\n")


def test_a_worker_of_a_server_without_tasks_is_an_error(tmp_path: Path) -> None:
    done = dovetail("worker", DESK, "--store", str(tmp_path / "store.db"))
    assert done.code == 1 and "has no tools that run as tasks; declare one with" in done.err


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run",)])
def test_tasks_cannot_be_left_to_workers_that_share_no_store(command: tuple[str, ...]) -> None:
    done = dovetail(command[0], str(SERVER), *command[1:], "--tasks", "workers")
    line = 'tasks="workers" needs a store that the workers share: a SQLite file, or Redis'
    assert (done.code, done.err) == (1, f"dovetail: {line}\n")


@pytest.mark.slow
def test_tasks_wait_for_workers_which_hand_them_on_when_they_end(tmp_path: Path, notes: Path) -> None:
    with HttpProcess(SERVER, "--store", str(tmp_path / "store.db"), "--tasks", "workers") as server:
        caller = TaskCaller(server.port)
        first = caller.start("steps", name="first", number=1, seconds=0)
        time.sleep(0.3)
        assert caller.get(first)["status"] == "working" and not (notes / "first").exists(), "nobody runs it"
        with worker(tmp_path) as one:
            assert caller.outcome(first) == ("completed", "first")
            asks = caller.start("ask", name="asks")
            caller.answer(caller.wait_until(asks, ["input_required"]), {"name": "green"})
            assert caller.outcome(asks) == ("completed", "green")
            moves = caller.start("steps", name="moves", number=6, seconds=0.3)
            ends = caller.start("once", name="ends", seconds=0.5)
            eventually(lambda: (notes / "moves").exists() and (notes / "ends").exists(), "both run")
            with worker(tmp_path):
                one.send_signal(signal.SIGTERM)
                assert one.wait(20) == 0
                assert caller.outcome(ends) == ("completed", "ends"), "within the grace period"
                assert caller.outcome(moves) == ("completed", "moves")
                assert (notes / "moves").read_text().splitlines().count("run") == 2


@pytest.mark.slow
def test_a_server_over_stdio_that_was_killed_finds_its_tasks_when_it_is_started_again(tmp_path: Path) -> None:
    with stdio(tmp_path) as server:
        asks = ask(server, "tools/call", name="ask", arguments={"name": "asks"})["taskId"]
        done = ask(server, "tools/call", name="once", arguments={"name": "done", "seconds": 0})["taskId"]
        once = ask(server, "tools/call", name="once", arguments={"name": "once", "seconds": 3600})["taskId"]
        works = ask(server, "tools/call", name="steps", arguments={"name": "works", "number": 2, "seconds": 1})[
            "taskId"
        ]
        eventually(lambda: ask(server, "tasks/get", taskId=asks)["status"] == "input_required", "it asks")
        eventually(lambda: ask(server, "tasks/get", taskId=done)["status"] == "completed", "it is done")
    with stdio(tmp_path) as server:
        assert ask(server, "tasks/get", taskId=done)["result"]["content"][0]["text"] == "done"
        questions = ask(server, "tasks/get", taskId=asks)["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "blue"}} for key in questions}
        ask(server, "tasks/update", taskId=asks, inputResponses=answers)
        for id in (asks, once, works):
            eventually(lambda id=id: ask(server, "tasks/get", taskId=id)["status"] in ENDED, "it ends")
        assert ask(server, "tasks/get", taskId=asks)["result"]["content"][0]["text"] == "blue"
        assert ask(server, "tasks/get", taskId=works)["status"] == "completed"
        assert "It is not known" in ask(server, "tasks/get", taskId=once)["error"]["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_a_server_at_a_unix_socket_takes_its_store_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_STORE", str(tmp_path / "store.db"))
    path = tmp_path / "socket"
    process = subprocess.Popen([*COMMAND, "serve", str(SERVER), "--unix", str(path)], stderr=subprocess.DEVNULL)
    try:
        eventually(path.exists, "it listens")
        assert (tmp_path / "store.db").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not path.exists() and os.path.exists(tmp_path / "store.db")
    finally:
        process.kill()
        process.wait()
