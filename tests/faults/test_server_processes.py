"""Processes that a client starts: they end with it, in order, whatever they do, and whatever ends us."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dovetail import Client, ConnectionLost, LocalError, Timeout
from tests.faults.conftest import NASTY, SERVERS
from tests.support.raw import HANDSHAKE, PATIENCE, alive, children, eventually, script
from tests.support.tidy import nothing_left, nothing_left_on_the_loop


def bad(name: str, *arguments: str) -> list[str]:
    return script(SERVERS / "bad.py", name, *arguments)


class TestClosing:
    """End of input, then SIGTERM, then SIGKILL, each only when the one before was not enough."""

    async def ended_by(self, note: Path, *habits: str) -> str:
        """What a server with some habits saw of its end."""
        async with nothing_left_on_the_loop():
            client = Client(bad("notes_its_end", *habits), revision=HANDSHAKE, env={"NOTE": str(note)})
            await client.open()
            await client.close()
        return note.read_text()

    async def test_the_end_of_input_comes_first(self, tmp_path: Path) -> None:
        assert await self.ended_by(tmp_path / "note") == "EOF\n"

    async def test_a_server_that_ignores_it_gets_sigterm(self, tmp_path: Path) -> None:
        assert await self.ended_by(tmp_path / "note", "ignore_eof") == "EOF\nSIGTERM\n"

    async def test_a_server_that_ignores_both_gets_sigkill(self, tmp_path: Path) -> None:
        seen = await self.ended_by(tmp_path / "note", "ignore_eof", "ignore_sigterm")
        assert seen == "EOF\nSIGTERM\n", "and yet it is gone"

    async def test_what_a_server_has_started_ends_with_it(self) -> None:
        async with Client(bad("has_grandchildren"), revision=HANDSHAKE) as client:
            grandchild = int((await client.call("any")).text)
            assert alive(grandchild)
        eventually(lambda: not alive(grandchild), "the grandchild has ended")

    async def test_what_a_dead_server_has_started_ends_as_well(self) -> None:
        client = Client(bad("has_grandchildren"), revision=HANDSHAKE)
        await client.open()
        grandchild = int((await client.call("any")).text)
        (server,) = servers()
        os.kill(server, signal.SIGKILL)
        with pytest.raises((ConnectionLost, Timeout)):  # the grandchild holds the pipe open
            await client.call("any", timeout=0.5)
        await client.close()
        eventually(lambda: not alive(grandchild), "the grandchild has ended")

    async def test_a_server_of_ours_leaves_its_lifespan(self) -> None:
        written: list[str] = []
        client = Client(script(SERVERS / "lived.py"), on_stderr=written.append)
        await client.open()
        await client.close()
        assert " ".join(written).split() == ["entered", "left"]


def servers() -> list[int]:
    """Servers that this process has started, without their guards."""
    return [pid for pid in children(os.getpid()) if "bad.py" in _command(pid)]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


class TestStderr:
    async def test_it_is_forwarded_line_by_line(self, capfd: pytest.CaptureFixture[str]) -> None:
        async with Client(bad("writes_to_stderr"), revision=HANDSHAKE) as client:
            assert (await client.call("any")).text == "written"
        lines = capfd.readouterr().err.splitlines()
        assert lines[0] == "plain words"
        assert lines[1] == "bytes \ufffd that are no text"
        assert lines[2] == "[300000 bytes]", "a line without end must not fill the memory"
        assert lines[3] == "after the long line"

    async def test_the_last_words_are_forwarded_too(self, capfd: pytest.CaptureFixture[str]) -> None:
        async with Client(bad("says_goodbye"), revision=HANDSHAKE):
            pass
        assert capfd.readouterr().err == "".join(f"goodbye {n}\n" for n in range(2000))

    async def test_a_handler_s_print_arrives_there(self, capfd: pytest.CaptureFixture[str]) -> None:
        async with Client(NASTY) as client:
            await client.call("say", text="hello")
        assert "print hello\n" in capfd.readouterr().err

    async def test_a_closed_stderr_of_ours_does_no_harm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", None)
        async with Client(bad("writes_to_stderr"), revision=HANDSHAKE) as client:
            assert (await client.call("any")).text == "written"


class TestAParentThatEnds:
    """A Python process that uses our client: however it ends, no server is left behind."""

    COMMANDS = pytest.mark.parametrize(
        "command",
        [
            pytest.param(NASTY, id="our own"),
            pytest.param(bad("ignores_eof"), id="one that ignores the end of input"),
            pytest.param(bad("ignores_eof_and_sigterm"), id="one that ignores SIGTERM too"),
            pytest.param(bad("has_grandchildren"), id="one with children of its own"),
        ],
    )

    @contextlib.contextmanager
    def connected(self, command: list[str], how: str = "wait") -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
        """The parent, and every process that it has started."""
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        arguments = script(SERVERS / "parent.py", how, *command)
        with subprocess.Popen(arguments, stdin=null, stdout=pipe, stderr=null, text=True) as parent:
            try:
                assert parent.stdout is not None
                assert parent.stdout.readline() == "connected\n"
                yield parent, descendants(parent.pid)
            finally:
                parent.kill()

    @COMMANDS
    def test_a_parent_killed_by_sigkill_leaves_no_server(self, command: list[str]) -> None:
        with self.connected(command) as (parent, started):
            assert len(started) >= 2, "the server and its guard"
            parent.kill()
            parent.wait(PATIENCE)
            for pid in started:
                eventually(lambda pid=pid: not alive(pid), f"{pid} has ended")

    @COMMANDS
    def test_a_parent_ended_by_ctrl_c_leaves_no_server(self, command: list[str]) -> None:
        with self.connected(command) as (parent, started):
            parent.send_signal(signal.SIGINT)
            parent.wait(PATIENCE)
            for pid in started:
                eventually(lambda pid=pid: not alive(pid), f"{pid} has ended")

    def test_a_process_group_killed_by_sigkill_leaves_no_server(self) -> None:
        """As a terminal does it that is closed: the guard is not of that group."""
        arguments = script(SERVERS / "parent.py", "wait", *bad("ignores_eof_and_sigterm"))
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "connected\n"
            started = descendants(parent.pid)
            os.killpg(parent.pid, signal.SIGKILL)
        for pid in started:
            eventually(lambda pid=pid: not alive(pid), f"{pid} has ended")

    def test_a_parent_that_exits_without_closing_leaves_no_server(self) -> None:
        marker = f"#{os.getpid()}"
        arguments = script(SERVERS / "parent.py", "exit", *bad("ignores_eof_and_sigterm", marker))
        subprocess.run(arguments, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)
        eventually(lambda: not _with_argument(marker), "the server has ended")


def descendants(pid: int) -> list[int]:
    """Every living process below one."""
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def _with_argument(word: str) -> list[str]:
    """The processes that were started with an argument."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes().split(b"\0") and alive(int(path.parent.name)):
                found.append(path.parent.name)
    return found


class TestTheBlockingClient:
    def test_it_leaves_nothing_behind(self) -> None:
        with nothing_left(), Client.blocking(NASTY) as client:
            assert client.call("echo", text="hi").data == "hi"

    def test_an_error_while_opening_leaves_nothing_behind(self) -> None:
        with nothing_left(), pytest.raises(ConnectionLost, match="no database"):
            Client.blocking(bad("exits_at_once")).open()

    def test_a_server_that_never_answers_is_a_timeout(self) -> None:
        with nothing_left(), pytest.raises(Timeout):
            Client.blocking(bad("never_answers"), revision=HANDSHAKE, timeout=0.5).open()

    def test_closing_twice_is_fine_and_opening_again_too(self) -> None:
        with nothing_left():
            client = Client.blocking(NASTY)
            for _ in range(2):
                client.open()
                assert client.call("echo", text="hi").data == "hi"
                client.close()
                client.close()

    def test_calling_after_closing_is_a_mistake(self) -> None:
        client = Client.blocking(NASTY)
        with client:
            pass
        with pytest.raises(LocalError):
            client.call("echo", text="hi")

    def test_it_may_be_used_by_many_threads(self) -> None:
        with nothing_left(), Client.blocking(NASTY) as client, ThreadPoolExecutor(8) as threads:
            results = threads.map(lambda n: client.call("echo", text=str(n)).data, range(100))
            assert list(results) == [str(n) for n in range(100)]

    def interrupt(self, where: str, command: list[str]) -> tuple[list[str], list[int]]:
        """Press Ctrl-C; return what the program said afterwards and the processes that are left."""
        pipe = subprocess.PIPE
        arguments = script(SERVERS / "interrupted.py", where, *command)
        with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stderr is not None
            if where == "open":  # what a server writes while it starts is held back
                eventually(lambda: bool(children(program.pid)), "the server was started")
            else:
                assert program.stderr.readline() == "waiting\n"
            said: list[str] = []
            program.send_signal(signal.SIGINT)
            while (line := program.stdout.readline()) not in ("done\n", ""):
                said.append(line.rstrip())
            left = children(program.pid)
            program.stdin.close()
            assert program.wait(PATIENCE) == 0
        return said, left

    def test_ctrl_c_during_a_call_stops_it_at_the_server_and_the_client_works_on(self) -> None:
        assert self.interrupt("call", NASTY) == (["interrupted", "['wait_for_ever']"], [])

    def test_ctrl_c_while_opening_leaves_nothing_behind(self) -> None:
        assert self.interrupt("open", bad("never_answers")) == (["interrupted"], [])
