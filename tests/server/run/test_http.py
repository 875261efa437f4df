"""`server.run("http")`: where it listens, what it says, and what uvicorn is told."""

import contextlib
import http.client
import io
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail import Server
from dovetail.protocol.errors import LocalError
from dovetail.server.run import http as run_http
from dovetail.server.run.connection_limits import MAX_HEAD_BYTES
from dovetail.server.run.sockets import CannotListen, reports_bind_errors_in_one_line
from tests.support.http import free_port, listening
from tests.support.http_process import BOTH, HttpProcess
from tests.support.raw import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
from dovetail import Server
server = Server("inn")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

server.run("http", **{options!r})
print("after")
"""


def start(options: dict[str, object], before: str = "") -> list[str]:
    return [sys.executable, "-c", before + PROGRAM.format(options=options)]


def program(**options: object) -> HttpProcess:
    return HttpProcess("", command=start({"port": 0, **options}))


@pytest.fixture(scope="module")
def inn() -> Iterator[HttpProcess]:
    with program(max_body=100_000) as server:
        yield server


def exchange(server: HttpProcess, data: bytes) -> bytes:
    """Everything that comes back for some bytes."""
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as sock:
        with contextlib.suppress(ConnectionError):  # cut off in the middle
            sock.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                answer += part
        return answer


def test_the_announced_address_serves(inn: HttpProcess) -> None:
    assert inn.host == "127.0.0.1" and inn.port > 0
    assert inn.stderr == f"inn serves MCP at http://127.0.0.1:{inn.port}/mcp; Ctrl-C ends it.\n"
    [answer] = inn.client().call("add", a=1, b=2).messages()
    assert answer["result"]["structuredContent"] == {"result": 3}


def test_the_address_is_announced_for_a_given_port_too() -> None:
    port = free_port()
    with HttpProcess("", command=start({"port": port}), port=port) as server:
        eventually(lambda: server.stderr, "the address is announced")
        assert server.stderr == f"inn serves MCP at http://127.0.0.1:{port}/mcp; Ctrl-C ends it.\n"


def test_responses_have_a_date_and_do_not_name_the_web_server(inn: HttpProcess) -> None:
    connection = inn.connect()
    connection.request("GET", "/health")
    response = connection.getresponse()
    response.read()
    assert response.getheader("date") and response.getheader("server") is None
    connection.close()


def test_the_server_runs_on_uvloop_and_httptools_without_importing_websockets() -> None:
    code = """
@server.tool
def libraries() -> list[str]:
    import asyncio, sys
    return sorted({"uvloop", "httptools", "websockets"} & set(sys.modules))
"""
    command = [*start({"port": 0})[:2], PROGRAM.format(options={"port": 0}).replace("server.run", code + "server.run")]
    with HttpProcess("", command=command) as server:
        [answer] = server.client().call("libraries").messages()
        assert answer["result"]["structuredContent"] == {"result": ["httptools", "uvloop"]}


def test_the_program_continues_after_run_and_exits_with_code_0() -> None:
    port = free_port()
    command = start({"port": port, "host": "localhost"})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:

        def health() -> bool:
            connection = http.client.HTTPConnection("localhost", port, timeout=PATIENCE)
            with contextlib.suppress(OSError), contextlib.closing(connection):
                connection.request("GET", "/health")
                return connection.getresponse().read() != b""
            return False

        eventually(health, "it serves")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "after\n")
    assert err == f"inn serves MCP at http://127.0.0.1:{port}/mcp; Ctrl-C ends it.\n"


def test_a_port_that_is_taken_is_one_line_and_exit_code_1() -> None:
    with listening() as taken:
        for workers in (1, 2):
            port = taken.getsockname()[1]
            command = start({"port": port, "workers": workers})
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 1
            assert done.stderr == f"Cannot listen at 127.0.0.1 port {port}: Address already in use\n"


def test_two_worker_pools_do_not_share_a_port() -> None:
    with program(workers=2) as server:
        done = subprocess.run(
            start({"port": server.port, "workers": 2}), capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 1 and "Address already in use" in done.stderr


def test_a_program_can_catch_the_error_of_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # restored at the end
    with listening() as taken:
        for _ in range(2):
            with pytest.raises(LocalError, match="Address already in use") as caught:
                Server("inn").run("http", port=taken.getsockname()[1])
            assert caught.type is CannotListen and not issubclass(CannotListen, SystemExit)


def test_the_hook_for_a_port_that_is_taken_leaves_other_errors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, problem, trace: reported.append(str(problem)))
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with pytest.raises(CannotListen), reports_bind_errors_in_one_line():
        raise CannotListen("in use")
    for problem in (CannotListen("in use"), ValueError("something else")):
        sys.excepthook(type(problem), problem, None)
    assert reported == ["something else"] and written.getvalue() == "in use\n"


@pytest.mark.parametrize(
    ("transport", "options", "problem"),
    [
        ("http", {"prot": 1}, r"A server over HTTP has no option prot; did you mean port\?"),
        ("http", {"stateless_http": True}, "A server over HTTP has no option stateless_http; say sessions=False"),
        ("tcp", {"prot": 1}, r"A server over tcp has no option prot; did you mean port\?"),
        ("htpp", {}, r"There is no transport 'htpp'; there are stdio, http, unix and tcp; did you mean http\?"),
        ("http", {"path": "mcp"}, "begins with a slash"),
        ("http", {"host": "256.1.1.1"}, "256.1.1.1"),
        ("stdio", {"port": 1}, "over stdio has no option port"),
        ("tcp", {"path": "/mcp"}, "over tcp has no option path"),
        ("unix", {}, "needs a path"),
        ("carrier pigeon", {}, "there are stdio, http, unix and tcp"),
    ],
)
def test_an_impossible_option_is_a_local_error(transport: str, options: dict[str, object], problem: str) -> None:
    with pytest.raises(LocalError, match=problem):
        Server("inn").run(transport, **options)  # type: ignore[arg-type]


def test_a_missing_uvicorn_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(LocalError, match=r"needs the extra http: pip install 'dovetail-mcp\[http\]'"):
        Server("inn").run("http")


def test_a_lifespan_that_fails_is_logged_and_exits_with_code_1() -> None:
    before = (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def lifespan(server):\n"
        "    raise RuntimeError('no database')\n    yield\n"
    )
    command = start({"port": 0}, before)
    command[-1] = command[-1].replace('Server("inn")', 'Server("inn", lifespan=lifespan)')
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "no database" in done.stderr and "could not start" in done.stderr.splitlines()[-1]


def test_http_is_served_at_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "inn.sock"
    process = subprocess.Popen(start({"uds": str(path)}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with process:

        class Over(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.settimeout(PATIENCE)
                self.sock.connect(str(path))

        def asked() -> int:
            connection = Over("localhost")
            with contextlib.suppress(OSError), contextlib.closing(connection):
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                connection.request("POST", "/mcp", json.dumps(body), BOTH)
                response = connection.getresponse()
                response.read()
                return response.status
            return 0

        assert eventually(asked, "it serves") == 400  # a session is missing
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err == f"inn serves MCP at /mcp of the socket {path}; Ctrl-C ends it.\n"
    assert not path.exists()


class TestHosts:
    @pytest.mark.parametrize(
        ("host", "options", "warned"),
        [
            ("127.0.0.1", {}, False),
            ("::1", {}, False),
            ("localhost", {}, False),
            ("0.0.0.0", {}, True),
            ("", {}, True),
            ("::", {}, True),
            ("192.0.2.7", {}, True),
            ("inn.example", {}, True),
            ("0.0.0.0", {"allowed_hosts": ["inn.example"]}, False),
        ],
    )
    def test_an_address_that_other_machines_can_reach_is_warned_of(
        self, host: str, options: dict[str, list[str]], warned: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        run_http._warn_if_reachable(Server("inn")._core, host, run_http.Settings.of(options))  # type: ignore[arg-type]
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(lines) == warned
        if warned:
            assert "allowed_hosts" in lines[0] and "without authentication" in lines[0]
            assert (f"localhost or {host}" in lines[0]) == (host in ("192.0.2.7", "inn.example"))

    def test_with_auth_the_warning_does_not_mention_authentication(self, caplog: pytest.LogCaptureFixture) -> None:
        run_http._warn_if_reachable(Server("inn", auth=lambda token: None)._core, "0.0.0.0", run_http.Settings())
        assert "without authentication" not in caplog.text and "allowed_hosts" in caplog.text

    def test_a_foreign_host_is_refused(self, inn: HttpProcess) -> None:
        for host, status in (("localhost", 200), (f"127.0.0.1:{inn.port}", 200), ("evil.example", 421)):
            connection = inn.connect()
            connection.request("GET", "/health", headers={"host": host})
            assert connection.getresponse().status == status
            connection.drop()

    def test_listening_at_every_address_accepts_no_further_host(self) -> None:
        with program(host="0.0.0.0") as server:
            assert server.stderr.startswith("Other machines can reach 0.0.0.0, without authentication. ")
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", "/health", headers={"host": "inn.example"})
                assert b"allowed_hosts" in connection.getresponse().read()


class TestRequestHeads:
    """The head of a request is bounded before there is a request."""

    def test_a_head_that_never_ends_is_cut_off(self, inn: HttpProcess) -> None:
        head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n"
        for endless in (b"x: " + b"a" * 2 * MAX_HEAD_BYTES, b"x: y\r\n" * MAX_HEAD_BYTES):
            exchange(inn, head + endless)  # comes to an end, which is all that can be relied on
        exchange(inn, b"GET /" + b"a" * 2 * MAX_HEAD_BYTES)
        [answer] = inn.client().call("add", a=1, b=2).messages()
        assert answer["result"]["structuredContent"] == {"result": 3}

    def test_a_head_a_little_too_large_is_answered_by_the_application(self, inn: HttpProcess) -> None:
        head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: %b\r\n\r\n" % (b"a" * 40_000)
        assert exchange(inn, head).startswith(b"HTTP/1.1 431")

    def test_a_head_that_is_slow_or_never_comes_is_cut_off(self) -> None:
        before = "import dovetail.server.run.connection_limits as bounded\nbounded.HEAD_SECONDS = 0.3\n"
        with HttpProcess("", command=start({"port": 0}, before)) as server:
            for beginning in (b"", b"POST /mcp HTTP/1.1\r\nhost: loc"):
                started = time.monotonic()
                assert exchange(server, beginning) == b""
                assert time.monotonic() - started < 10
            # One that comes in parts, but in time, is served, and so is what comes after it.
            with socket.create_connection((server.host, server.port), timeout=PATIENCE) as sock:
                for _ in range(2):
                    sock.sendall(b"GET /health HTTP/1.1\r\nho")
                    time.sleep(0.05)  # parts that arrive together are no parts
                    sock.sendall(b"st: localhost\r\n\r\n")
                    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
                    time.sleep(0.5)  # longer than a head may take: an idle connection is no slow head

    def test_a_head_of_garbage_is_refused(self, inn: HttpProcess) -> None:
        assert exchange(inn, b"\x00\xff garbage\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_websocket_messages_have_the_limit_of_bodies(inn: HttpProcess) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    with connect(f"ws://{inn.host}:{inn.port}/mcp/ws", subprotocols=["mcp"]) as client:  # type: ignore[list-item]
        assert client.subprotocol == "mcp" and client.protocol.extensions == []
        client.send("x" * 100_001)
        with pytest.raises(ConnectionClosed) as closed:
            client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def test_run_serves_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "inn.sock"
    command = [sys.executable, "-c", PROGRAM.replace('"http", **{options!r}', f'"unix", path={str(path)!r}')]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        eventually(path.exists, "it listens")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            eventually(lambda: connected(sock, path), "it takes clients")
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert json.loads(sock.recv(65536))["id"] == 1
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def connected(sock: socket.socket, path: Path) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        sock.connect(str(path))
        return True
    return False
