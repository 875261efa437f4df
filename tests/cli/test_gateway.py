"""`dovetail gateway`, and the commands `list` and `call` with a gateway that misses a server."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoke import Done, dovetail
from tests.gateway.gateway_process import GatewayProcess, configuration, odd
from tests.support.http import free_port

BROKEN = {"command": sys.executable, "args": ["-c", "raise SystemExit('no disk')"]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with GatewayProcess(configuration(folder, {"works": odd("works"), "broken": BROKEN})) as running:
        yield running


def warnings(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if "behind the gateway" in line]


def test_list_warns_once_of_a_server_that_is_missing(gateway: GatewayProcess) -> None:
    done = dovetail("list", gateway.endpoint)
    assert done.code == 0 and "works__echo" in done.out
    [warning] = warnings(done)
    assert "'broken'" in warning and "no disk" in warning


def test_call_of_a_tool_that_is_there_warns_of_nothing(gateway: GatewayProcess) -> None:
    done = dovetail("call", gateway.endpoint, "works__echo", "text=hello")
    assert (done.code, done.out, done.err) == (0, "hello\n", "")


@pytest.mark.parametrize("arguments", [[], ["text=hello"]])
def test_call_of_a_tool_that_is_not_there_says_which_server_is_missing(
    gateway: GatewayProcess, arguments: list[str]
) -> None:
    done = dovetail("call", gateway.endpoint, "echo", *arguments)
    assert done.code == 5
    [warning] = warnings(done)
    assert "'broken'" in warning and "no disk" in warning
    *_, last = done.err.splitlines()
    assert last.startswith("dovetail: ") and "echo" in last


def test_call_of_a_tool_of_the_missing_server_says_why(gateway: GatewayProcess) -> None:
    done = dovetail("call", gateway.endpoint, "broken__echo", "text=hello")
    assert done.code == 5 and "no disk" in done.err


def test_the_address_of_a_gateway_is_printed_into_a_log(tmp_path: Path) -> None:
    file = configuration(tmp_path, {"works": odd("works")})
    with GatewayProcess(file, port=free_port()) as running:
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert running.stderr.splitlines() == [
            "Gateway for works",
            f"gateway serves MCP at http://127.0.0.1:{running.port}/mcp; Ctrl-C ends it.",
        ]
