"""`dovetail dev FILE`: the author's loop, with a real terminal and without one."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoke import COMMAND, dovetail, environment
from tests.support.emulated import Emulated
from tests.support.raw import PATIENCE, alive, children, eventually

SERVER = """
from dovetail import Server

server = Server("inn", version="1.0.0")


@server.tool
def price(nights: int) -> int:
    '''What a stay costs.'''
    return nights * 80


@server.resource("inn://menu")
def menu() -> str:
    '''What there is to eat.'''
    return "Soup."


@server.prompt
def invite(guest: str) -> str:
    '''Invite a guest.'''
    return f"Invite {guest}."
"""

GREET = """

@server.tool
def greet(name: str) -> str:
    '''Greet a guest.'''
    return f"Hello {name}"
"""


@pytest.fixture
def inn(tmp_path: Path) -> Path:
    path = tmp_path / "inn.py"
    path.write_text(SERVER)
    return path


def save(path: Path, text: str) -> None:
    """Replace the file in one step: a scan in between must not see an empty one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


class Piped:
    """`dovetail dev` with pipes, which stays open."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "dev", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(PYTHONUNBUFFERED="1"),
        )

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, text: str) -> str:
        seen = ""
        assert self.process.stdout is not None
        while text not in seen:
            line = self.process.stdout.readline()
            assert line, f"{text!r} is not in {seen}"
            seen += line
        return seen

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def piped(inn: Path) -> Iterator[Piped]:
    dev = Piped(inn)
    yield dev
    dev.kill()


class AtDev(Emulated):
    """`dovetail dev` at a terminal."""

    def __init__(self, path: Path, columns: int = 80) -> None:
        super().__init__([*COMMAND, "dev", str(path)], environment(), columns=columns, lines=30)

    def until_prompt(self) -> None:
        self.until_true(lambda: self.screen.rpartition("\n")[2] == "dev>", "an empty prompt")

    def say(self, text: str) -> None:
        """Type a line at the prompt."""
        self.until_prompt()
        self.type(text)
        self.until(f"dev> {text}")
        self.type("\r")


@pytest.mark.slow
def test_a_tool_that_was_written_while_it_runs_is_called_by_form(inn: Path) -> None:
    with AtDev(inn) as dev:
        dev.until("inn on 2026-07-28: 1 tool, 1 resource, 1 prompt.")
        dev.until_prompt()
        save(inn, SERVER + GREET)
        dev.until("+ greet(name: str) -> str")
        dev.say("greet")
        dev.until("name (string):")
        dev.type("Ann\r")
        dev.until('"name": "Ann"')
        dev.until("cancel")
        dev.type("y")
        dev.until("Hello Ann")
        dev.until("tools/call greet")
        started = list(children(dev.process.pid))
        assert started
        dev.until_prompt()
        dev.type("\x03")
        dev.until("Press Ctrl-C again")
        dev.type("\x03")
        assert dev.end() == 0
        eventually(lambda: not any(map(alive, started)), "the server has ended")


def test_arguments_after_two_dashes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "inn.py"
    path.write_text(SERVER.replace("return nights * 80", "import sys; return nights * int(sys.argv[2])"))
    done = dovetail("dev", str(path), "--", "--price", "70", stdin="price nights=2\n")
    assert "  | 140\n" in done.out, done.out + done.err


def test_commands_from_a_pipe_are_run_and_then_it_ends(inn: Path) -> None:
    words = (
        "price nights=2\n/resources inn://menu\n/prompts invite guest=Ann\n/traffic 1\nprce\n/tols\nprice nights=x\n"
    )
    done = dovetail("dev", str(inn), stdin=words)
    assert done.code == 0, done.err
    assert re.search(r"inn:1 +-> tools/call price +ok +[\d.]+ m?s +\d+ B\n  \| 160\n", done.out), done.out
    assert "  | Soup.\n" in done.out and "  user:\n  | Invite Ann.\n" in done.out
    assert '"method": "server/discover"' in done.out
    assert "there is no tool prce; did you mean price?" in done.out
    assert "there is no command /tols; did you mean /tools?" in done.out
    assert 'price does not take this: nights: must be of type integer, not the string "x"' in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines() if " -> " in line)


def test_a_syntax_error_is_shown_once_and_the_old_version_goes_on(inn: Path, piped: Piped) -> None:
    piped.until("/help the commands")
    save(inn, "def broken(:\n")
    seen = piped.until("The version before goes on")
    assert seen.count("! ") == 1 and "inn.py" in seen and "Traceback" not in seen
    piped.type("price nights=1")
    piped.until("| 80")
    save(inn, SERVER.replace("80", "90"))
    piped.until("the interface is unchanged")
    piped.type("price nights=1")
    piped.until("| 90")


def test_a_file_that_does_not_start_is_waited_for(inn: Path) -> None:
    inn.write_text(SERVER + "\nraise RuntimeError('not today')\n")
    dev = Piped(inn)
    try:
        seen = dev.until("Waiting; save the file to try again.")
        assert seen.count("RuntimeError: not today") == 1
        save(inn, SERVER)
        dev.until("prompts/list")
        dev.type("price nights=1")
        dev.until("| 80")
    finally:
        dev.kill()


def test_a_signal_ends_it_and_its_server(inn: Path, piped: Piped) -> None:
    piped.until("/help the commands")
    started = list(children(piped.process.pid))
    assert started
    piped.process.send_signal(signal.SIGINT)
    assert piped.process.wait(PATIENCE) == 0
    eventually(lambda: not any(map(alive, started)), "the server has ended")
    assert piped.process.stdout is not None and "Traceback" not in piped.process.stdout.read()


def test_without_any_input_it_goes_on(inn: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "dev", str(inn)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    while "/help the commands" not in process.stdout.readline():
        assert process.poll() is None
    save(inn, SERVER + GREET)
    while "+ greet(name: str) -> str" not in process.stdout.readline():
        assert process.poll() is None
    process.terminate()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere.py"], "There is no file nowhere.py"),
        (["https://example.com/mcp"], "dev takes a Python file"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(words: list[str], complaint: str) -> None:
    done = dovetail("dev", *words)
    assert done.code == 1 and complaint in done.err
