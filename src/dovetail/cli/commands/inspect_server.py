"""`dovetail inspect TARGET`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

from dovetail.cli import output
from dovetail.cli.exit_status import CommandFailed
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.schema.portability.rules import DEFAULT_PROFILES, PROFILES

if TYPE_CHECKING:
    from dovetail.cli.definitions.report import Offer, ServerReport
    from dovetail.client.client import Client


def configure_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("--schemas", action="store_true", help="show the schemas of each tool")
    parser.add_argument(
        "--for",
        dest="profiles",
        action="append",
        choices=tuple(PROFILES),
        metavar="NAME",
        help=f"check the schemas for this program or API: {', '.join(PROFILES)} (default: all but openai-strict)",
    )
    parser.add_argument("--strict", action="store_true", help="fail if there is a warning or a portability finding")
    add_client_options(parser)


def run_inspect(options: argparse.Namespace) -> int:
    """Show the report of a server."""
    options.stderr = list[str]()
    options.on_stderr = options.stderr.append
    return run_with_client(options, _inspect)


async def _inspect(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.definitions.report import inspect_offer, report_json, report_lines
    from dovetail.cli.definitions.tool_lines import output_width, print_lines

    offer = await read_offer(client, options.stderr)
    report = inspect_offer(offer, options.profiles or DEFAULT_PROFILES)
    failed = options.strict and bool(report.findings or report.warnings)
    if options.format == "json":
        if not failed:
            output.show_json(report_json(report))
    else:
        print_lines(report_lines(report, output_width(), schemas=options.schemas))
    if failed:
        raise _failure(report)


async def read_offer(client: Client, stderr: list[str]) -> Offer:
    """Ask a server for everything that it says about itself."""
    from dovetail.cli.definitions.report import Offer

    from .list import listed

    revisions: list[str] = []
    from dovetail.protocol.revisions import REVISIONS

    if "server/discover" in REVISIONS[client.revision].methods:
        found: Any = await client.request("server/discover")
        revisions = [str(name) for name in cast("dict[str, Any]", found).get("supportedVersions", [])]
    server = client.server
    lists: dict[str, Any] = {
        kind: await listed(client, kind) or [] for kind in ("tools", "resources", "templates", "prompts")
    }
    return Offer(
        "(no name)" if server is None else server.name,
        "" if server is None else server.version,
        None if server is None else server.title,
        client.revision,
        revisions,
        client.instructions,
        lists["tools"],
        lists["resources"],
        lists["templates"],
        lists["prompts"],
        list(stderr),
    )


def _failure(report: ServerReport) -> CommandFailed:
    from dovetail.cli.definitions.report import finding_json

    counts = [
        f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
        for found, what in ((report.warnings, "warning"), (report.findings, "portability finding"))
        if found
    ]
    return CommandFailed(
        "not_portable",
        f"{report.offer.name} has {' and '.join(counts)}",
        warnings=report.warnings,
        findings=[finding_json(finding) for finding in report.findings],
    )
