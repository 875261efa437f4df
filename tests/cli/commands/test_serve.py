"""`dovetail serve`: the same files as `run`, over HTTP or at a Unix socket."""

import json
import signal
import socket
from pathlib import Path

import pytest

from dovetail.cli.options.candidates import FILES, candidates
from tests.cli.invoke import COMMAND, DESK, AtTerminal, dovetail
from tests.support.http import listening
from tests.support.http_process import HttpProcess
from tests.support.raw import ENVELOPE, ENVELOPE_META, PATIENCE, eventually

SERVER = """
from dovetail import Server
{name} = Server("{name}")

@{name}.tool
def version() -> str:
    return "{version}"
"""


def served(word: str | Path, *options: str) -> HttpProcess:
    return HttpProcess(word, *options)


def version(server: HttpProcess) -> str:
    [answer] = server.client(ENVELOPE).call("version").messages()
    return answer["result"]["content"][0]["text"]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_is_served_whatever_it_would_do_by_itself(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.py", SERVER.format(name="server", version="1"))
    with served(plain, "--http") as server:
        assert version(server) == "1"
    runs = write(tmp_path / "runs.py", SERVER.format(name="app", version="2") + "\napp.run()\n")
    with served(runs) as server:
        assert version(server) == "2"
    two = SERVER.format(name="first", version="3") + SERVER.format(name="second", version="4")
    with served(f"{write(tmp_path / 'two.py', two)}:second") as server:
        assert version(server) == "4"


def test_options_reach_the_server(tmp_path: Path) -> None:
    file = write(tmp_path / "one.py", SERVER.format(name="server", version="1"))
    store = tmp_path / "one.sqlite"
    options = ["--path", "/here", "--store", str(store), "--allow-host", "inn.example", "--allow-host", "b.example"]
    with served(file, *options) as server:
        assert server.path == "/here"
        assert server.client().session and store.exists()
        for host, status in (("inn.example", 200), ("b.example", 200), ("c.example", 421)):
            connection = server.connect()
            connection.request("GET", "/health", headers={"host": host})
            assert connection.getresponse().status == status
    with served(file, "--stateless", "--json-response", "--allow-origin", "https://a.example") as server:
        for origin, status in (("https://a.example", 200), ("https://b.example", 403)):
            connection = server.connect()
            connection.request("GET", "/health", headers={"origin": origin})
            assert connection.getresponse().status == status
        connection = server.connect()
        connection.request("GET", "/mcp", headers={"accept": "text/event-stream"})
        assert connection.getresponse().status == 405


def test_sessions_survive_a_restart_with_a_store(tmp_path: Path) -> None:
    file = write(tmp_path / "one.py", SERVER.format(name="server", version="1"))
    with served(file, "--store", str(tmp_path / "one.sqlite")) as server:
        client = server.client()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    with served(file, "--store", str(tmp_path / "one.sqlite")) as server:
        client._server = server
        assert client.call("version").status == 200


def test_requests_are_logged_with_their_ids(tmp_path: Path) -> None:
    file = write(
        tmp_path / "one.py",
        SERVER.format(name="server", version="1").replace(
            "return", "import logging\n    logging.info('inside')\n    return"
        ),
    )
    command = [*COMMAND, "serve", str(file), "--port", "0"]
    with HttpProcess("", command=command) as server:
        client = server.client(ENVELOPE)
        params = {"name": "version", "arguments": {}, "_meta": ENVELOPE_META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert client.post(message, **{"x-request-id": "mine"}).header("x-request-id") == "mine"
        eventually(lambda: "request=mine" in server.stderr, "the line is there")
        inside, line = (one for one in server.complaints if "[mine]" in one)
        assert inside.endswith("INFO root [mine] inside")
        assert "INFO dovetail.http [mine] POST /mcp tools/call version 200 " in line
        assert not any("uvicorn" in one for one in server.complaints)
    with served(file) as server:  # which logs warnings only
        assert version(server) == "1" and server.complaints == []


def test_serve_prints_its_address_at_a_terminal() -> None:
    with listening() as sock:
        port = sock.getsockname()[1]
    with AtTerminal("serve", DESK, "--port", str(port)) as terminal:
        terminal.until(f"desk serves MCP at http://127.0.0.1:{port}/mcp; Ctrl-C ends it.")
        terminal.interrupt()
        code, rest = terminal.end()
        assert code == 0 and "Traceback" not in rest


def test_messages_at_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "desk.sock"
    with AtTerminal("serve", DESK, "--unix", str(path)) as terminal:
        terminal.until("desk.sock; Ctrl-C ends it.")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(str(path))
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert json.loads(sock.recv(65536))["id"] == 1
        terminal.signal(signal.SIGTERM)
        assert terminal.end()[0] == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere.py"], "There is no file nowhere.py"),
        ([f"{DESK}:nobody"], "no Server named 'nobody'"),
        ([DESK, "--port", "70000"], "a port is a number up to 65535"),
        ([DESK, "--workers", "0"], "the number of workers is 1 or more"),
        ([DESK, "--grace", "soon"], "'soon' is not a number of seconds"),
        ([DESK, "--path", "mcp"], "begins with a slash"),
        ([DESK, "--allow-origin", "example.com"], "An origin is a scheme and a host"),
        ([DESK, "--unix", "/tmp/x", "--port", "1"], "options of HTTP need --http with --unix"),
        ([DESK, "--unix", "/tmp/x", "--http", "--port", "1"], "not both"),
        ([DESK, "--host", "no.such.host.invalid"], "no.such.host.invalid"),
        ([DESK, "--log-level", "loud"], "invalid choice: 'loud'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: list[str], complaint: str) -> None:
    done = dovetail("serve", *words)
    assert done.code == 1 and complaint in done.err and "Traceback" not in done.err


def test_a_file_without_a_server(tmp_path: Path) -> None:
    done = dovetail("serve", str(write(tmp_path / "bare.py", "x = 1\n")))
    assert done.code == 1 and "has no Server" in done.err


def test_a_port_that_is_taken() -> None:
    with listening() as taken:
        port = str(taken.getsockname()[1])
        for more in ([], ["--workers", "2"]):
            done = dovetail("serve", DESK, "--port", port, *more)
            line = f"dovetail: Cannot listen at 127.0.0.1 port {port}: Address already in use\n"
            assert (done.code, done.err) == (1, line)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ser", ["serve"]),
        ("serve ", [FILES]),
        ("serve x --sto", ["--store"]),
        ("serve x --store ", [FILES]),
        ("serve x --unix ", [FILES]),
        ("serve x --log-level w", ["warning"]),
        ("serve x --port ", []),
        ("serve --json-response ", [FILES]),
    ],
)
def test_options_of_serve_are_completed(line: str, offered: list[str]) -> None:
    assert candidates(line.split(" ")) == offered
