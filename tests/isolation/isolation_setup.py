"""A server in processes of its own, and clients of it: different principals, or different addresses."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.isolation.isolated_server import PRINCIPALS
from tests.support.http_process import Answer, HttpCaller, HttpProcess
from tests.support.raw import ENVELOPE, HANDSHAKE

PROGRAM = Path(__file__).parent / "isolated_server.py"
ADDRESSES = dict(zip(PRINCIPALS, ("127.0.0.1", "127.0.0.2", "127.0.0.3"), strict=True))

MANY = 12
"""Requests over connections of their own, enough that two workers get some each: all at one would be one in 2,000."""

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "mcp",
}


class Configuration(NamedTuple):
    """One way to deploy the server."""

    clients: Literal["principals", "addresses"]
    store: bool
    workers: int

    def __str__(self) -> str:
        workers = "one worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{self.clients}, {'a store' if self.store else 'no store'}, {workers}"


CONFIGURATIONS = [
    Configuration(clients, store, workers)
    for clients, store, workers in itertools.product(("principals", "addresses"), (False, True), (1, 2))
]


class Place:
    """A running server, and the ways that its clients take to it."""

    def __init__(self, configuration: Configuration, folder: Path) -> None:
        self.configuration = configuration
        self.folder = folder
        store = [folder / "store.sqlite"] if configuration.store else []
        command = [sys.executable, PROGRAM, configuration.clients, str(configuration.workers), *store]
        self.server = HttpProcess(PROGRAM, command=command)

    def caller(self, name: str, revision: str = HANDSHAKE, *, session: str = "", elicits: bool = False) -> HttpCaller:
        """A client that has made its handshake, or uses a session that there is."""
        headers = {"authorization": f"Bearer {name}"} if self.configuration.clients == "principals" else {}
        capabilities = {"elicitation": {}} if elicits else None
        return HttpCaller(
            self.server, revision, capabilities, session=session, source=ADDRESSES[name], extra_headers=headers
        )

    def modern(self, name: str) -> HttpCaller:
        """A client without sessions, of the newest revision."""
        return self.caller(name, ENVELOPE)


def text_of(answer: Answer) -> str:
    """The text that a tool has returned."""
    return answer.messages()[-1]["result"]["content"][0]["text"]


def error_of(answer: Answer) -> dict[str, Any]:
    """The error that a request was answered with."""
    return answer.messages()[-1]["error"]


def admitted(answer: Answer) -> bool:
    """True if there was room for a client; if not, the refusal must tell it to try again later."""
    if answer.status == 503:
        assert int(answer.header("retry-after")) > 0
        return False
    assert answer.status in (101, 200), answer.status
    return True
