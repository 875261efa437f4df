"""Stderr and stray lines of a server that is a program: held back at first, shown where they explain something."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import Client
from dovetail.client import negotiation
from dovetail.protocol.errors import ConnectionLost, Timeout

PROGRAM = """
import json, os, sys

WELCOME = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}

def err(text):
    os.write(2, text.encode())

def answer(message, **fields):
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], **fields}).encode() + b"\\n")

role = sys.argv[1]
err("booting\\n")
if role == "prints":
    os.write(1, b"\\x1b[31mListening on stdio, token=hunter2hunter2hunter2\\n")
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        for n in range(2000):
            err(f"Failed to validate request {n}\\n")
        if role == "dies":
            raise SystemExit("no KEY was given")
        if role == "dies-once" and not os.path.exists(sys.argv[2]):
            open(sys.argv[2], "w").close()
            sys.exit(1)
        answer(message, error={"code": -32601, "message": "Method not found"})
    elif message["method"] == "initialize":
        if role == "hangs":
            err("waiting for the database \\x1b[31mat db:5432\\n")
            continue
        err("still validating\\nbegin of a line")
        answer(message, result=WELCOME)
    elif message["method"] == "tools/list":
        err("listed\\n")
        answer(message, result={"tools": []})
"""


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    negotiation.SHARED_ERAS.clear()


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, "-S", str(tmp_path / "program.py")]


async def test_stderr_from_before_the_handshake_is_not_shown(
    program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(10):  # what is still in the pipe when the answer arrives belongs to the start too
        async with Client([*program, "noisy"], eras=negotiation.EraCache()) as client:
            await client.tools()
        assert capfd.readouterr().err == "listed\n"


async def test_the_error_of_a_failed_start_has_the_last_lines_of_stderr_and_nothing_else_is_shown(
    program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectionLost) as caught:
        async with Client([*program, "dies"], revision="2026-07-28"):
            pass
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("' exited with code 1; the last lines of its stderr:")
    assert lines[-2:] == ["Failed to validate request 1999", "no KEY was given"]
    assert len(lines) == 8
    assert capfd.readouterr().err == ""


async def test_stderr_of_a_server_that_is_restarted_during_the_start_is_not_shown(
    program: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with Client([*program, "dies-once", str(tmp_path / "died")]) as client:
        await client.tools()
    assert capfd.readouterr().err == "listed\n"


async def test_a_cancelled_start_shows_the_stderr_that_was_held_back(
    program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    client = Client([*program, "hangs"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.open(), 1)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("Failed to validate request"), "the oldest lines are dropped"
    assert lines[-1] == "waiting for the database \x1b[31mat db:5432"


async def test_on_stderr_gets_every_line_at_once(program: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    async with Client([*program, "noisy"], on_stderr=lines.append) as client:
        await client.tools()
    assert lines[0] == "booting"
    assert "Failed to validate request 1999" in lines
    assert lines[-1] == "begin of a linelisted"
    assert capfd.readouterr().err == ""


async def test_a_start_that_times_out_shows_the_last_lines_of_stderr(
    program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Timeout) as caught:
        async with Client([*program, "hangs"], timeout=2):
            pass
    text = str(caught.value)
    assert text.startswith("No answer to initialize within 2 s; the last lines of its stderr:\n")
    assert text.endswith("\nwaiting for the database at db:5432"), "without its escape sequences"
    assert capfd.readouterr().err == ""


async def test_stderr_is_held_back_within_a_bound(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = tmp_path / "done"
    code = (
        "import sys; sys.stderr.write('x' * 999 + '\\n'); sys.stderr.write(('y' * 999 + '\\n') * 5000)\n"
        f"open({str(done)!r}, 'w').close(); sys.stdin.read()"
    )
    opening = asyncio.create_task(Client([sys.executable, "-S", "-c", code]).open())
    while not done.exists():
        await asyncio.sleep(0.02)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    shown = capfd.readouterr().err
    assert 100_000 < len(shown) <= 256 * 1024
    assert "x" * 999 not in shown


async def test_a_line_that_is_no_message_is_logged_with_the_server_and_the_line(
    program: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dovetail"):
        async with Client([*program, "prints"]) as client:
            await client.tools()
    [record] = [record.getMessage() for record in caplog.records]
    assert record.startswith("The server '")
    assert "program.py prints' sent something that is no message (Parse error: " in record
    assert "'Listening on stdio, token=" in record
    assert "hunter2" not in record and "\x1b" not in record


async def test_a_long_line_that_is_no_message_is_logged_in_part(caplog: pytest.LogCaptureFixture) -> None:
    code = PROGRAM.replace('os.write(1, b"\\x1b', 'os.write(1, b"z" * 100_000 + b"\\x1b')
    with caplog.at_level(logging.WARNING, "dovetail"):
        async with Client([sys.executable, "-S", "-c", code, "prints"]) as client:
            await client.tools()
    [record] = [record.getMessage() for record in caplog.records]
    assert "z" * 200 in record
    assert len(record) < 600


@pytest.mark.parametrize("ends", [True, False])
async def test_the_error_of_a_failed_start_has_what_was_printed_to_stdout(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    prints = "print('Hello \\x1b[31mworld' + 'z' * 1000); print(); print('token=hunter2hunter2', flush=True)"
    code = prints if ends else f"{prints}; input(); input(); input()"
    with pytest.raises((ConnectionLost, Timeout)) as caught:
        async with Client([sys.executable, "-S", "-c", code], timeout=1):
            pass
    first, hello, token = str(caught.value).splitlines()
    assert first.endswith("; it printed to stdout, which is for MCP messages only:")
    assert hello.startswith("Hello worldzzz") and len(hello) < 210
    assert "hunter2" not in token
    assert not caplog.records


async def test_a_program_that_ends_without_reading_is_started_once(tmp_path: Path) -> None:
    count = tmp_path / "count"
    code = f"open({str(count)!r}, 'a').write('x'); raise SystemExit(3)"
    with pytest.raises(ConnectionLost, match="exited with code 3"):
        async with Client([sys.executable, "-S", "-c", code]):
            pass
    assert os.path.getsize(count) == 1, "not with the handshake again: it did not even read the probe"


@pytest.mark.parametrize("call", ["async with Client(COMMAND): pass", "with Client.blocking(COMMAND): pass"])
def test_an_error_at_the_start_has_few_frames_of_ours(call: str, tmp_path: Path) -> None:
    code = f"import asyncio\nfrom dovetail import Client\nCOMMAND = {[sys.executable, '-S', '-c', '1/0']!r}\n"
    if call.startswith("async"):
        code += f"async def main():\n    {call}\nasyncio.run(main())\n"
    else:
        code += call
    (tmp_path / "program.py").write_text(code)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60)
    ours = [line for line in done.stderr.splitlines() if line.startswith("  File") and "/dovetail/" in line]
    assert len(ours) <= 3, done.stderr
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
