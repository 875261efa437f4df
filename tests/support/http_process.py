"""A server over HTTP in a process of its own, started as users start it, and plain clients of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.raw import ENVELOPE, ENVELOPE_META, HANDSHAKE, PATIENCE, eventually, written_to

ROOT = Path(__file__).resolve().parents[2]
BOTH = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_ADDRESS = re.compile(r"serves MCP at http://([^/:;]+):(\d+)(/\S*);")


class HttpProcess:
    """`dovetail serve FILE` on a free port, or on a given one; its stderr goes to a file."""

    def __init__(
        self,
        file: str | Path,
        *options: str,
        command: Sequence[str | Path] | None = None,
        environment: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._open: list[Connection] = []
        usual = [sys.executable, "-m", "dovetail.cli", "serve", file, "--port", str(port), "--log-level", "warning"]
        self.process = subprocess.Popen(
            [*map(str, command or usual), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **(environment or {})},
            start_new_session=True,
        )
        try:
            self.host, self.port, self.path = self._address() if port == 0 else self._listening("127.0.0.1", port)
        except BaseException:
            self.kill()
            raise

    def _address(self) -> tuple[str, int, str]:
        found = eventually(lambda: _ADDRESS.search(self.stderr) or self.process.poll(), "the address is told")
        assert isinstance(found, re.Match), self.stderr
        return found[1], int(found[2]), found[3]

    def _listening(self, host: str, port: int) -> tuple[str, int, str]:
        """The given address, once the server listens there."""

        def listens() -> bool:
            assert self.process.poll() is None, self.stderr
            with contextlib.suppress(OSError), socket.create_connection((host, port)):
                return True
            return False

        eventually(listens, "the server listens")
        return host, port, "/mcp"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def stderr(self) -> str:
        """What was written to stderr so far."""
        return written_to(self._errors).decode(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """The lines of stderr without the one that tells the address."""
        return [line for line in self.stderr.splitlines() if "serves MCP at" not in line]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, patience: float = PATIENCE) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(patience)

    def kill(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._errors.close()
        for connection in self._open:
            connection.drop()

    def connect(self, source: str | None = None) -> Connection:
        """A connection, maybe from another loopback address, closed with the process if nobody closes it before."""
        address = None if source is None else (source, 0)
        connection = Connection(self.host, self.port, timeout=PATIENCE, source_address=address)
        self._open.append(connection)
        return connection

    def client(self, revision: str = HANDSHAKE) -> HttpCaller:
        """A client that has made the first contact."""
        return HttpCaller(self, revision)


class Connection(http.client.HTTPConnection):
    """A connection that can be closed with all that was answered over it."""

    response: http.client.HTTPResponse | None = None

    def getresponse(self) -> http.client.HTTPResponse:
        self.response = super().getresponse()
        return self.response

    def drop(self) -> None:
        if self.response is not None:
            self.response.close()
        self.close()


class Answer:
    """What came back: headers at once, the body as it comes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status
        self.events = self.header("content-type").startswith("text/event-stream")

    def header(self, name: str) -> str:
        return self._response.getheader(name, "")

    def rest(self) -> bytes:
        """All that is left; a body that is not ended properly raises."""
        try:
            return self._response.read()
        finally:
            self._connection.drop()

    def line(self) -> bytes:
        return self._response.readline()

    def message(self) -> dict[str, Any]:
        """The next message of a stream of events, or the one that is the whole body."""
        if not self.events:
            return json.loads(self.rest())
        while line := self.line():
            if (data := _data(line)) is not None:
                return data
        raise AssertionError("the stream ended")

    def messages(self) -> list[dict[str, Any]]:
        """All messages to the end."""
        body = self.rest()
        if not self.events:
            return [json.loads(body)] if body else []
        return [data for line in body.splitlines() if (data := _data(line)) is not None]

    def close(self) -> None:
        self._connection.drop()


def _data(line: bytes) -> dict[str, Any] | None:
    """The message on a line of a stream of events; an event that only tells its id has none."""
    text = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
    return json.loads(text) if text else None


class HttpCaller:
    """Speaks one revision by hand; each request has a connection of its own."""

    def __init__(
        self,
        server: HttpProcess,
        revision: str = HANDSHAKE,
        capabilities: Any = None,
        *,
        session: str = "",
        source: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        """With a `session` that there is, no handshake is made; `source` is the address that it connects from."""
        self._server = server
        self.revision = revision
        self.session = session
        self.source = source
        self.extra_headers = dict(extra_headers or {})
        self._ids = 0
        if revision != ENVELOPE and not session:
            params = {
                "protocolVersion": revision,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "raw", "version": "1"},
            }
            answer = self.ask("initialize", params)
            self.session = answer.header("mcp-session-id")
            assert answer.status == 200 and self.session, answer.rest()
            answer.close()
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).close()

    def headers(self, method: str = "", name: str = "") -> dict[str, str]:
        if self.revision == ENVELOPE:
            standard = {"mcp-protocol-version": ENVELOPE, "mcp-method": method}
            return {**BOTH, **standard, **({"mcp-name": name} if name else {}), **self.extra_headers}
        return {**BOTH, **({"mcp-session-id": self.session} if self.session else {}), **self.extra_headers}

    def post(self, message: Any, **more: str) -> Answer:
        params = message.get("params", {}) if isinstance(message, dict) else {}
        headers = self.headers(message.get("method", ""), params.get("name", ""))
        connection = self._server.connect(self.source)
        connection.request("POST", self._server.path, json.dumps(message), {**headers, **more})
        return Answer(connection)

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request as this revision wants it."""
        self._ids += 1
        body = dict(params or {})
        if self.revision == ENVELOPE:
            body["_meta"] = {**ENVELOPE_META, **body.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": body}

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        return self.post(self.message(method, params))

    def call(self, name: str, /, **arguments: Any) -> Answer:
        """Call a tool, with progress."""
        meta = {"progressToken": 1}
        return self.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    def stream(self, **more: str) -> Answer:
        """The stream for what belongs to no request."""
        return self.get(self._server.path, **more)

    def get(self, path: str, **more: str) -> Answer:
        connection = self._server.connect(self.source)
        connection.request("GET", path, headers={**self.headers(), "accept": "text/event-stream", **more})
        return Answer(connection)

    def delete(self) -> Answer:
        connection = self._server.connect(self.source)
        connection.request("DELETE", self._server.path, headers=self.headers())
        return Answer(connection)
