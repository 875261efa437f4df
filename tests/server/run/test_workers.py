"""Several worker processes at one port: they share one sealing key, and end together."""

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
    assert {worker_of(client) for _ in range(MANY)} == set(children(pair.process.pid))


class TestWorkerPool:
    def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            clients = [server.client() for _ in range(MANY)]
            homes = {client: worker_of(client) for client in clients}
            first, second = children(server.process.pid)
            os.kill(first, signal.SIGKILL)
            kept = [client for client in clients if homes[client] == second]
            assert kept and all(worker_of(client) == second for client in kept)
            eventually(lambda: len(children(server.process.pid)) == 2, "a new worker has been started")
            lost = next(client for client in clients if homes[client] == first)
            eventually(lambda: lost.call("which").status == 404, "the session is known to have ended")
            assert worker_of(server.client()) in children(server.process.pid)
            assert "Worker 0 ended by signal 9 and is restarted" in server.stderr
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert "Traceback" not in server.stderr, server.stderr

    def test_a_worker_that_dies_during_calls_leaves_no_client_waiting(self) -> None:
        with HttpProcess(LINGERING, "--workers", "2") as server:
            clients = [server.client() for _ in range(MANY)]
            streams = [client.stream() for client in clients]
            victim = clients[0]
            pid = worker_of(victim)
            answers = [victim.call("linger", seconds=600) for _ in range(4)]
            for answer in answers:
                answer.message()
            os.kill(pid, signal.SIGKILL)
            for answer in [*answers, streams[0]]:
                # A reset, or an end, depending on whose connection it was; but nobody waits in vain.
                with contextlib.suppress(http.client.HTTPException, ConnectionError):
                    answer.rest()
            for stream in streams[1:]:
                stream.close()

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
