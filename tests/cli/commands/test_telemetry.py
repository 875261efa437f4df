"""`--telemetry` of `dovetail serve` and `dovetail gateway`: spans and metrics, as the variables OTEL_* say."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoke import COMMAND, dovetail, environment
from tests.gateway.gateway_process import configuration, odd
from tests.middleware.test_telemetry import WITHOUT
from tests.support.http_process import HttpProcess
from tests.support.raw import ENVELOPE

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

SERVER = """
from dovetail import Server
from dovetail.middleware import Telemetry
server = Server("server", middleware={middleware})

@server.tool
def version() -> str:
    return "1"
"""
CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "console", "OTEL_SERVICE_NAME": "inn"}


def exported(
    tmp_path: Path, command: str, file: Path, *options: str, tool: str = "version"
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The spans and the metrics of a process that has served one call, and ended."""
    output = tmp_path / "output"
    words = [*COMMAND, command, str(file), "--port", "0", "--log-level", "warning", "--telemetry", *options]
    shell = ["sh", "-c", 'exec "$@" > "$0"', str(output), *words]
    home = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    with HttpProcess("", command=shell, environment={**CONSOLE, **home}) as server:
        [answer] = server.client(ENVELOPE).call(tool).messages()
        assert "result" in answer, answer
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert server.complaints in ([], ["Gateway for works"])
    values = list(_values(output.read_text()))
    return [one for one in values if "name" in one], [one for one in values if "resource_metrics" in one]


def _values(text: str) -> Any:
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        text = text[end:]
        yield value


@pytest.mark.parametrize("options", [[], ["--workers", "2"], ["--reload"]])
@pytest.mark.parametrize("middleware", ["[]", "[Telemetry()]"])
def test_a_served_call_is_one_span(middleware: str, options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER.format(middleware=middleware))
    spans, metrics = exported(tmp_path, "serve", file, *options)
    [span] = [span for span in spans if span["name"] == "tools/call version"]
    assert span["kind"] == "SpanKind.SERVER"
    attributes = span["resource"]["attributes"]
    assert attributes["service.name"] == "inn" and attributes["service.instance.id"]
    assert "mcp.server.operation.duration" in json.dumps(metrics)


def test_a_call_through_a_gateway_has_a_span(tmp_path: Path) -> None:
    file = configuration(tmp_path, {"works": odd("works")})
    spans, _ = exported(tmp_path, "gateway", file, "--trust", tool="works__pid")
    assert [span["name"] for span in spans if span["name"].startswith("tools/call")] == ["tools/call works__pid"]


@pytest.mark.parametrize("command", ["serve", "gateway"])
@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_an_exporter_that_is_not_installed_ends_the_command(command: str, workers: list[str], tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER.format(middleware=[]))
    target = str(file) if command == "serve" else str(configuration(tmp_path, {}))
    words = [command, target, "--port", "0", "--telemetry", *workers]
    done = dovetail(*words, OTEL_TRACES_EXPORTER="nonsense", OTEL_METRICS_EXPORTER="none")
    assert done.code == 1 and "Traceback" not in done.err
    assert "OpenTelemetry cannot be set up" in done.err and "'nonsense'" in done.err
    assert "opentelemetry-exporter-otlp" in done.err


def test_without_opentelemetry_it_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER.format(middleware=[]))
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    given = environment()
    done = subprocess.run(
        [*COMMAND, "serve", str(file), "--port", "0", "--telemetry"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**given, "PYTHONPATH": f"{tmp_path}:{given['PYTHONPATH']}"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("dovetail: --telemetry needs OpenTelemetry with its SDK and an exporter: pip install")
