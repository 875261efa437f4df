"""`dovetail call --load N`: a bounded load test of a real server."""

import json
import signal
import subprocess

import pytest

from tests.cli.invoke import COMMAND, DESK, AtTerminal, dovetail, environment


def test_a_load_test_makes_exactly_the_calls_that_were_asked_for() -> None:
    done = dovetail("call", DESK, "add", "a=1", "--load", "50", "--concurrency", "4", "--format", "json")
    result = done.result
    assert (result["tool"], result["calls"], result["failed"], result["concurrency"]) == ("add", 50, 0, 4)
    times = result["milliseconds"]
    assert 0 < times["p50"] <= times["p90"] <= times["p99"] <= times["max"]
    assert result["callsPerSecond"] > 0 and result["errors"] == {}


def test_failed_calls_are_counted_by_kind_and_set_the_exit_code() -> None:
    done = dovetail("call", DESK, "fail", "--load", "3")
    assert done.code == 5
    assert done.out.splitlines()[1:] == ["  errors  3", "    3 tool_error: Tool 'fail' failed: Out of ink."]


def test_a_duration_ends_the_test() -> None:
    assert dovetail("call", DESK, "add", "a=1", "--duration", "0.2", "--format", "json").result["calls"] >= 1


def test_ctrl_c_prints_what_was_measured() -> None:
    words = [*COMMAND, "call", DESK, "add", "a=1", "--duration", "60", "--format", "json", "--trace"]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    with command:
        assert command.stderr is not None
        while b'"tools/call"' not in command.stderr.readline():
            pass
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=60)
    assert command.returncode == 130
    assert json.loads(out)["result"]["tool"] == "add"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--concurrency", "2"], "--concurrency needs --load N or --duration SECONDS"),
        (["--load", "1000001"], "the number of calls is a whole number, from 1 to 1000000"),
        (["--load", "1", "--concurrency", "257"], "from 1 to 256"),
        (["--duration", "3601"], "a load test takes more than 0 and up to 3600 s"),
        (["--load", "2", "--save", "folder"], "--save saves one result"),
    ],
)
def test_the_limits_are_said(words: list[str], complaint: str) -> None:
    done = dovetail("call", DESK, "add", "a=1", *words)
    assert done.code == 1 and complaint in done.err


def test_another_machine_is_tested_only_on_request() -> None:
    done = dovetail("call", "https://example.com/mcp", "add", "--load", "2")
    assert done.code == 1 and "https://example.com/mcp is not on this machine: --allow-remote" in done.err


def test_a_terminal_shows_the_progress() -> None:
    with AtTerminal("call", DESK, "add", "a=1", "--load", "3000") as terminal:
        terminal.until("calls/s\r\x1b[J")
        assert "3000 calls of add in " in terminal.end()[1]
