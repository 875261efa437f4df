"""What a server does with its standard streams: framing, back-pressure, and leaving them alone for others."""

import fcntl
import json
import os
import select
import socket
import subprocess
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.protocol.peer import MAX_IN_FLIGHT
from tests.faults.conftest import NASTY, SERVERS
from tests.support.raw import ENVELOPE, ENVELOPE_META, HANDSHAKE, PATIENCE, RawServer, eventually, memory, script

MANY = 30_000
PAYLOAD = 100_000
GROWTH = 25
"""MB that a server may grow by while nobody reads; without back-pressure it would be hundreds."""


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def ping(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


class TestFraming:
    def test_crlf_ends_a_line_as_well(self, still_working_server: RawServer) -> None:
        still_working_server.write(lines(still_working_server.tool(1, "echo", text="hi")).replace(b"\n", b"\r\n"))
        assert still_working_server.message()["id"] == 1

    def test_blank_lines_mean_nothing(self, still_working_server: RawServer) -> None:
        still_working_server.write(b"\n\r\n\n" + lines(still_working_server.tool(1, "echo", text="hi")) + b"\n\r\n")
        assert still_working_server.message()["id"] == 1

    def test_blanks_around_a_message_mean_nothing(self, still_working_server: RawServer) -> None:
        still_working_server.write(b" \t" + lines(still_working_server.tool(1, "echo", text="hi")).rstrip() + b" \t\n")
        assert still_working_server.message()["id"] == 1

    def test_a_message_may_arrive_byte_by_byte(self, still_working_server: RawServer) -> None:
        for byte in lines(still_working_server.tool(1, "echo", text="hä")):
            still_working_server.write(bytes([byte]))
        assert still_working_server.message()["result"]["content"][0]["text"] == "hä"

    def test_many_messages_may_arrive_at_once(self, still_working_server: RawServer) -> None:
        still_working_server.send(*(still_working_server.tool(n, "echo", text=str(n)) for n in range(200)))
        assert {still_working_server.message()["id"] for _ in range(200)} == set(range(200))

    def test_the_last_line_needs_no_newline(self, fresh_server: RawServer) -> None:
        fresh_server.write(lines(fresh_server.tool(1, "echo", text="last")).rstrip())
        fresh_server.close_input()
        assert fresh_server.message()["result"]["content"][0]["text"] == "last"

    def test_a_newline_inside_a_text_never_breaks_a_line(self, still_working_server: RawServer) -> None:
        text = "one\ntwo\r\nthree\u2028four\u0085"
        assert still_working_server.call("echo", text=text)["content"][0]["text"] == text


class TestAReaderThatStopsReading:
    """The server waits with it; what was asked for before is answered as soon as it reads again."""

    def test_progress_does_not_pile_up(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.still_works()
        before = memory(server.pid)
        server.send(server.tool(1, "flood_progress", progress_token=1, count=200_000))
        eventually(lambda: at_rest(server), "the server waits")
        assert memory(server.pid) - before < GROWTH
        values: list[float] = []
        while (message := server.message()).get("id") != 1:
            values.append(message["params"]["progress"])
        assert values == sorted(set(values))
        assert values[-1] == 200_000, "the newest value is told before the answer"

    def test_answers_of_tools_do_not_pile_up(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.still_works()
        before = memory(server.pid)
        asked = lines(*(server.tool(n, "large", size=PAYLOAD) for n in range(MANY)))
        written = write_until_it_waits(server, asked)
        assert memory(server.pid) - before < GROWTH
        answered = answers_to(server, asked, written)
        assert sum("result" in answer for answer in answered.values()) >= MAX_IN_FLIGHT

    def test_answers_that_are_there_at_once_do_not_pile_up(self, fresh_server: RawServer) -> None:
        server = fresh_server
        for n in range(20):
            server.call("add_tool", name=f"t{n}", size=PAYLOAD // 20)
        settle(server)
        before = memory(server.pid)
        asked = lines(*(server.request(n, "tools/list") for n in range(MANY)))
        write_until_it_waits(server, asked)
        assert memory(server.pid) - before < GROWTH
        server.process.terminate()
        server.rest()

    def test_notifications_do_not_pile_up(self, fresh_server: RawServer) -> None:
        server = fresh_server
        if server.revision == ENVELOPE:
            wanted = {"notifications": {"toolsListChanged": True}}
            server.send(server.request("s", "subscriptions/listen", wanted))
            assert server.message()["method"] == "notifications/subscriptions/acknowledged"
        server.send(server.tool(1, "flood_changes", count=2_000, ballast=5_000_000))
        eventually(lambda: at_rest(server), "the server waits")
        changes = 0
        while (message := server.message()).get("id") != 1:
            changes += message.get("method") == "notifications/tools/list_changed"
        settle(server)
        assert changes < 5, "changes that nobody reads are told together"
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}})

    def test_errors_do_not_pile_up(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.still_works()
        before = memory(server.pid)
        write_until_it_waits(server, b"x\n" * 5_000_000)
        assert memory(server.pid) - before < GROWTH
        server.process.terminate()
        server.rest()


def at_rest(server: RawServer) -> bool:
    """Whether the process used no CPU time for a moment."""

    def used() -> int:
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    select.select([], [], [], 0.2)
    return used() == before


def write_until_it_waits(server: RawServer, data: bytes) -> int:
    """Write without ever reading, until the server takes nothing more."""
    written = 0
    while (taken := server.write(data[written:], reading=False, patience=0.1)) or not at_rest(server):
        written += taken
        assert written < len(data), "a server that nobody reads from must stop reading"
    return written


def answers_to(server: RawServer, asked: bytes, written: int) -> dict[int, dict[str, Any]]:
    """Every answer to what was asked; a request that is only half written is completed first."""
    if asked[written - 1 : written] != b"\n":
        written += server.write(asked[written : asked.index(b"\n", written) + 1])
    count = asked[:written].count(b"\n")
    answers = {(answer := server.message())["id"]: answer for _ in range(count)}
    assert set(answers) == set(range(count))
    return answers


def settle(server: RawServer) -> None:
    """Read everything that is under way."""
    server.send(server.tool("settled", "echo", text="x"))
    server.answer("settled")
    server.still_works()


class TestOtherStreams:
    """stdin and stdout need not be pipes."""

    REQUESTS = lines(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": HANDSHAKE,
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(ping(n) for n in range(2, 1000)),
    )

    def check(self, output: bytes) -> None:
        assert [json.loads(line)["id"] for line in output.splitlines()] == list(range(1, 1000))

    def test_stdin_and_stdout_may_be_regular_files(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(self.REQUESTS)
        with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
            subprocess.run(NASTY, stdin=source, stdout=sink, timeout=PATIENCE, check=True)
        self.check((tmp_path / "out").read_bytes())

    def test_a_file_in_and_a_pipe_out(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(self.REQUESTS)
        with (tmp_path / "in").open("rb") as source:
            done = subprocess.run(NASTY, stdin=source, stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
        self.check(done.stdout)

    def test_stdin_and_stdout_may_be_sockets(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, subprocess.Popen(NASTY, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
            theirs.close()
            ours.settimeout(PATIENCE)
            ours.sendall(self.REQUESTS)
            ours.shutdown(socket.SHUT_WR)
            output = b"".join(iter(lambda: ours.recv(1 << 16), b""))
            assert process.wait(PATIENCE) == 0
        self.check(output)

    def test_stdin_and_stdout_may_be_a_terminal(self) -> None:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        try:
            with subprocess.Popen(NASTY, stdin=theirs, stdout=theirs, stderr=theirs) as process:
                try:
                    os.write(ours, lines(ping(1)))
                    # The terminal is stderr as well, where a word for the person who types may come first.
                    while not (line := _read_line(ours)).startswith(b"{"):
                        pass
                    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "result": {}}
                    assert not _nonblocking(theirs), "the terminal is everyone's"
                finally:
                    process.terminate()
                assert process.wait(PATIENCE) == 0
        finally:
            os.close(ours)
            os.close(theirs)

    def test_the_null_device_is_the_end(self) -> None:
        done = subprocess.run(NASTY, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    @pytest.mark.parametrize(
        ("closed", "answered"), [("<&-", False), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)]
    )
    def test_a_stream_that_is_closed_is_no_reason_to_crash(self, closed: str, answered: bool) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *NASTY],
            input=lines(ping(1)),
            capture_output=True,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == (b'{"jsonrpc":"2.0","id":1,"result":{}}\n' if answered else b"")


def _read_line(fd: int) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        assert select.select([fd], [], [], PATIENCE)[0], f"no whole line: {data!r}"
        data += os.read(fd, 1)
    return data


def _nonblocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


class TestNonBlockingMode:
    """It belongs to the open file, which others may share; it must not reach them."""

    @pytest.fixture
    def pipe(self) -> Iterator[tuple[int, int]]:
        ends = os.pipe()
        yield ends
        for end in ends:
            os.close(end)

    def test_stderr_stays_blocking_where_it_is_the_same_pipe_as_stdout(self, pipe: tuple[int, int]) -> None:
        reading, writing = pipe
        with subprocess.Popen(NASTY, stdin=subprocess.PIPE, stdout=writing, stderr=writing) as process:
            assert process.stdin is not None
            process.stdin.write(lines(ping(1)))
            process.stdin.flush()
            assert json.loads(_read_line(reading))["id"] == 1
            assert not _nonblocking(writing)
            process.stdin.close()
            assert process.wait(PATIENCE) == 0

    def test_a_handler_can_log_more_than_the_pipe_holds(self) -> None:
        with subprocess.Popen(
            NASTY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            params = {"name": "log", "arguments": {"size": 1_000_000}, "_meta": ENVELOPE_META}
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            output, _ = process.communicate(lines(ping(1), call), timeout=PATIENCE)
        assert process.returncode == 0
        # An answer may come in between, as it may in every file that two write to; nothing is lost.
        assert output.count(b"y") >= 1_000_000
        assert b'"logged"' in output

    def test_the_streams_are_given_back_as_they_were(self, pipe: tuple[int, int]) -> None:
        reading, writing = pipe
        with subprocess.Popen(NASTY, stdin=subprocess.PIPE, stdout=writing) as process:
            process.communicate(lines(ping(1)), timeout=PATIENCE)
            assert json.loads(_read_line(reading))["id"] == 1
            assert not _nonblocking(writing)

    def test_after_the_end_stdout_is_the_script_s_own_again(self) -> None:
        done = subprocess.run(
            script(SERVERS / "afterwards.py"), input=lines(ping(1)), capture_output=True, timeout=PATIENCE
        )
        assert done.returncode == 0
        assert [json.loads(done.stdout.splitlines()[0])["id"], *done.stdout.splitlines()[1:]] == [
            1,
            b"afterwards",
        ]
        note, text = done.stderr.splitlines()
        assert note.startswith(b"note: ")
        assert text == b"meanwhile"
