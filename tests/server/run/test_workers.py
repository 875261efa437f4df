"""Several worker processes at one port: they share sessions and sealing keys, and end together."""

import contextlib
import http.client
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http_process import HttpCaller, HttpProcess
from tests.support.raw import ENVELOPE, children, eventually

LINGERING = Path(__file__).parents[2] / "faults" / "servers" / "lingering.py"
MANY = 12
"""Connections enough that both workers get some: all at one would be one in 2,000."""


@pytest.fixture(scope="module", params=[(), ("-O",)], ids=["plain", "optimised"])
def pair(request: pytest.FixtureRequest) -> Iterator[HttpProcess]:
    """Two workers, with and without `assert` statements."""
    serve = ["-m", "dovetail.cli", "serve", LINGERING, "--port", "0", "--log-level", "warning", "--workers", "2"]
    with HttpProcess("", command=[sys.executable, *request.param, *serve]) as server:
        yield server
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr, server.stderr


def worker_of(client: HttpCaller) -> int:
    """The process that served a call."""
    return int(client.call("which").messages()[-1]["result"]["content"][0]["text"])


def test_a_call_that_needs_input_is_completed_by_whichever_worker_gets_the_retry(pair: HttpProcess) -> None:
    client = pair.client(ENVELOPE)
    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    params = {"name": "ask", "arguments": {"question": "Who?"}, "_meta": capabilities}
    for _ in range(MANY):
        [paused] = client.ask("tools/call", params).messages()
        assert paused["result"]["resultType"] == "input_required"
        responses = {id: {"action": "accept", "content": {"value": "Ann"}} for id in paused["result"]["inputRequests"]}
        retry = {**params, "requestState": paused["result"]["requestState"], "inputResponses": responses}
        [done] = client.ask("tools/call", retry).messages()
        assert done["result"]["content"][0]["text"] == "accept: Ann"
    eventually(lambda: worker_of(client) == children(pair.process.pid)[0], "the first worker is asked too")
    eventually(lambda: worker_of(client) == children(pair.process.pid)[1], "and so is the second")


class TestWorkerPool:
    def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            eventually(lambda: len(children(server.process.pid)) == 2, "both workers have been started")
            first, _ = children(server.process.pid)
            clients = [server.client() for _ in range(MANY)]
            os.kill(first, signal.SIGKILL)
            # A session belongs to no worker: the others serve it from its record.
            assert all(worker_of(client) != first for client in clients)
            eventually(lambda: len(children(server.process.pid)) == 2, "a new worker has been started")
            assert all(worker_of(client) in children(server.process.pid) for client in [*clients, server.client()])
            assert "Worker 0 ended by signal 9 and is restarted" in server.stderr
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert "Traceback" not in server.stderr, server.stderr

    def test_workers_that_die_during_calls_leave_no_client_waiting(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            clients = [server.client() for _ in range(MANY)]
            streams = [client.stream() for client in clients]
            answers = [clients[0].call("linger", seconds=600) for _ in range(4)]
            for answer in answers:
                answer.message()
            # Both, since the calls of a session may be at either.
            for pid in children(server.process.pid):
                os.kill(pid, signal.SIGKILL)
            for answer in [*answers, *streams]:
                with contextlib.suppress(http.client.HTTPException, ConnectionError):
                    answer.rest()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_all_workers_with_their_calls_answered(self, number: int) -> None:
        with HttpProcess(LINGERING, "--workers", "2", "--grace", "30") as server:
            clients = [server.client() for _ in range(MANY)]
            streams = [client.stream() for client in clients]
            calls = [client.call("linger", seconds=0.8) for client in clients]
            for call in calls:
                call.message()
            workers = children(server.process.pid)
            # As a terminal and systemd do: the signal goes to all of them, and is one signal nevertheless.
            os.killpg(server.process.pid, number)
            for call in calls:
                assert call.messages()[-1]["result"]["content"][0]["text"] == "done"
            for stream in streams:
                stream.rest()
            assert server.wait() == 0
            assert "Traceback" not in server.stderr, server.stderr
            assert len(workers) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in workers)

    def test_a_second_signal_ends_all_workers_at_once(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2", "--grace", "60") as server:
            call = server.client().call("linger", seconds=600)
            call.message()
            server.signal(signal.SIGTERM)
            eventually(lambda: not listens(server), "the server takes no more connections")
            server.signal(signal.SIGTERM)
            assert server.wait(10) == 0
            call.close()

    def test_workers_end_when_their_parent_is_killed(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            workers = eventually(lambda: len(found := children(server.process.pid)) == 2 and found, "both run")
            assert worker_of(server.client()) in workers
            server.process.kill()
            server.process.wait()
            eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "they have ended")

    @pytest.mark.attack("L15")
    def test_no_folder_is_left_when_the_parent_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with HttpProcess(LINGERING, "--workers", "2") as server:
            workers = eventually(lambda: len(found := children(server.process.pid)) == 2 and found, "both run")
            assert len(list(tmp_path.glob("dovetail-*"))) == 1
            server.process.kill()
            server.process.wait()
            eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "they have ended")
            assert list(tmp_path.glob("dovetail-*")) == []

    @pytest.mark.attack("L15")
    def test_the_next_run_removes_the_folder_of_one_whose_processes_were_all_killed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with HttpProcess(LINGERING, "--workers", "2"):
            pass  # the end of the block kills the parent and the workers
        [stale] = tmp_path.glob("dovetail-*")
        with HttpProcess(LINGERING, "--workers", "2") as first, HttpProcess(LINGERING, "--workers", "2") as second:
            assert not stale.exists()
            assert len(list(tmp_path.glob("dovetail-*"))) == 2
            for server in (first, second):
                server.signal(signal.SIGTERM)
                assert server.wait() == 0
        assert list(tmp_path.glob("dovetail-*")) == []

    @pytest.mark.attack("L16")
    @pytest.mark.parametrize("code", [1, 3])
    def test_a_worker_that_ends_after_its_start_is_restarted_whatever_its_exit_code(self, code: int) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            eventually(lambda: len(children(server.process.pid)) == 2, "both run")
            with contextlib.suppress(OSError, http.client.HTTPException):
                server.client(ENVELOPE).call("leave", code=code).rest()
            eventually(lambda: f"ended with exit code {code} and is restarted" in server.stderr, "it is restarted")
            eventually(lambda: len(children(server.process.pid)) == 2, "a new worker has been started")
            assert worker_of(server.client()) in children(server.process.pid)
            server.signal(signal.SIGTERM)
            assert server.wait() == 0

    def test_a_worker_that_cannot_start_is_not_restarted(self, tmp_path: Path) -> None:
        file = tmp_path / "broken.py"
        file.write_text(
            "import contextlib\nfrom dovetail import Server\n"
            "@contextlib.asynccontextmanager\nasync def lifespan(server):\n"
            "    raise RuntimeError('no database')\n    yield\n"
            "server = Server('broken', lifespan=lifespan)\n"
        )
        with HttpProcess(file, "--workers", "2") as server:
            assert server.wait() == 1
            assert "no database" in server.stderr
            assert server.complaints[-1] == "dovetail: A worker could not start; its log says why"


def listens(server: HttpProcess) -> bool:
    connection = server.connect()
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True
