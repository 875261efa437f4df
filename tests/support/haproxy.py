"""A real HAProxy in front of replicas on the loopback, with the configuration in examples/deploy."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.http import free_port
from tests.support.raw import eventually

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed; `.ci/haproxy` says how to get it")

REPLICAS_CFG = Path(__file__).resolve().parents[2] / "examples" / "deploy" / "haproxy.cfg"


def replicas_configuration(port: int, upstreams: Sequence[int]) -> str:
    """Return the configuration in examples/deploy for replicas at ports of the loopback, without TLS."""
    text = REPLICAS_CFG.read_text().replace("maxconn 20000", "maxconn 1000")  # fewer open files are allowed here
    text, bound = re.subn(r"bind :443 ssl .*", f"bind 127.0.0.1:{port}", text)
    ports = iter(upstreams)
    text, replaced = re.subn(r"10\.0\.0\.\d+:8000", lambda _: f"127.0.0.1:{next(ports)}", text)
    assert (bound, replaced) == (1, len(upstreams))
    return text


class HAProxy:
    """An HAProxy of its own."""

    def __init__(self, folder: Path, upstreams: Sequence[int]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = folder / "haproxy.cfg"
        self._config.write_text(replicas_configuration(self.port, upstreams))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        assert HAPROXY is not None
        self._process = subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(self._config)])
        try:
            eventually(self._listens, "HAProxy listens")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "HAProxy ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False
