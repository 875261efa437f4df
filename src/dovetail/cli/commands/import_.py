"""`dovetail import [PROGRAM|PATH]…`."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import OK, CommandFailed
from dovetail.cli.options.config_options import (
    add_file_option,
    add_secrets_option,
    audited,
    config_path,
    forget_removed_inputs,
    open_document,
    print_result,
    print_warnings,
    store_secrets_and_write,
    use_keyring,
)
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.config.programs import PROGRAMS

if TYPE_CHECKING:
    from dovetail.config.document import ConfigDocument
    from dovetail.config.importing import ImportedServer, ImportPlan

PRODUCTS: tuple[str, ...] = tuple(program.name for program in PROGRAMS)


def configure_import(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help=f"{', '.join(PRODUCTS)}, or a file (default: all that are there)"
    )
    parser.add_argument("--yes", action="store_true", help="import without asking")
    parser.add_argument("--replace", action="store_true", help="replace servers of the same name")
    add_secrets_option(parser)
    add_file_option(parser)


def run_import(options: argparse.Namespace) -> int:
    """Show the servers found, ask for confirmation, and import them."""
    with ProgressDisplay(sys.stderr) as display:
        return asyncio.run(_import(options, TerminalPrompts(display)))


async def _import(options: argparse.Namespace, prompts: TerminalPrompts) -> int:
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.editing import edit_file, input_ids
    from dovetail.config.importing import plan_import
    from dovetail.config.secret_inputs import ExtractedSecret, extract_secrets, secrets_left_in_file

    file = config_path(options)
    document = open_document(file)
    plan = plan_import(_sources(options.sources, file), document, replaced=options.replace)
    await _confirm(options, prompts, plan, file)
    hidden: list[ExtractedSecret] = []
    servers: dict[str, dict[str, Any]] = {}
    inputs = {str(wanted["id"]): wanted for one in plan.taken for wanted in one.inputs}
    declared: dict[str, dict[str, Any]] = {}
    for one in plan.taken:
        used = [*input_ids(document), *inputs, *(each.id for each in hidden)]
        servers[one.key], more = extract_secrets(one.key, one.server, used)
        hidden += more
        declared |= {each.id: each.declaration(one.key) for each in more}
    if hidden and await use_keyring(options, prompts, [f"{each.id}: {each.where}" for each in hidden]):
        inputs |= declared
    else:
        hidden, servers = [], {one.key: one.server for one in plan.taken}
    details = {one.key: {"entry": servers[one.key], "source": str(one.origin)} for one in plan.taken}
    if servers:
        with audited("import", details, file):
            await store_secrets_and_write(
                Secrets(),
                file,
                hidden,
                lambda: edit_file(file, lambda before: _changed(before, servers, list(inputs.values()))),
            )
        await forget_removed_inputs(input_ids(document), file)
    for key, server in servers.items():
        print_warnings(
            [f"{key}: {place} looks like a secret and is in the file" for place in secrets_left_in_file(server)]
        )
    facts = {
        "file": file,
        "imported": list(servers),
        "skipped": [{"key": each.key, "from": str(each.origin), "reason": each.reason} for each in plan.skipped],
        "secrets": [each.id for each in hidden],
    }
    count = len(servers)
    print_result(options, f"Imported {count} server{'' if count == 1 else 's'} into {file}.", facts)
    return OK


def _sources(words: Sequence[str], target: str) -> list[str]:
    """The files to import from; a missing one is an error if it was named."""
    from dovetail.config.files import find_files

    there = [each for each in find_files() if str(each.path) != target]
    if not words:
        paths = [str(each.path) for each in there if each.product in PRODUCTS]
        if not paths:
            raise CommandFailed("not_found", "No configuration files of other programs were found; name one")
        return paths
    sources: list[str] = []
    for word in words:
        if word not in PRODUCTS:
            sources.append(word)
            continue
        named = [str(each.path) for each in there if each.product == word]
        if not named:
            raise CommandFailed("not_found", f"No configuration file of {word} was found; name its path")
        sources += named
    return sources


async def _confirm(options: argparse.Namespace, prompts: TerminalPrompts, plan: ImportPlan, file: str) -> None:
    """Show the plan and ask for confirmation."""
    lines = [line for one in plan.taken for line in _shown(one)]
    lines += [f"Skipped: {each.key} ({each.origin}): {each.reason}" for each in plan.skipped]
    if options.yes or not plan.taken:
        if options.format == "text":
            output.show_text("\n".join(lines) or "No servers.")
        return
    if not prompts.available:
        raise UsageError("there is no terminal to ask at; --yes imports everything")
    if not await prompts.confirm(f"Import into {file}?", lines):
        raise CommandFailed("refused", "Nothing was imported")


def _shown(one: ImportedServer) -> list[str]:
    """The full command or URL of a server, and the names of its variables and headers."""
    from dovetail.text.redact import redact_text

    server = one.server
    words = [str(server.get("command", "")), *map(str, server.get("args") or ())]
    reached = redact_text(str(server.get("url") or shlex.join(words)))
    lines = [f"{one.key}  ({one.origin})", f"    {reached}"]
    for section in ("env", "headers"):
        names = server.get(section)
        if isinstance(names, dict) and names:
            lines.append(f"    {section}: {', '.join(map(str, names))}")  # pyright: ignore[reportUnknownArgumentType]
    return lines


def _changed(document: ConfigDocument, servers: dict[str, dict[str, Any]], inputs: Sequence[dict[str, Any]]) -> str:
    from dovetail.config.document import ConfigDocument
    from dovetail.config.editing import put_input, put_server, remove_input, wanted_inputs

    text = document.text
    for key, server in servers.items():
        text = put_server(ConfigDocument(document.file, text), key, server)
    for wanted in inputs:
        text = put_input(ConfigDocument(document.file, text), wanted)
    for name in dict.fromkeys(name for key in servers for name in wanted_inputs(document, key)):
        text = remove_input(ConfigDocument(document.file, text), name)
    return text
