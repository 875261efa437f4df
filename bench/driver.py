"""A raw stdio client: a child process, two pipes and JSON by hand, so that no SDK's client is measured."""

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence

from bench.processes import DriverError, Watched

HANDSHAKE = "2025-11-25"
ENVELOPE = "2026-07-28"
PATIENCE_MS = 60_000
CHUNK = 1 << 20


class Child(Watched):
    """One server process, spoken to in whole lines."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(argv, stdin=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        os.set_blocking(self.stdin, False)
        os.set_blocking(self.stdout, False)
        self.poll = select.poll()
        self.poll.register(self.stdout, select.POLLIN)
        self.unsent = memoryview(b"")
        self.partial: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Queue bytes for the server and write what the pipe takes."""
        self.unsent = memoryview(bytes(self.unsent) + data) if self.unsent else memoryview(data)
        self._flush()

    def receive(self) -> list[bytes]:
        """The lines that have come, at least one; writes on while it waits."""
        while True:
            ready = self.poll.poll(PATIENCE_MS)
            if not ready:
                raise DriverError(f"no answer for {PATIENCE_MS // 1000} s. {self.complaint()}")
            for fd, _ in ready:
                if fd == self.stdin:
                    self._flush()
                elif lines := self._read():
                    return lines

    def _flush(self) -> None:
        while self.unsent:
            try:
                self.unsent = self.unsent[os.write(self.stdin, self.unsent) :]
            except BlockingIOError:
                self.poll.register(self.stdin, select.POLLOUT)
                return
        with contextlib.suppress(KeyError):
            self.poll.unregister(self.stdin)

    def _read(self) -> list[bytes]:
        data = os.read(self.stdout, CHUNK)
        if not data:
            raise DriverError(f"the server closed its output. {self.complaint()}")
        if b"\n" not in data:
            self.partial.append(data)
            return []
        lines = b"".join([*self.partial, data]).split(b"\n")
        rest = lines.pop()
        self.partial = [rest] if rest else []
        return lines

    def close(self) -> None:
        """End the server, by force if it does not follow the end of its input."""
        assert self.process.stdin
        self.process.stdin.close()
        self.ended()


class Session:
    """A child that has been opened on one revision."""

    def __init__(self, child: Child, revision: str) -> None:
        self.child = child
        self.revision = revision
        self.last_id = 0
        self.meta: dict[str, object] = {}
        if revision == HANDSHAKE:
            info = {"name": "bench", "version": "1"}
            self.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
            child.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        else:
            self.meta = {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            self.ask("server/discover", {})

    def request(self, method: str, params: dict[str, object], **meta: object) -> bytes:
        """One request as a line, with the next id."""
        self.last_id += 1
        if meta := {**self.meta, **meta}:
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def ask(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """Send one request and return its result."""
        return result_of(self.answer(self.request(method, params)), self.last_id)

    def answer(self, request: bytes) -> bytes:
        """Send one request line and return the line that answers it; notifications are passed over."""
        self.child.send(request)
        while True:
            for line in self.child.receive():
                if b'"id":' in line:
                    return line

    def list_tools(self) -> int:
        """Walk through every page of tools/list and count the tools."""
        total, cursor = 0, None
        while True:
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            tools = page["tools"]
            assert isinstance(tools, list)
            total += len(tools)
            cursor = page.get("nextCursor")
            if not cursor:
                return total

    def calls(self, tool: str, arguments: dict[str, object], number: int, window: int) -> tuple[list[bytes], float]:
        """Make `number` calls with `window` outstanding; the answers unparsed, and the seconds they took."""
        requests = [self.request("tools/call", {"name": tool, "arguments": arguments}) for _ in range(number)]
        answers: list[bytes] = []
        sent = min(window, number)
        begun = time.perf_counter()
        self.child.send(b"".join(requests[:sent]))
        while len(answers) < number:
            answers += (line for line in self.child.receive() if b'"id":' in line)
            upto = min(len(answers) + window, number)
            if upto > sent:
                self.child.send(b"".join(requests[sent:upto]))
                sent = upto
        return answers, time.perf_counter() - begun

    def counted(self, steps: int) -> int:
        """Make one call that reports progress `steps` times; returns how many reports came."""
        params: dict[str, object] = {"name": "count", "arguments": {"steps": steps}}
        self.child.send(self.request("tools/call", params, progressToken="p"))
        reports = 0
        while True:
            for line in self.child.receive():
                if b"notifications/progress" in line:
                    reports += 1
                elif b'"id":' in line:
                    result_of(line, self.last_id)
                    return reports


def result_of(line: bytes, id: int | None = None) -> dict[str, object]:
    """The result in an answer; an error, an isError result or a foreign id ends the benchmark."""
    message = json.loads(line)
    result = message.get("result")
    if not result or result.get("isError") or (id is not None and message["id"] != id):
        raise DriverError(f"unexpected answer: {line[:500].decode(errors='replace')}")
    return result
