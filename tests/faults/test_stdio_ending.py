"""How a server over stdio ends: at the end of its input, by a signal, or when nobody listens any more."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.faults.conftest import SERVERS
from tests.support.raw import RawServer, alive, children, eventually, script

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def patient_server(revision: str) -> Iterator[RawServer]:
    """A server that gives its calls all the time they want."""
    with RawServer(script(SERVERS / "nasty.py", "60")) as server:
        yield server.open(revision)


@pytest.fixture
def hasty_server(revision: str) -> Iterator[RawServer]:
    """A server that gives its calls a fifth of a second."""
    with RawServer(script(SERVERS / "nasty.py", "0.2")) as server:
        yield server.open(revision)


class TestTheEndOfInput:
    def test_an_idle_server_ends(self, patient_server: RawServer) -> None:
        patient_server.close_input()
        assert patient_server.rest() == []
        assert patient_server.wait() == 0
        assert patient_server.stderr == ""

    def test_calls_that_were_read_are_answered_first(self, patient_server: RawServer) -> None:
        server = patient_server
        server.send(
            server.tool(1, "slow", seconds=0.5),
            server.tool(2, "block", seconds=0.5),
            *(server.tool(n, "echo", text=str(n)) for n in range(3, 300)),
        )
        server.close_input()
        answers = {answer["id"]: answer["result"] for answer in server.rest()}
        assert set(answers) == set(range(1, 300))
        assert answers[1]["content"][0]["text"] == "slept"
        assert answers[2]["content"][0]["text"] == "nobody came"
        assert server.wait() == 0
        assert server.stderr == ""

    def test_a_handler_that_waits_for_the_client_ends_quietly(self) -> None:
        with RawServer(script(SERVERS / "lingering.py", "stdio")) as server:
            server.revision = "2025-11-25"
            params = {
                "protocolVersion": server.revision,
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "raw", "version": "1"},
            }
            server.ask("initialize", params)
            server.send(server.tool(1, "ask", question="Who?"))
            assert server.message()["method"] == "elicitation/create"
            server.close_input()
            assert [answer["id"] for answer in server.rest()] == [1]
            assert server.wait() == 0
            assert server.stderr == ""

    def test_calls_of_a_batch_are_answered_together_first(self) -> None:
        with RawServer(script(SERVERS / "nasty.py")) as server:
            server.open("2025-03-26")
            server.send([server.tool(1, "slow", seconds=0.2), server.tool(2, "echo", text="x")])
            server.close_input()
            line = server.line()
            assert line is not None
            assert line.startswith(b"[") and line.count(b'"result"') >= 2
            assert server.line() is None

    @pytest.mark.parametrize(
        "tool",
        [
            "wait_for_ever",
            "block",
            pytest.param("ping_the_client", marks=pytest.mark.sends_wrong("a ping, on every revision")),
        ],
    )
    def test_a_call_longer_than_the_grace_period_is_stopped(self, hasty_server: RawServer, tool: str) -> None:
        server = hasty_server
        server.send(server.tool(1, tool, **({"seconds": 600} if tool != "wait_for_ever" else {})))
        server.close_input()
        answers = [message for message in server.rest() if "method" not in message]
        assert answers == [] or "the peer closed the connection" in answers[0]["result"]["content"][0]["text"]
        assert server.wait() == 0

    def test_a_large_answer_is_written_to_its_end(self, patient_server: RawServer) -> None:
        server = patient_server
        server.send(server.tool(1, "large", size=10_000_000))
        server.close_input()
        assert len(server.answer(1)["result"]["content"][0]["text"]) == 10_000_000
        assert server.wait() == 0

    @pytest.mark.slow
    def test_a_handler_that_refuses_to_stop_cannot_hold_it(self, hasty_server: RawServer) -> None:
        server = hasty_server
        server.send(server.tool(1, "refuse_to_stop"))
        server.still_works()
        server.close_input()
        assert server.rest() == []
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("number", SIGNALS)
class TestASignal:
    def test_a_signal_ends_an_idle_server(self, patient_server: RawServer, number: int) -> None:
        patient_server.process.send_signal(number)
        assert patient_server.rest() == []
        assert patient_server.wait() == 0
        assert patient_server.stderr == ""

    def test_lets_a_call_in_flight_finish(self, patient_server: RawServer, number: int) -> None:
        server = patient_server
        server.send(server.tool(1, "slow", seconds=0.5))
        server.still_works()
        server.process.send_signal(number)
        assert [answer["id"] for answer in server.rest()] == [1]
        assert server.wait() == 0
        assert server.stderr == ""

    @pytest.mark.parametrize("tool", ["wait_for_ever", "block"])
    def test_a_signal_ends_a_call_that_takes_too_long(self, hasty_server: RawServer, tool: str, number: int) -> None:
        server = hasty_server
        server.send(server.tool(1, tool, **({"seconds": 600} if tool == "block" else {})))
        server.still_works()
        server.process.send_signal(number)
        assert server.rest() == []
        assert server.wait() == 0
        assert server.stderr == "1 call was still running after 0.2 s and was stopped\n"

    def test_a_second_signal_ends_at_once(self, patient_server: RawServer, number: int) -> None:
        server = patient_server
        server.send(server.tool(1, "wait_for_ever"))
        server.still_works()
        started = time.monotonic()
        while server.process.poll() is None and time.monotonic() < started + 20:
            server.process.send_signal(number)
            time.sleep(0.05)
        assert server.wait(1) == 0, "the grace period is a minute"
        assert server.stderr == ""

    def test_after_the_end_of_input_waits_for_nothing(self, patient_server: RawServer, number: int) -> None:
        server = patient_server
        server.send(server.tool(1, "wait_for_ever"))
        server.still_works()
        server.close_input()
        started = time.monotonic()
        while server.process.poll() is None and time.monotonic() < started + 20:
            server.process.send_signal(number)
            time.sleep(0.05)
        assert server.wait(1) == 0
        assert server.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("revision", ["2026-07-28"])
def test_two_signals_end_a_server_whose_loop_is_held(patient_server: RawServer, number: int) -> None:
    server = patient_server
    server.send(server.tool(1, "hold_the_loop", seconds=600))
    eventually(lambda: "holding" in server.stderr, "the loop is held")
    for _ in range(2):
        server.process.send_signal(number)
        time.sleep(0.2)  # two signals at the same moment are one
    assert server.wait(20) == 0
    assert "Traceback" not in server.stderr


def test_the_server_ends_when_nobody_reads_its_output_any_more(patient_server: RawServer) -> None:
    server = patient_server
    server.send(server.tool(1, "wait_for_ever"))
    server.still_works()
    server.close_output()
    server.send(server.tool(2, "echo", text="to nobody"))
    assert server.wait(20) == 0, "without the grace period of a minute: there is nobody to answer to"
    assert "Traceback" not in server.stderr


def test_the_lifespan_is_left_however_the_server_ends() -> None:
    for how in ("input", "signal", "output"):
        with RawServer(script(SERVERS / "lived.py")) as server:
            server.open("2026-07-28")
            if how == "input":
                server.close_input()
            elif how == "signal":
                server.process.terminate()
            else:
                server.close_output()
                server.send(server.request(1, "server/discover"))
            assert server.wait() == 0
            assert server.stderr.split() == ["entered", "left"], how


def test_a_lifespan_that_takes_for_ever_to_enter_does_not_outlive_a_signal() -> None:
    with RawServer(script(SERVERS / "lived.py", "slowly")) as server:
        eventually(lambda: "entering" in server.stderr, "the lifespan is being entered")
        server.process.terminate()
        assert server.wait() == 0
        assert server.stderr == "entering\n"


def test_a_lifespan_that_fails_is_told_on_stderr() -> None:
    with RawServer(script(SERVERS / "lived.py", "badly")) as server:
        assert server.wait() != 0
        assert server.rest() == []
        assert "no database" in server.stderr


def test_a_child_process_of_a_handler_does_not_hold_the_wire_open(patient_server: RawServer) -> None:
    server = patient_server
    server.call("start_child")
    (child,) = children(server.pid)
    server.close_input()
    assert server.rest() == [], "the output ended although the child lives on"
    assert server.wait() == 0
    assert alive(child)
