"""A real nginx in front of servers on the loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.support.http import free_port
from tests.support.raw import eventually

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; `.ci/nginx` says how to get it")

REPLICAS_CONF = Path(__file__).resolve().parents[2] / "examples" / "deploy" / "nginx.conf"
_MAIN = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log stderr {level};
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    {access_log}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {block}
}}
"""
_REQUESTS = """log_format requests escape=json
        '{{"ended":$msec,"seconds":$request_time,"upstreams":"$upstream_addr","status":$status,"body":"$request_body"}}';
    access_log {folder}/requests requests;"""


class ProxiedRequest(NamedTuple):
    """A request that nginx has passed on."""

    began: float
    ended: float
    ports: tuple[int, ...]
    """Those that were tried, in their order: the last one had the request."""
    status: int
    body: str


def without_tls(block: str, port: int) -> str:
    """Let the server of a configuration listen at a loopback port, without TLS."""
    assert "listen 443 ssl;" in block
    return re.sub(r"^ *ssl_.*\n", "", block.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};"), flags=re.MULTILINE)


def replicas_block(port: int, upstreams: Sequence[int]) -> str:
    """Return the configuration in examples/deploy for replicas at ports of the loopback."""
    block, replaced = re.subn(
        r"(?:^ *server 10\.0\.0\.\d+:8000 (.*;)\n)+",
        lambda found: "".join(f"    server 127.0.0.1:{upstream} {found[1]}\n" for upstream in upstreams),
        REPLICAS_CONF.read_text(),
        flags=re.MULTILINE,
    )
    assert replaced == 1
    return without_tls(block, port)


class Nginx:
    """An nginx of its own; `block` is the content of its http block, `port` the one at which that listens."""

    def __init__(
        self, folder: Path, block: str, port: int, *, log_level: str = "error", log_requests: bool = False
    ) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder
        self._config = folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # its workers must get into the folder
        access_log = _REQUESTS.format(folder=folder) if log_requests else "access_log off;"
        self._config.write_text(
            _MAIN.format(user=user, folder=folder, level=log_level, block=block, access_log=access_log)
        )
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def for_replicas(cls, folder: Path, upstreams: Sequence[int], *, log_requests: bool = False) -> Self:
        """Make one with the configuration in examples/deploy; it logs nothing about replicas that are down."""
        port = free_port()
        return cls(folder, replicas_block(port, upstreams), port, log_level="crit", log_requests=log_requests)

    def requests(self) -> list[ProxiedRequest]:
        """The requests that have ended, if they are logged."""
        made: list[ProxiedRequest] = []
        for line in (self._folder / "requests").read_text().splitlines():
            each = json.loads(line)
            ports = tuple(int(found) for found in re.findall(r":(\d+)", each["upstreams"]))
            began = each["ended"] - each["seconds"]
            made.append(ProxiedRequest(began, each["ended"], ports, each["status"], each["body"]))
        return made

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return when it listens."""
        assert NGINX is not None, "nginx is not installed; `.ci/nginx` says how to get it"
        command = [NGINX, "-p", str(self._folder), "-e", "stderr", "-c", str(self._config)]
        self._process = subprocess.Popen(command)
        try:
            eventually(self._listens, "nginx listens")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it at once: whatever is open breaks."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "nginx ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False
