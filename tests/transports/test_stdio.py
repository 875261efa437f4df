"""Standard streams that are claimed for the protocol; in a process of its own, since there is one set of them."""

import os
import subprocess
import sys
import textwrap

from tests.support.raw import PATIENCE

PRELUDE = """
import asyncio, os, subprocess, sys
from dovetail.transports.stdio import StdioChannel, replace_closed_standard_streams

class Echo:
    def __init__(self, channel):
        self.channel, self.ended = channel, asyncio.get_running_loop().create_future()
    def received(self, line):
        self.channel.send(b"got " + line)
    def overlong(self, line):
        self.channel.send(b"overlong %d" % line.size)
    def disconnected(self, reason):
        self.ended.set_result(reason)

def same(a, b):
    return os.path.samestat(os.fstat(a), os.fstat(b))
"""


def run(code: str, given: bytes = b"", *, merged: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run some code as the body of a coroutine, with pipes for its streams."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    program = f"{PRELUDE}\nasync def main():\n{body}\nasyncio.run(main())"
    stderr = subprocess.STDOUT if merged else subprocess.PIPE
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, stdout=subprocess.PIPE, stderr=stderr, timeout=PATIENCE
    )
    assert done.returncode == 0, done
    return done


def test_lines_are_received_and_sent_until_the_end() -> None:
    code = """
        channel = StdioChannel(max_line=10)
        echo = Echo(channel)
        channel.open(echo)
        assert await echo.ended is None
        await channel.close()
    """
    done = run(code, b"one\r\n\n" + b"x" * 1000 + b"\nlast")
    assert done.stdout == b"got one\noverlong 1000\ngot last\n"
    assert done.stderr == b""


def test_print_goes_to_stderr_while_the_channel_is_open() -> None:
    code = """
        print("before")
        channel = StdioChannel()
        channel.open(Echo(channel))
        print("printed", flush=True)
        os.write(1, b"written\\n")
        subprocess.run(["/bin/echo", "child"])
        channel.send(b"message")
        await channel.close()
        print("after")
    """
    done = run(code)
    assert done.stdout == b"before\nmessage\nafter\n"
    note, *printed = done.stderr.decode().splitlines()
    assert note.startswith("note: <string>:")
    assert note.endswith(" prints to stdout, which carries messages; prints go to stderr.")
    assert printed == ["printed", "written", "child"]


def test_stdin_is_empty_while_the_channel_is_open() -> None:
    code = """
        channel = StdioChannel()
        assert sys.stdin.read() == ""
        assert subprocess.run(["cat"], capture_output=True).stdout == b""
        echo = Echo(channel)
        channel.open(echo)
        await echo.ended
        await channel.close()
    """
    assert run(code, b"hello\n").stdout == b"got hello\n"


def test_closing_restores_the_standard_streams() -> None:
    code = """
        before = [os.fstat(0).st_ino, os.fstat(1).st_ino]
        channel = StdioChannel()
        assert same(1, 2)
        channel.open(Echo(channel))
        await channel.close()
        await channel.close()
        assert [os.fstat(0).st_ino, os.fstat(1).st_ino] == before
        assert os.get_blocking(0) and os.get_blocking(1)
        assert len(os.listdir("/proc/self/fd")) == 3 + 1 + 3, os.listdir("/proc/self/fd")
    """
    run(code)


def test_child_processes_do_not_inherit_the_protocol_streams() -> None:
    code = """
        channel = StdioChannel()
        streams = {os.readlink(f"/proc/self/fd/{fd}") for fd in (channel._input, channel._output)}
        listing = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True).stdout
        assert not any(stream in listing for stream in streams), (streams, listing)
        await channel.close()
    """
    run(code)


def test_stderr_stays_blocking_also_where_it_is_stdout() -> None:
    code = """
        channel = StdioChannel()
        channel.open(Echo(channel))
        channel.send(b"message")
        assert os.get_blocking(2)
        await channel.close()
        assert os.get_blocking(1) and os.get_blocking(2)
    """
    assert run(code, merged=True).stdout == b"message\n"
    assert run(code).stdout == b"message\n"


def test_a_client_that_stops_reading_disconnects_with_a_reason() -> None:
    code = """
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        channel = StdioChannel()
        echo = Echo(channel)
        channel.open(echo)
        os.close(reading)
        channel.send(b"to nobody")
        assert "writing failed" in await echo.ended
        await channel.close()
    """
    run(code)


def test_closed_standard_streams_are_replaced_by_the_null_device() -> None:
    code = """
        for fd in (0, 2):
            os.close(fd)
        replace_closed_standard_streams()
        assert os.readlink("/proc/self/fd/0") == os.readlink("/proc/self/fd/2") == os.devnull
        assert os.get_inheritable(0) and os.get_inheritable(2)
        os.write(1, b"untouched")
    """
    assert run(code).stdout == b"untouched"


def test_open_standard_streams_are_not_replaced() -> None:
    code = """
        before = [os.fstat(fd) for fd in (0, 1, 2)]
        replace_closed_standard_streams()
        assert [os.fstat(fd) for fd in (0, 1, 2)] == before
    """
    run(code)
    assert os.fstat(0)
