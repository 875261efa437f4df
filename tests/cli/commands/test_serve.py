"""`dovetail serve`: the same files as `run`, over HTTP or at a Unix socket."""

import http.client
import json
import signal
import socket
from pathlib import Path

import pytest

from dovetail.cli.options.candidates import FILES, candidates
from tests.cli.invoke import COMMAND, DESK, AtTerminal, dovetail
from tests.support.http import free_port, listening
from tests.support.http_process import HttpProcess
from tests.support.raw import ENVELOPE, ENVELOPE_META, PATIENCE, alive, children, eventually

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


def test_the_store_is_given_by_url_or_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "one.py", SERVER.format(name="server", version="1"))
    named, unused = tmp_path / "named.sqlite", tmp_path / "unused.sqlite"
    monkeypatch.setenv("DOVETAIL_STORE", f"sqlite://{named}")
    with served(file) as server:
        assert server.client().session and named.exists()
    monkeypatch.setenv("DOVETAIL_STORE", str(unused))
    with served(file, "--store", "memory:") as server:
        assert server.client().session and not unused.exists(), "an option wins"


@pytest.mark.parametrize("more", [(), ("--workers", "2"), ("--reload",)])
def test_a_mistyped_url_of_a_store_is_one_line_without_its_password(more: tuple[str, ...]) -> None:
    done = dovetail("serve", DESK, "--port", "0", "--store", "reddis://:sesame@localhost", *more)
    assert (done.code, done.err) == (1, "dovetail: There is no store with the scheme reddis: did you mean redis:?\n")


def test_workers_do_not_start_with_a_store_in_memory() -> None:
    done = dovetail("serve", DESK, "--port", "0", "--workers", "2", "--store", "memory:")
    line = "dovetail: Workers cannot share a store in memory; give a file or Redis, or no store at all\n"
    assert (done.code, done.err) == (1, line)


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
        inside, line = (one for one in server.complaints if "mine" in one)
        assert inside.endswith("INFO root [mine] inside")
        assert "INFO dovetail.http POST /mcp tools/call version 200 " in line and line.count("mine") == 1
        assert not any("uvicorn" in one for one in server.complaints)
    with served(file) as server:  # which logs warnings only
        assert version(server) == "1" and server.complaints == []


@pytest.mark.parametrize("options", [(), ("--workers", "2"), ("--reload",)])
def test_serve_prints_its_address_once_into_a_log(options: tuple[str, ...], tmp_path: Path) -> None:
    file = write(tmp_path / "server.py", SERVER.format(name="server", version="1"))
    with HttpProcess(file, *options, port=free_port()) as server:
        assert version(server) == "1"
        if "--reload" in options:
            write(file, SERVER.format(name="server", version="2"))
            eventually(lambda: version(server) == "2", "the new version serves")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        lines = [line for line in server.stderr.splitlines() if "serves MCP" in line]
        assert lines == [f"server serves MCP at http://127.0.0.1:{server.port}/mcp; Ctrl-C ends it."]


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
        ("ser", ["serve", "servers"]),
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


class Reloading(HttpProcess):
    """A server under `serve --reload`, and the file that it is made of."""

    def __init__(self, file: Path, *options: str) -> None:
        self.file = file
        self.change("1")
        super().__init__(file, "--reload", *options)

    def change(self, version: str, more: str = "") -> None:
        # Replaced in one step: a scan in between must not see an empty file.
        replacement = write(self.file.with_suffix(".new"), SERVER.format(name="server", version=version) + more)
        replacement.replace(self.file)

    def until_told(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.stderr.count(text) == times, f"{text!r} in {self.stderr}")


@pytest.mark.slow
def test_a_session_goes_on_in_the_new_version(tmp_path: Path) -> None:
    with Reloading(tmp_path / "server.py") as server:
        client = server.client()
        assert client.session

        def answered() -> str:
            [answer] = client.call("version").messages()
            assert "result" in answer, (answer, server.stderr)
            return answer["result"]["content"][0]["text"]

        assert answered() == "1"
        server.change("2")
        server.until_told("dovetail: reloaded")
        assert answered() == "2" and version(server) == "2"
        server.change("3")
        server.until_told("dovetail: reloaded", 2)
        assert answered() == "3"
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


def test_a_client_is_notified_after_a_reload_over_http(tmp_path: Path) -> None:
    with Reloading(tmp_path / "server.py") as server:
        client = server.client()
        server.change("2")
        server.until_told("dovetail: reloaded")
        stream = client.stream()
        assert stream.message()["method"] == "notifications/tools/list_changed"
        stream.close()


@pytest.mark.slow
def test_the_old_version_goes_on_while_the_new_one_does_not_load(tmp_path: Path) -> None:
    with Reloading(tmp_path / "server.py") as server:
        write(server.file, "def broken(:\n")
        server.until_told("not reloaded: ")
        assert version(server) == "1"
        server.change("2", "\nraise SystemExit('not today')\n")
        server.until_told("the previous version goes on")
        assert version(server) == "1" and "not today" in server.stderr
        server.change("3")
        server.until_told("dovetail: reloaded")
        assert version(server) == "3"


def test_without_a_version_that_loads_clients_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "server.py", "raise SystemExit('not today')\n")
    with listening() as sock:
        port = sock.getsockname()[1]
    with AtTerminal("serve", str(file), "--reload", "--port", str(port)) as terminal:
        terminal.until("waiting for a change")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("POST", "/mcp", b"{}", {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 503 and "does not start" in json.loads(response.read())["error"]["message"]
        write(file, SERVER.format(name="server", version="1"))
        terminal.until(f"server serves MCP at http://127.0.0.1:{port}/mcp; Ctrl-C ends it.")
        terminal.interrupt()
        code, rest = terminal.end()
        assert code == 0 and "Traceback" not in rest


def test_nothing_is_left_of_a_reloading_server_that_was_killed(tmp_path: Path) -> None:
    with Reloading(tmp_path / "server.py") as server:
        assert version(server) == "1"
        started = list(children(server.process.pid))
        assert started
        server.signal(signal.SIGKILL)
        server.wait()
        eventually(lambda: not any(map(alive, started)), "the child has ended")


def test_another_folder_can_be_watched(tmp_path: Path) -> None:
    package = tmp_path / "lib"
    package.mkdir()
    (tmp_path / "app").mkdir()
    with Reloading(tmp_path / "app" / "server.py", "--reload-dir", str(package)) as server:
        write(package / "wording.py", "x = 1\n")
        server.until_told("dovetail: wording.py changed: reloading")
        server.until_told("dovetail: reloaded")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--reload", "--unix", "x.sock"], "--reload needs HTTP: add --http"),
        (["--reload", "--workers", "2"], "--reload runs one process"),
        (["--reload-dir", "nowhere"], "'nowhere' is not a folder"),
    ],
)
def test_options_that_do_not_fit_a_reload_are_refused(words: list[str], complaint: str) -> None:
    done = dovetail("serve", DESK, *words)
    assert done.code == 1 and complaint in done.err
