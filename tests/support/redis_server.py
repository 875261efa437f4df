"""Real Redis servers on free ports: one alone, a master with Sentinel, a cluster."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = 20.0
WHY_NOT = "redis-server is not installed, see .ci/redis"
PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")

needs_redis = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)


def free_port() -> int:
    """A port that nothing uses; nor the port 10,000 above it, which is the second one of a node of a cluster."""
    while True:
        with contextlib.suppress(OSError, OverflowError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            second.bind(("127.0.0.1", port + 10_000))
            return port


def ask(port: int, *command: str | bytes, timeout: float = 5.0, password: str | None = None) -> bytes:
    """The first line of the reply to a command, and as much of the rest as has arrived."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        parts = [part.encode() if isinstance(part, str) else part for part in command]
        lines = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        if password is not None:
            connection.sendall(f"AUTH {password}\r\n".encode())
            connection.recv(100)
        connection.sendall(b"*%d\r\n" % len(parts) + lines)
        reply = b""
        while not reply.endswith(b"\r\n"):
            more = connection.recv(1 << 20)
            if not more:
                break
            reply += more
    return reply


def wait_for(condition: object, what: str) -> None:
    """Wait until a function returns something true; errors of sockets count as false."""
    assert callable(condition)
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        assert time.monotonic() < end, f"{what} took more than {PATIENCE} s"
        time.sleep(0.01)


class RedisServer:
    """A `redis-server` with its files in a folder; the same port after a restart."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        password: str | None = None,
        tls: bool = False,
        config: Path | None = None,
    ) -> None:
        """With a configuration file it is a Sentinel."""
        self.folder = folder
        self.port = free_port()
        self.password = password
        self.tls = tls
        self.options = options
        self.config = config
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """Its URL, without credentials."""
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *command: str | bytes) -> bytes:
        """The reply to a command, as it comes."""
        return ask(self.port, *command, password=self.password)

    def start(self) -> None:
        """Start it, and wait until it has loaded its data."""
        assert PROGRAM is not None
        ports = ["--port", "0", "--tls-port", str(self.port)] if self.tls else ["--port", str(self.port)]
        secret = ["--requirepass", self.password] if self.password else []
        log = (self.folder / "log").open("ab")
        own = ["--bind", "127.0.0.1", "--dir", str(self.folder), *ports, *secret, *self.options]
        kind = ["--save", ""] if self.config is None else ["--sentinel"]
        arguments = [] if self.config is None else [str(self.config)]
        self.process = subprocess.Popen([PROGRAM, *arguments, *own, *kind], stdout=log, stderr=log)
        log.close()
        wait_for(lambda: self._has_ended() or self._is_ready(), "starting Redis")
        assert not self._has_ended(), f"Redis ended: {(self.folder / 'log').read_text()[-500:]}"

    def _has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def _is_ready(self) -> bool:
        if self.tls:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return self.ask("PING").startswith((b"+PONG", b"-DENIED"))

    def stop(self) -> None:
        """End it properly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """End it properly, and start it again."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend it: it accepts connections, and says nothing."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None


@contextlib.contextmanager
def redis_server(folder: Path, *options: str, password: str | None = None, tls: bool = False) -> Iterator[RedisServer]:
    """A Redis server for a while."""
    server = RedisServer(folder, *options, password=password, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class RedisCluster:
    """Three masters without replicas, each with a third of the slots."""

    def __init__(self, folder: Path) -> None:
        options = (
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            "--cluster-require-full-coverage",
            "no",
        )
        self.nodes = [RedisServer(folder / f"node{n}", *options) for n in range(3)]

    @property
    def url(self) -> str:
        """Its URL, with the address of one node."""
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def start(self) -> None:
        """Start the nodes, and wait until each knows the whole cluster."""
        for n, node in enumerate(self.nodes):
            node.start()
            node.ask("CLUSTER", "ADDSLOTS", *(str(slot) for slot in _third(n)))
            # Different epochs, so that the nodes do not need seconds to agree on one.
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(n + 1))
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", str(self.nodes[0].port))
        for node in self.nodes:
            wait_for(lambda node=node: _is_complete(node), "creating a cluster")

    def kill(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.kill()

    def owner(self, slot: int) -> RedisServer:
        """The node that was given a slot at first."""
        return next(node for n, node in enumerate(self.nodes) if slot in _third(n))

    def move(self, slot: int, to: RedisServer) -> None:
        """Give a slot without keys to another node."""
        id = to.ask("CLUSTER", "MYID").split(b"\r\n")[1]
        for node in (to, *(node for node in self.nodes if node is not to)):
            node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", id)


def _third(n: int) -> range:
    return range(n * 5462, min((n + 1) * 5462, 16_384))


def _is_complete(node: RedisServer) -> bool:
    info = node.ask("CLUSTER", "INFO")
    return b"cluster_slots_ok:16384" in info and b"cluster_state:ok" in info and b"cluster_known_nodes:3" in info


class SentinelGroup:
    """A master, a replica and a Sentinel that makes the replica the master soon after the master is gone."""

    service = "main"

    def __init__(self, folder: Path, down_after: float = 0.3) -> None:
        """`down_after` are the seconds without an answer after which the master counts as gone."""
        self.master = RedisServer(folder / "master", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
        self.replica = RedisServer(folder / "replica", "--replicaof", "127.0.0.1", str(self.master.port))
        config = folder / "sentinel.conf"
        config.write_text(
            f"sentinel monitor {self.service} 127.0.0.1 {self.master.port} 1\n"
            f"sentinel down-after-milliseconds {self.service} {round(down_after * 1000)}\n"
            f"sentinel failover-timeout {self.service} 3000\n"
        )
        self.sentinel = RedisServer(folder / "sentinel", config=config)

    @property
    def url(self) -> str:
        """Its URL."""
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{self.service}"

    def start(self) -> None:
        """Start all three, and wait until the Sentinel knows the replica."""
        for server in (self.master, self.replica, self.sentinel):
            server.start()
        wait_for(lambda: b"online" in self.master.ask("INFO", "replication"), "replication")
        wait_for(lambda: b"slaves=1" in self.sentinel.ask("INFO", "sentinel"), "Sentinel")

    def kill(self) -> None:
        """End all three."""
        for server in (self.sentinel, self.replica, self.master):
            server.kill()


@functools.cache
def shared_cluster() -> RedisCluster:
    """The cluster that all tests of this process share; it ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="dovetail-redis-")
    cluster = RedisCluster(Path(folder.name))
    cluster.start()
    atexit.register(folder.cleanup)
    atexit.register(cluster.kill)
    return cluster


@functools.cache
def shared_sentinels() -> SentinelGroup:
    """The master with Sentinel that all tests of this process share; it ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="dovetail-redis-")
    # So long that a busy machine causes no failover: the tests that share it expect none.
    group = SentinelGroup(Path(folder.name), down_after=60)
    group.start()
    atexit.register(folder.cleanup)
    atexit.register(group.kill)
    return group


@functools.cache
def shared_redis() -> RedisServer:
    """The server that all tests of this process share, each with a prefix of its own; it ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="dovetail-redis-")
    server = RedisServer(Path(folder.name))
    server.start()
    # Handlers are called in the reverse order.
    atexit.register(folder.cleanup)
    atexit.register(server.kill)
    return server
