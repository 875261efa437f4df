"""Replicas of one server, each in a process of its own, behind a real nginx in plain round robin."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from dovetail import Client, ConnectionLost
from tests.support.http_process import HttpProcess
from tests.support.nginx import Nginx
from tests.support.raw import PATIENCE

PORT_VARIABLE = "PORT_OF_REPLICA"
"""The environment variable that tells a replica its own port."""

_PORTS = range(20_000, 32_000)
"""Below the ports that the system gives to outgoing connections, so that nobody takes one while its replica is down."""


def reserved_port() -> int:
    """A port that is free now, and that no outgoing connection gets later."""
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port


class Replica:
    """`dovetail serve FILE --http --store URL` at a port that it keeps when it is started again.

    With another command, such as `gateway`, that is run in place of `serve`.
    """

    def __init__(
        self,
        name: str,
        file: str | Path,
        store: str,
        options: Sequence[str],
        environment: Mapping[str, str],
        command: str = "serve",
    ) -> None:
        self.name = name
        self.port = reserved_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._file = file
        self._command = command
        self._options = ("--http", "--store", store, *options)
        self._environment = environment
        self.process: HttpProcess | None = None
        self.earlier_stderr = ""
        """What the processes wrote that have ended."""

    def start(self) -> None:
        """Start a process, and return when it listens."""
        assert self.process is None, f"replica {self.name} is running"
        command = [sys.executable, "-m", "dovetail.cli", self._command, self._file, "--port", str(self.port)]
        self.process = HttpProcess(
            self._file,
            *self._options,
            command=[*command, "--log-level", "warning"],
            environment={**self._environment, PORT_VARIABLE: str(self.port)},
            port=self.port,
        )

    @property
    def running(self) -> HttpProcess:
        assert self.process is not None, f"replica {self.name} is not running"
        return self.process

    @property
    def pid(self) -> int:
        return self.running.process.pid

    @property
    def stderr(self) -> str:
        """What all its processes wrote to stderr."""
        return self.earlier_stderr + (self.process.stderr if self.process is not None else "")

    def kill(self) -> int:
        """End the process with SIGKILL, whatever it does, and return its id."""
        process = self.running
        pid = process.process.pid
        os.kill(pid, signal.SIGKILL)
        process.wait()
        self.close()
        return pid

    def terminate(self, patience: float = PATIENCE) -> int:
        """End the process with SIGTERM and return its exit code."""
        self.running.signal(signal.SIGTERM)
        code = self.running.wait(patience)
        self.close()
        return code

    def pause(self) -> None:
        """Stop the process with SIGSTOP: its connections stay open, and nothing is served."""
        self.running.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.running.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kill the process and start another one at the same port."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End the process if it runs, and keep what it wrote."""
        if self.process is not None:
            self.earlier_stderr += self.process.stderr
            self.process.kill()
            self.process = None


class Replicas:
    """Several replicas with one store, and nginx in front of them.

    `stores` may name a URL for each replica, such as one that goes through a relay of its own.
    """

    def __init__(
        self,
        file: str | Path,
        folder: Path,
        store: str | Sequence[str],
        *options: str,
        number: int = 3,
        environment: Mapping[str, str] | None = None,
        log_requests: bool = False,
        command: str = "serve",
        path: str = "/mcp",
    ) -> None:
        stores = itertools.repeat(store, number) if isinstance(store, str) else store
        self.environment = dict(environment or {})
        self.all = [
            Replica(str(index), file, url, options, self.environment, command)
            for index, url in enumerate(stores, start=1)
        ]
        folder.mkdir(parents=True, exist_ok=True)
        self.nginx = Nginx.for_replicas(folder, [replica.port for replica in self.all], log_requests=log_requests)
        self.path = path
        self.url = f"{self.nginx.url}{path}"
        self.sse_url = f"{self.nginx.url}/sse"

    def __getitem__(self, index: int) -> Replica:
        return self.all[index]

    def __enter__(self) -> Self:
        try:
            for replica in self.all:
                replica.start()
            self.nginx.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stderr(self) -> str:
        """What all replicas wrote to stderr."""
        return "".join(f"replica {replica.name}:\n{replica.stderr}" for replica in self.all)

    def close(self) -> None:
        self.nginx.stop()
        for replica in self.all:
            replica.close()


class Watcher:
    """Counts the changes of the counter that a client hears of."""

    def __init__(self, client: Client) -> None:
        self.changes = 0
        self.task = asyncio.create_task(self._watch(client))

    async def hears(self, other: Client) -> None:
        """Let another client change the counter until one more change is heard."""
        heard = self.changes
        while self.changes == heard and not self.task.done():
            await change(other)
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _watch(self, client: Client) -> None:
        async for _ in client.watch("counter://value"):
            self.changes += 1


async def change(client: Client) -> None:
    """Change the counter, again if a proxy on a busy machine reached no replica."""
    while True:
        try:
            await client.call("change")
            return
        except ConnectionLost:
            await asyncio.sleep(0.05)
