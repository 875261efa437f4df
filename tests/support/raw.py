"""A server process driven by hand: bytes in, lines out, each with a deadline, and a look at /proc."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

PATIENCE = 30.0
"""How long to wait for what must come; only a test that fails waits that long."""

HANDSHAKE = "2025-11-25"
ENVELOPE = "2026-07-28"

_PREFIX = "io.modelcontextprotocol/"
ENVELOPE_META = {
    _PREFIX + "protocolVersion": ENVELOPE,
    _PREFIX + "clientInfo": {"name": "raw", "version": "1"},
    _PREFIX + "clientCapabilities": {},
}


def written_to(file: IO[bytes]) -> bytes:
    """What another process has written to a file; the position, at which that process writes on, stays where it is."""
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


class RawServer:
    """A child process whose stdin and stdout are pipes of ours; its stderr goes to a file."""

    def __init__(self, command: Sequence[str | Path], *, own_group: bool = True) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=own_group,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        os.set_blocking(self._in.fileno(), False)
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []
        self._ended = False
        self.revision = HANDSHAKE
        self._next_id = 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process and all that it started, whatever state they are in."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for stream in (self._in, self._out, self._errors):
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        """What the process has written to stderr so far."""
        return written_to(self._errors).decode(errors="replace")

    def open(self, revision: str) -> Self:
        """Make the first contact as a client of this revision."""
        self.revision = revision
        if revision == ENVELOPE:
            assert ENVELOPE in self.ask("server/discover")["result"]["supportedVersions"]
        else:
            params = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            }
            answer = self.ask("initialize", params)
            assert answer["result"]["protocolVersion"] == revision
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def request(self, id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request as the client's revision writes it."""
        body = dict(params or {})
        if self.revision == ENVELOPE:
            body["_meta"] = {**ENVELOPE_META, **body.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": body}

    def tool(self, id: Any, name: str, /, progress_token: int | None = None, **arguments: Any) -> dict[str, Any]:
        """A request that calls a tool."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if progress_token is not None:
            params["_meta"] = {"progressToken": progress_token}
        return self.request(id, "tools/call", params)

    def send(self, *messages: Any) -> None:
        """Write each message as a line."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def write(self, data: bytes, *, reading: bool = True, patience: float = PATIENCE) -> int:
        """Write all of it, taking in what comes back meanwhile; without reading, as much as fits."""
        view, deadline = memoryview(data), time.monotonic() + patience
        sources = [self._out.fileno()] if reading and not self._ended else []
        while view and (left := deadline - time.monotonic()) > 0:
            readable, writable, _ = select.select(sources, [self._in.fileno()], [], left)
            if readable and not self._read():
                sources = []
            if writable:
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._in.fileno(), view[: 1 << 20]) :]
        assert not (view and reading), "the server stopped reading"
        return len(data) - len(view)

    def line(self, patience: float = PATIENCE) -> bytes | None:
        """The next line of output, or None at its end."""
        deadline = time.monotonic() + patience
        while not self._lines and not self._ended:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._out], [], [], left)[0], (
                f"no line within {patience:g} s; stderr:\n{self.stderr}"
            )
            self._read()
        return self._lines.popleft() if self._lines else None

    def message(self, patience: float = PATIENCE) -> dict[str, Any]:
        """The next message, which must be there."""
        line = self.line(patience)
        assert line is not None, f"the server ended; stderr:\n{self.stderr}"
        return json.loads(line)

    def answer(self, id: Any) -> dict[str, Any]:
        """The next answer that carries this id, type-exact; other messages before it are dropped."""
        while True:
            message = self.message()
            if "method" not in message and message.get("id") == id and type(message.get("id")) is type(id):
                return message

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self._next_id += 1
        self.send(self.request(self._next_id, method, params))
        return self.answer(self._next_id)

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def still_works(self) -> None:
        """A fresh request is answered with its own result, and nothing else is in the way."""
        self._next_id += 1
        self.send(self.tool(self._next_id, "echo", text=f"still here {self._next_id}"))
        answer = self.message()
        assert answer["id"] == self._next_id, answer
        assert answer["result"]["content"][0]["text"] == f"still here {self._next_id}"

    def close_input(self) -> None:
        """End the server's stdin."""
        self._in.close()

    def close_output(self) -> None:
        """Stop listening for good."""
        self._ended = True
        self._out.close()

    def rest(self) -> list[dict[str, Any]]:
        """Every message until the output ends."""
        found: list[dict[str, Any]] = []
        while (line := self.line()) is not None:
            found.append(json.loads(line))
        return found

    def wait(self, patience: float = PATIENCE) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(patience)

    def _read(self) -> bool:
        data = os.read(self._out.fileno(), 1 << 20)
        if not data:
            self._ended = True
            if self._rest:
                self._lines.append(b"".join(self._rest))
            return False
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest = []
            self._lines.extend(lines)
        if rest:
            self._rest.append(rest)
        return True


def script(path: str | Path, *arguments: str) -> list[str]:
    """The command that runs a Python file with this interpreter."""
    return [sys.executable, str(path), *arguments]


def eventually(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait until something observable is so, and return it."""
    deadline = time.monotonic() + patience
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [child for child in map(int, listing.read_text().split()) if alive(child)]
    return found


def group(pgid: int) -> list[int]:
    """The living processes of a process group."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == pgid and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


def memory(pid: int, field: str = "VmRSS") -> float:
    """Resident memory in MB: now, or the highest there ever was with field "VmHWM"."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/{pid}/status has no {field}")


def descriptors(pid: int | str = "self") -> dict[int, str]:
    """The open file descriptors of a process and what they are."""
    found: dict[int, str] = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(link.name)] = os.readlink(link)
    return found
