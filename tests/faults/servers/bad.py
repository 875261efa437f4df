"""Servers that misbehave, one for each name: `python bad.py NAME`. Plain code, so that each starts at once.

Most of them shake hands properly first and go wrong at the first tools/call.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any]], None]


def put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def reply(id: Any, **body: Any) -> None:
    put(json.dumps({"jsonrpc": "2.0", "id": id, **body}).encode() + b"\n")


def text(id: Any, words: str) -> None:
    reply(id, result={"content": [{"type": "text", "text": words}]})


def serve(on_call: Answer, on_discover: Answer | None = None, on_initialize: Answer | None = None) -> None:
    """A server of the handshake era, with the two or three answers that make it a bad one."""
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            if on_initialize is not None:
                on_initialize(message)
                continue
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            reply(id, result={**result, "serverInfo": {"name": "bad", "version": "1"}})
        elif method == "server/discover" and on_discover is not None:
            on_discover(message)
        elif method == "tools/call":
            if message["params"]["name"] == "good":
                text(id, "good")
            else:
                on_call(message)
        elif id is not None and method is not None:
            reply(id, error={"code": -32601, "message": "no such method"})


def forever() -> None:
    while True:
        time.sleep(60)


def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def exits_at_once() -> None:
    sys.stderr.write("there is no database\n")
    raise SystemExit(3)


def closes_its_output() -> None:
    os.close(1)
    forever()


def never_answers() -> None:
    sys.stderr.write("waiting\n")
    sys.stderr.flush()
    for _ in sys.stdin:
        pass


def never_reads() -> None:
    forever()


def answers_no_call() -> None:
    serve(lambda call: None)


def dies_in_a_call() -> None:
    def die(call: dict[str, Any]) -> None:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(7)

    serve(die)


def killed_in_a_call() -> None:
    serve(lambda call: os.kill(os.getpid(), signal.SIGKILL))


def dies_with_half_an_answer() -> None:
    def die(call: dict[str, Any]) -> None:
        put(b'{"jsonrpc":"2.0","id":%d,"result":{"cont' % call["id"])
        os._exit(0)

    serve(die)


def answers_with_another_id() -> None:
    def answer(call: dict[str, Any]) -> None:
        for id in (str(call["id"]), float(call["id"]), True, None, [call["id"]], call["id"] + 1000):
            text(id, "wrong")

    serve(answer)


def answers_garbage() -> None:
    """Answers with what the call says, with ID where the id belongs."""

    def answer(call: dict[str, Any]) -> None:
        wanted = call["params"]["arguments"]["answer"].replace("ID", str(call["id"]))
        wanted = wanted.replace("DEEP", "[" * 100_000 + "]" * 100_000).replace("DIGITS", "9" * 6_000)
        put(wanted.encode("latin-1") + b"\n")

    serve(answer)


def chatters_on_stdout() -> None:
    """Prints a banner, blank lines and logs between its messages, as many do."""
    put(b"Welcome to the server!\n\n\r\nListening on stdio\n{not json\n[1, 2]\n\xff\xfe\n")

    def answer(call: dict[str, Any]) -> None:
        put(b"INFO calling a tool\n")
        text(call["id"], "chatty")

    serve(answer)


def floods_garbage() -> None:
    def flood(call: dict[str, Any]) -> None:
        while True:
            put(b"log line\n" * 10_000)

    serve(flood)


def floods_notifications() -> None:
    def flood(call: dict[str, Any]) -> None:
        line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
        while True:
            put(line * 1_000)

    serve(flood)


def floods_progress() -> None:
    """Progress that never ends, so that only the hard maximum does."""

    def flood(call: dict[str, Any]) -> None:
        for n in range(10**9):
            token = call["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": n}
            put(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode())
            put(b"\n")
            time.sleep(0.01)

    serve(flood)


def floods_requests() -> None:
    def flood(call: dict[str, Any]) -> None:
        for n in range(10**9):
            put(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % n)

    serve(flood)


def huge_answer() -> None:
    """An answer of 50 MB, its id before or behind the bulk."""

    def answer(call: dict[str, Any]) -> None:
        bulk = b'"result":{"content":[{"type":"text","text":"' + b"x" * 50_000_000 + b'"}]}'
        id = b'"id":%d' % call["id"]
        first, last = (bulk, id) if call["params"]["arguments"]["id_last"] else (id, bulk)
        put(b'{"jsonrpc":"2.0",' + first + b"," + last + b"}\n")

    serve(answer)


def endless_line() -> None:
    def answer(call: dict[str, Any]) -> None:
        while True:
            put(b"x" * 1_000_000)

    serve(answer)


def exits_on_the_probe() -> None:
    """An old server that takes an unknown first message as a reason to leave."""
    serve(lambda call: text(call["id"], "old"), on_discover=lambda probe: os._exit(1))


def ignores_the_probe() -> None:
    serve(lambda call: text(call["id"], "silent"), on_discover=lambda probe: None)


def discovers() -> None:
    """Its answer to server/discover is its argument."""
    wanted = json.loads(sys.argv[2])
    serve(lambda call: text(call["id"], "fell back"), on_discover=lambda probe: reply(probe["id"], **wanted))


def initializes() -> None:
    """Its answer to initialize is its argument."""
    wanted = json.loads(sys.argv[2])
    serve(lambda call: None, on_initialize=lambda message: reply(message["id"], **wanted))


def ignores_eof() -> None:
    serve(lambda call: text(call["id"], "stubborn"))
    forever()


def ignores_eof_and_sigterm() -> None:
    ignore_signals()
    serve(lambda call: text(call["id"], "immortal"))
    forever()


def notes_its_end() -> None:
    """Writes what ended it into the file NOTE, so that a test sees the order of things."""
    note = Path(os.environ["NOTE"])

    def write(word: str) -> None:
        with note.open("a") as file:
            file.write(f"{word}\n")

    def terminated(*_: object) -> None:
        write("SIGTERM")
        if "ignore_sigterm" not in sys.argv:
            raise SystemExit

    signal.signal(signal.SIGTERM, terminated)
    serve(lambda call: None)
    write("EOF")
    if "ignore_eof" in sys.argv:
        forever()


def has_grandchildren() -> None:
    """Starts a process that ignores everything, and tells its id."""
    stubborn = "import signal,time\nfor n in (1,2,15): signal.signal(n,signal.SIG_IGN)\ntime.sleep(600)"
    child = subprocess.Popen([sys.executable, "-S", "-c", stubborn])
    serve(lambda call: text(call["id"], str(child.pid)))


def says_goodbye() -> None:
    serve(lambda call: None)
    sys.stderr.write("".join(f"goodbye {n}\n" for n in range(2000)))


def writes_to_stderr() -> None:
    def answer(call: dict[str, Any]) -> None:
        sys.stderr.buffer.write(b"plain words\nbytes \xff that are no text\n")
        sys.stderr.buffer.write(b"y" * 300_000 + b"\nafter the long line\n")
        sys.stderr.flush()
        text(call["id"], "written")

    serve(answer)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
