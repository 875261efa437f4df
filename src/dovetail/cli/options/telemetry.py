"""`--telemetry`: OpenTelemetry set up from the environment variables OTEL_*, and the middleware that records."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from typing import TYPE_CHECKING

from dovetail.types.errors import LocalError, install_extra

if TYPE_CHECKING:
    from dovetail.middleware.telemetry import Telemetry

_EXPORTERS = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_INSTANCE = "service.instance.id"
_NOT_INSTALLED = (
    f"--telemetry needs OpenTelemetry with its SDK and an exporter: {install_extra('otel')}, "
    "and pip install opentelemetry-sdk opentelemetry-exporter-otlp"
)


def add_telemetry(parser: argparse.ArgumentParser) -> None:
    """Add `--telemetry`."""
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="export traces and metrics with OpenTelemetry, as the environment variables OTEL_* say",
    )


def start_telemetry(workers: int | None = None) -> Telemetry:
    """Set OpenTelemetry up, and return the middleware; raises `LocalError` if a package is missing.

    Each of several workers has exporters of its own: the metrics of two processes must not pass for those of one.
    """
    from dovetail.middleware.telemetry import Telemetry

    try:
        import opentelemetry.sdk.trace  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise LocalError(_NOT_INSTALLED) from None
    if (workers or 1) > 1:
        os.register_at_fork(after_in_child=_set_up_in_worker)
    else:
        _set_up()
    return Telemetry()


def _set_up() -> None:
    """Set the providers, unless the program or `opentelemetry-instrument` has done so already.

    The configurator is that from which each distribution of OpenTelemetry derives its own. Its name is private, but
    nothing else reads all the variables.
    """
    from opentelemetry import trace
    from opentelemetry.sdk._configuration import _OTelSDKConfigurator  # pyright: ignore[reportPrivateUsage]

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    for variable in _EXPORTERS:
        os.environ.setdefault(variable, "otlp")  # the default of the specification, which the SDK leaves to others
    if _PROTOCOL not in os.environ and not _has_exporter("otlp_proto_grpc") and _has_exporter("otlp_proto_http"):
        os.environ[_PROTOCOL] = "http/protobuf"
    options = {}
    if "OTEL_CONFIG_FILE" not in os.environ and _INSTANCE not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        options = {"resource_attributes": {_INSTANCE: str(uuid.uuid4())}}
    try:
        _OTelSDKConfigurator().configure(**options)  # pyright: ignore[reportUnknownMemberType]
    except (ImportError, RuntimeError, ValueError) as problem:
        raise LocalError(
            f"OpenTelemetry cannot be set up: {problem}. Install the exporter (pip install "
            f"opentelemetry-exporter-otlp), or choose others with {' and '.join(_EXPORTERS)}: console, none"
        ) from problem


def _set_up_in_worker() -> None:
    from dovetail.server.run.workers import FAILED

    try:
        _set_up()
    except LocalError as problem:
        # An exception would be reported as a traceback, and the worker would serve without telemetry.
        sys.stderr.write(f"{problem}\n")
        sys.stderr.flush()
        os._exit(FAILED)


def _has_exporter(name: str) -> bool:
    from importlib.metadata import entry_points

    return bool(entry_points(group="opentelemetry_traces_exporter", name=name))
