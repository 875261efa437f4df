"""`dovetail run`: which object is served, and what `--reload` keeps."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoke import COMMAND, DESK, dovetail, environment
from tests.support.raw import ENVELOPE_META, RawServer, eventually

SERVER = """
from dovetail import Server
{name} = Server("{name}")

@{name}.tool
def version() -> str:
    return "{version}"
"""

SLOW = """
import asyncio

@server.tool
async def slow() -> str:
    open({mark!r}, "w").close()
    await asyncio.sleep({seconds})
    return "slow but sure"
"""


@pytest.fixture(autouse=True)
def tree_under_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


def write(path: Path, text: str) -> Path:
    """Write at once: a file that is seen half written would be a change of its own."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)
    return path


def called(word: str) -> str:
    done = dovetail("call", word, "version", "--format", "json")
    return done.result["structuredContent"]


@pytest.mark.parametrize("name", ["server", "app", "mcp", "something"])
def test_the_object_that_must_be_meant_is_served(name: str, tmp_path: Path) -> None:
    assert called(str(write(tmp_path / "one.py", SERVER.format(name=name, version=name)))) == name


def test_the_object_that_was_named_is_served(tmp_path: Path) -> None:
    text = SERVER.format(name="first", version="1") + SERVER.format(name="second", version="2")
    text += "\ndef make():\n    return second\n"
    file = write(tmp_path / "two.py", text)
    assert called(f"{file}:first") == "1"
    assert called(f"{file}:second") == "2"
    assert called(f"{file}:make") == "2"
    for word, complaint in ((str(file), "several servers"), (f"{file}:third", "no Server named")):
        done = dovetail("run", word)
        assert done.code == 1 and complaint in done.err


def test_a_file_that_runs_its_server_by_itself_is_served_once(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    text = SERVER.format(name="server", version="1") + f"\nserver.run()\nopen({str(ended)!r}, 'a').write('x')\n"
    file = write(tmp_path / "script.py", text)
    done = dovetail("call", str(file), "version")
    assert done.out == "1\n"
    assert ended.read_text() == "x"
    other = write(tmp_path / "other.py", SERVER.format(name="other", version="2") + text)
    assert called(f"{other}:other") == "2"


def test_a_file_finds_its_neighbours_and_may_be_called_like_a_module(tmp_path: Path) -> None:
    write(tmp_path / "neighbour.py", "VERSION = 'next door'\n")
    text = SERVER.format(name="server", version="") + "\nimport neighbour, json\njson.dumps(1)\n"
    file = write(tmp_path / "json.py", text.replace('return ""', "return neighbour.VERSION"))
    renamed = write(tmp_path / "dovetail_server.py", file.read_text().replace(", json\njson.dumps(1)", ""))
    file.unlink()
    assert called(str(renamed)) == "next door"


@pytest.mark.parametrize("words", [["/no/such.py"], ["/no/such.py", "--reload"], []])
def test_a_file_that_is_not_there_is_1(words: list[str]) -> None:
    assert dovetail("run", *words).code == 1


def test_a_file_without_a_server_is_1(tmp_path: Path) -> None:
    done = dovetail("run", str(write(tmp_path / "empty.py", "x = 1\n")))
    assert done.code == 1 and "no Server" in done.err


def test_a_file_that_fails_shows_its_traceback(tmp_path: Path) -> None:
    done = dovetail("run", str(write(tmp_path / "broken.py", "1 / 0\n")))
    assert done.code != 0 and "ZeroDivisionError" in done.err
    done = dovetail("call", str(tmp_path / "broken.py"), "x", "--format", "json")
    assert done.code == 4 and "ZeroDivisionError" in done.error["message"]


class Reloading(RawServer):
    """A server under `run --reload` and the file that it is made of."""

    def __init__(self, file: Path, more: str = "") -> None:
        self.file = file
        self.change("1", more)
        super().__init__([*COMMAND, "run", str(file), "--reload"])

    def change(self, version: str, more: str = "") -> None:
        write(self.file, SERVER.format(name="server", version=version) + more)

    def version(self) -> str:
        return self.call("version")["content"][0]["text"]

    def until_reloaded(self, times: int = 1) -> None:
        """Wait until a change was seen, that many times in all."""
        eventually(lambda: self.stderr.count("changed: reloading") == times, "the change was seen")

    def notification(self, method: str) -> dict[str, Any]:
        """The next notification of this kind; answers before it are dropped."""
        while (message := self.message()).get("method") != method:
            pass
        return message

    def handshake(self) -> None:
        client = {"name": "raw", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        assert "result" in self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


class EnvelopeReloading(Reloading):
    """The same, asked in the words of the envelope era."""

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return super().ask(method, {**(params or {}), "_meta": ENVELOPE_META})


def test_the_client_keeps_its_connection_and_hears_of_the_change(tmp_path: Path) -> None:
    with Reloading(tmp_path / "server.py") as server:
        server.handshake()
        assert server.version() == "1"
        server.change("2")
        server.notification("notifications/tools/list_changed")
        assert server.version() == "2"
        server.change("3")
        server.notification("notifications/tools/list_changed")
        assert server.version() == "3"
        server.close_input()
        assert server.wait() == 0


def test_a_subscription_outlives_the_change(tmp_path: Path) -> None:
    with EnvelopeReloading(tmp_path / "server.py") as server:
        listen = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE_META}
        server.send({"jsonrpc": "2.0", "id": "mine", "method": "subscriptions/listen", "params": listen})
        server.notification("notifications/subscriptions/acknowledged")
        server.change("2")
        heard = server.message()
        assert heard["method"] == "notifications/tools/list_changed"
        assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "mine"
        assert server.version() == "2"


def test_a_call_that_runs_is_waited_for(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow = SLOW.format(mark=str(mark), seconds=1.5)
    with EnvelopeReloading(tmp_path / "server.py", slow) as server:
        params = {"name": "slow", "arguments": {}, "_meta": ENVELOPE_META}
        server.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
        eventually(mark.exists, "the call runs")
        server.change("2", slow)
        assert server.answer("slow")["result"]["content"][0]["text"] == "slow but sure"
        server.until_reloaded()
        assert server.version() == "2"


def test_code_that_cannot_be_read_leaves_the_old_one_running(tmp_path: Path) -> None:
    with EnvelopeReloading(tmp_path / "server.py") as server:
        assert server.version() == "1"
        write(server.file, "def broken(:\n")
        eventually(lambda: "not reloaded" in server.stderr, "the complaint")
        assert server.version() == "1"
        server.change("2")
        server.until_reloaded()
        assert server.version() == "2"


def test_a_server_that_cannot_start_says_so_until_it_can(tmp_path: Path) -> None:
    with EnvelopeReloading(tmp_path / "server.py") as server:
        assert server.version() == "1"
        write(server.file, "raise SystemExit('not today')\n")
        eventually(lambda: "restarts when a file changes" in server.stderr, "the end was seen")
        error = server.ask("tools/list")["error"]
        assert error["code"] == -32603 and "not today" in error["message"]
        server.change("2")
        server.until_reloaded(2)
        assert server.version() == "2"


def test_a_neighbour_that_changes_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "parts"
    package.mkdir()
    write(package / "__init__.py", "")
    write(package / "wording.py", "VERSION = 'a'\n")
    more = "\nfrom parts.wording import VERSION\nserver.remove_tool('version')\n"
    more += "server.tool(lambda: VERSION, name='version')\n"
    with EnvelopeReloading(tmp_path / "server.py", more) as server:
        assert server.version() == "a"
        write(package / "wording.py", "VERSION = 'b'\n")
        eventually(lambda: "wording.py changed" in server.stderr, "the change was seen")
        assert server.version() == "b"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_signal_ends_it_with_its_server(tmp_path: Path) -> None:
    import signal

    from tests.support.raw import alive, children

    with Reloading(tmp_path / "server.py") as server:
        server.handshake()
        assert server.version() == "1"
        [*started] = children(server.process.pid)
        assert started
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        eventually(lambda: not any(map(alive, started)), "the server has ended")


def test_the_desk_answers_over_run() -> None:
    with RawServer([*COMMAND, "run", DESK]) as server:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE_META}}
        server.send(message)
        assert json.dumps(server.answer(1)["result"]["tools"])
