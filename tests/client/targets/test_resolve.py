"""Where a client connects to: what a user may give, and what it becomes."""

import asyncio
import contextlib
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.targets.addresses import address_url
from dovetail.client.targets.command import CommandTarget
from dovetail.client.targets.http import HttpSettings, HttpTarget, WebSocketTarget
from dovetail.client.targets.memory import ChannelTarget, MemoryTarget
from dovetail.client.targets.python_files import with_this_interpreter
from dovetail.client.targets.resolve import resolve_target
from dovetail.client.targets.sockets import TcpTarget, UnixTarget
from dovetail.config.reader import read_config
from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.transports.base import Channel
from dovetail.transports.memory import MemoryChannel, memory_pair
from dovetail.transports.process import ProcessChannel
from tests.support.peer import Peer
from tests.support.waiting import until


class TestFinding:
    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("node server.js", ("node", "server.js")),
            ('  node "my server.js" --x=1', ("node", "my server.js", "--x=1")),
            (["python", "my server.py"], ("python", "my server.py")),
            (("python",), ("python",)),
            ([Path("/usr/bin/python"), "-m", "x"], ("/usr/bin/python", "-m", "x")),
        ],
    )
    def test_a_command_is_a_string_or_a_list_of_words(self, target: Any, words: tuple[str, ...]):
        found = resolve_target(target, None, None)
        assert isinstance(found, CommandTarget)
        assert found.key == (words, "")

    def test_the_same_command_elsewhere_is_another_server(self):
        here, there = (resolve_target("python server.py", None, cwd) for cwd in (None, "/tmp"))
        assert here.key != there.key

    def test_a_server_object_is_reached_in_memory(self):
        class Anything:
            async def serve(self, channel: Channel) -> None: ...

        found = resolve_target(Anything(), None, None)
        assert isinstance(found, MemoryTarget)
        assert found.key is None

    @pytest.mark.parametrize("target", ["", "   ", [], ()])
    def test_an_empty_command_is_refused(self, target: Any):
        with pytest.raises(LocalError, match="The command to run is empty"):
            resolve_target(target, None, None)

    def test_a_command_that_cannot_be_read_says_why(self):
        with pytest.raises(LocalError, match=r'The command .python "x. cannot be read: No closing quotation'):
            resolve_target('python "x', None, None)

    @pytest.mark.parametrize(
        ("target", "kind", "key"),
        [
            ("https://example.com/mcp", HttpTarget, ("url", "https://example.com/mcp")),
            ("HTTP://h:8/mcp?a=b#c", HttpTarget, ("url", "HTTP://h:8/mcp?a=b")),
            ("ws://localhost:1/x", WebSocketTarget, ("url", "ws://localhost:1/x")),
            ("wss://h/x", WebSocketTarget, ("url", "wss://h/x")),
            ("tcp://127.0.0.1:9000", TcpTarget, ("tcp", "127.0.0.1", 9000)),
            ("tcp://[::1]:9000", TcpTarget, ("tcp", "::1", 9000)),
            ("unix:/tmp/x.sock", UnixTarget, ("unix", "/tmp/x.sock")),
            ("unix:///tmp/x%20y.sock", UnixTarget, ("unix", "/tmp/x y.sock")),
        ],
    )
    def test_an_address(self, target: str, kind: type, key: object):
        found = resolve_target(target)
        assert type(found) is kind
        assert found.key == key

    def test_the_path_of_a_socket_that_is_there(self, tmp_path: Path):
        path = str(tmp_path / "s.sock")
        assert isinstance(resolve_target(path), CommandTarget)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)
            assert isinstance(resolve_target(path), UnixTarget)

    @pytest.mark.parametrize("target", ["tcp://h", "tcp://:1", "tcp://h:x", "tcp://h:99999"])
    def test_a_port_needs_a_host_and_a_number(self, target: str):
        with pytest.raises(LocalError, match="A TCP server is reached as tcp://host:port"):
            resolve_target(target)

    def test_a_socket_needs_a_path(self):
        with pytest.raises(LocalError, match="The path of the socket is missing"):
            resolve_target("unix:")

    async def test_a_channel_of_the_users_own_can_be_used_once(self):
        ours, _ = memory_pair()
        found = resolve_target(ours)
        assert isinstance(found, ChannelTarget)
        assert found.key is None
        assert await found.connect() is ours
        with pytest.raises(ConnectionLost, match="used already"):
            await found.connect()

    def test_a_url_may_be_an_argument(self):
        assert isinstance(resolve_target("fetch https://example.com", None, None), CommandTarget)

    @pytest.mark.parametrize("target", [5, None, b"python", {"command": "python"}, ["python", 5]])
    def test_anything_else_is_refused(self, target: Any):
        with pytest.raises(LocalError, match="A client connects to a Python file, a command"):
            resolve_target(target, None, None)


class TestPythonFiles:
    @pytest.mark.parametrize("given", [str, Path])
    def test_a_python_file_runs_with_this_interpreter(self, given: type, tmp_path: Path):
        file = tmp_path / "my server.py"
        file.touch()
        found = resolve_target(given(file))
        assert found.key == ((sys.executable, "-P", "-m", "dovetail.cli", "run", str(file)), "")

    def test_an_object_of_a_file_is_named_after_a_colon(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        Path("inn.py").touch()
        found = resolve_target("inn.py:app.server")
        assert found.key == ((sys.executable, "-P", "-m", "dovetail.cli", "run", f"{tmp_path}/inn.py:app.server"), "")

    def test_a_file_that_is_not_there_is_an_error_with_the_name_that_was_meant(self, tmp_path: Path):
        (tmp_path / "server.py").touch()
        with pytest.raises(LocalError, match=r"There is no file .*/sever\.py; did you mean .*/server\.py\?"):
            resolve_target(tmp_path / "sever.py")

    def test_a_folder_is_no_server(self, tmp_path: Path):
        with pytest.raises(LocalError, match="is a folder: name a Python file in it"):
            resolve_target(str(tmp_path))

    @pytest.mark.parametrize("word", ["python", "python3", f"python3.{sys.version_info.minor}"])
    def test_a_bare_python_is_this_interpreter(self, word: str):
        assert with_this_interpreter([word, "x.py"], {}) == [sys.executable, "x.py"]

    @pytest.mark.parametrize("word", ["python2", "python3.2", "/usr/bin/python3", "./python", "pythonw", "uv"])
    def test_another_interpreter_stays(self, word: str):
        assert with_this_interpreter([word, "x.py"], {}) == [word, "x.py"]

    @pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
    def test_an_activated_environment_decides_what_python_is(self, variable: str):
        assert with_this_interpreter(["python", "x.py"], {variable: "/venv"}) == ["python", "x.py"]

    def test_a_path_of_the_caller_decides_what_python_is(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
        monkeypatch.delenv("CONDA_PREFIX", raising=False)
        assert resolve_target("python x.py").key == ((sys.executable, "x.py"), "")
        assert resolve_target("python x.py", {"PATH": "/opt/bin"}).key == (("python", "x.py"), "")


class TestBareAddresses:
    @pytest.mark.parametrize(
        ("word", "url"),
        [
            ("localhost:8000/mcp", "http://localhost:8000/mcp"),
            ("localhost:8000", "http://localhost:8000/mcp"),
            ("localhost", "http://localhost/mcp"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000/mcp"),
            ("192.168.1.7:8000/", "http://192.168.1.7:8000/"),
            ("[::1]:8000/mcp", "http://[::1]:8000/mcp"),
            ("8.8.8.8/mcp", "https://8.8.8.8/mcp"),
            ("example.com/mcp?a=b", "https://example.com/mcp?a=b"),
            ("example.com:8443", "https://example.com:8443/mcp"),
            ("nas.local:8000", "http://nas.local:8000/mcp"),
        ],
    )
    def test_an_address_without_a_scheme_is_a_url(self, word: str, url: str):
        assert address_url(word) == url
        assert resolve_target(word).key == ("url", url)

    @pytest.mark.parametrize(
        "word", ["server.exe", "npx", "bin/server", "./server.sh", "C:\\x", "a b.com/c", "x.py:app", "h:8000", "999.1"]
    )
    def test_another_word_is_none(self, word: str):
        assert address_url(word) is None

    def test_a_file_of_that_name_is_a_program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        Path("my.tools").mkdir()
        Path("my.tools/run").touch()
        assert isinstance(resolve_target("my.tools/run"), CommandTarget)


class TestConfigured:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "mcp.json"
        weather = {"command": "weather", "args": ["--fast"], "env": {"A": "1"}, "cwd": "/srv"}
        forge = {"url": "https://forge.example.com/mcp", "headers": {"Authorization": "Bearer x", "X-Team": "a"}}
        asks = {"command": "x", "env": {"KEY": "${input:key}"}}
        inputs = [{"type": "promptString", "id": "key"}]
        servers = {"weather": weather, "forge": forge, "asks": asks, "bad": {}}
        file.write_text(json.dumps({"mcpServers": servers, "inputs": inputs}))
        return file

    def test_a_server_of_a_file_is_named_after_a_hash(self, file: Path):
        assert resolve_target(f"{file}#weather").key == (("weather", "--fast"), "/srv")
        assert resolve_target(f"{file}#weather", None, "/here").key == (("weather", "--fast"), "/here")

    def test_an_entry_is_a_target(self, file: Path):
        entry = read_config(file).entries[1]
        assert resolve_target(entry).key == ("url", "https://forge.example.com/mcp")

    def test_options_of_the_caller_go_before_headers_of_the_file(self):
        settings = HttpSettings({"x-team": "b"}, "token", None)
        merged = settings.with_defaults({"Authorization": "Bearer x", "X-Team": "a", "X-More": "c"})
        assert {name: merged.headers.get(name) for name in ("authorization", "x-team", "x-more")} == {
            "authorization": None,
            "x-team": "b",
            "x-more": "c",
        }

    def test_a_file_with_several_servers_says_their_names(self, file: Path):
        with pytest.raises(LocalError, match=r"has 4 servers; name one: .*mcp\.json#weather, .*mcp\.json#forge"):
            resolve_target(file)

    def test_a_file_with_one_server_means_that_one(self, tmp_path: Path):
        file = tmp_path / "one.json"
        file.write_text('{"mcpServers": {"a": {"command": "a"}}}')
        assert resolve_target(file).key == (("a",), "")

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            ("wether", r"has no server 'wether'; did you mean .*#weather\?"),
            ("bad", "'bad' cannot be started: .*neither a command nor a url"),
            ("asks", "needs a value for key, and a client cannot ask for it"),
        ],
    )
    def test_a_server_that_cannot_be_used_says_why(self, key: str, text: str, file: Path):
        with pytest.raises(LocalError, match=text):
            resolve_target(f"{file}#{key}")


class TestMemory:
    async def test_what_is_sent_reaches_the_server_and_back(self):
        class Echo:
            async def serve(self, channel: Channel) -> None:
                assert isinstance(channel, MemoryChannel)
                peer = Peer(channel)
                peer.send({"echo": await peer.next()})
                await peer.ended.wait()

        target = MemoryTarget(Echo())
        channel = await target.connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        peer.send({"hello": 1})
        assert await peer.next() == {"echo": {"hello": 1}}
        await channel.close()
        await target.release()

    async def test_a_closing_client_waits_until_the_server_has_let_go(self):
        steps: list[str] = []

        class Slow:
            async def serve(self, channel: Channel) -> None:
                assert isinstance(channel, MemoryChannel)
                await Peer(channel).ended.wait()
                await asyncio.sleep(0.01)
                steps.append("let go")

        target = MemoryTarget(Slow())
        channel = await target.connect()
        await asyncio.sleep(0)
        await channel.close()
        await target.release()
        assert steps == ["let go"]

    async def test_a_server_that_fails_breaks_off_with_the_reason(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)

        class Broken:
            async def serve(self, channel: Channel) -> None:
                raise ValueError("no database")

        channel = await MemoryTarget(Broken()).connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        await peer.ended.wait()
        assert peer.reason == "the server failed: ValueError: no database"
        assert "The server failed" in caplog.text

    async def test_a_server_that_just_ends_closes_its_end(self):
        class Brief:
            async def serve(self, channel: Channel) -> None: ...

        channel = await MemoryTarget(Brief()).connect()
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        await peer.ended.wait()
        assert peer.reason == "the peer closed the connection"


class TestCommand:
    async def test_a_process_starts_when_its_channel_is_opened(self, tmp_path: Path):
        mark = tmp_path / "started"
        code = f"import os, pathlib; pathlib.Path({str(mark)!r}).write_text(os.environ['WHO'] + os.getcwd())"
        target = CommandTarget([sys.executable, "-c", code], {"WHO": "me in "}, tmp_path)
        channel = await target.connect()
        assert isinstance(channel, ProcessChannel)
        assert channel.pid is None
        assert not mark.exists()

        class Nobody:
            def received(self, line: bytes) -> None: ...
            def overlong(self, line: object) -> None: ...
            def failed(self, id: object, problem: Exception) -> None: ...
            def disconnected(self, reason: str | None) -> None: ...

        channel.open(Nobody())
        try:
            await until(lambda: mark.exists() and mark.read_text())
            assert mark.read_text() == f"me in {tmp_path}"
        finally:
            await channel.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await target.release()

    def test_a_client_takes_it_as_it_is(self):
        target = CommandTarget([sys.executable], inherited={}, on_stderr=print)
        assert resolve_target(target) is target
