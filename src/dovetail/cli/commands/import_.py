"""`dovetail import [claude-desktop|claude-code|cursor|vscode|PATH]…`."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import OK, Failed
from dovetail.cli.options.config_options import (
    Person,
    add_file,
    add_secrets,
    chosen_file,
    forget_unwanted,
    kept,
    opened,
    recorded,
    tell,
    wants_keyring,
    warn,
)
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.config.importing import ImportedServer, ImportPlan

PRODUCTS = ("claude-desktop", "claude-code", "cursor", "vscode")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help=f"{', '.join(PRODUCTS)}, or a file (default: all that are there)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--replace", action="store_true", help="in place of servers of the same name")
    add_secrets(parser)
    add_file(parser)


def run(options: argparse.Namespace) -> int:
    """Show what there is, ask, and take it over."""
    with Screen(sys.stderr) as screen:
        return asyncio.run(_import(options, Person(screen)))


async def _import(options: argparse.Namespace, person: Person) -> int:
    from dovetail.host.config.editing import edit_file, input_ids
    from dovetail.host.config.importing import plan_import
    from dovetail.host.config.secret_inputs import ExtractedSecret, extract_secrets, secrets_left_in_file
    from dovetail.host.secrets import Secrets

    file = chosen_file(options)
    document = opened(file)
    plan = plan_import(_sources(options.sources, file), document, replaced=options.replace)
    await _consent(options, person, plan, file)
    hidden: list[ExtractedSecret] = []
    servers: dict[str, dict[str, Any]] = {}
    inputs = {str(wanted["id"]): wanted for one in plan.taken for wanted in one.inputs}
    declared: dict[str, dict[str, Any]] = {}
    for one in plan.taken:
        used = [*input_ids(document), *inputs, *(each.id for each in hidden)]
        servers[one.key], more = extract_secrets(one.key, one.server, used)
        hidden += more
        declared |= {each.id: each.declaration(one.key) for each in more}
    if hidden and await wants_keyring(options, person, [f"{each.id}: {each.where}" for each in hidden]):
        inputs |= declared
    else:
        hidden, servers = [], {one.key: one.server for one in plan.taken}
    details = {one.key: {"entry": servers[one.key], "source": str(one.origin)} for one in plan.taken}
    if servers:
        with recorded("import", details, file):
            await kept(
                Secrets(),
                file,
                hidden,
                lambda: edit_file(file, lambda before: _changed(before, servers, list(inputs.values()))),
            )
        await forget_unwanted(input_ids(document), file)
    for key, server in servers.items():
        warn([f"{key}: {place} looks like a secret; it stands in the file" for place in secrets_left_in_file(server)])
    facts = {
        "file": file,
        "imported": list(servers),
        "skipped": [{"key": each.key, "from": str(each.origin), "reason": each.reason} for each in plan.skipped],
        "secrets": [each.id for each in hidden],
    }
    count = len(servers)
    tell(options, f"Imported {count} server{'' if count == 1 else 's'} into {file}.", facts)
    return OK


def _sources(words: Sequence[str], target: str) -> list[str]:
    """The files that are meant; one that cannot be found is a mistake, unless nothing was named."""
    from dovetail.host.config.files import find_files

    there = [each for each in find_files() if str(each.path) != target]
    if not words:
        found = [str(each.path) for each in there if each.product in PRODUCTS]
        if not found:
            raise Failed("not_found", "There are no files of other programs; name one")
        return found
    sources: list[str] = []
    for word in words:
        if word not in PRODUCTS:
            sources.append(word)
            continue
        named = [str(each.path) for each in there if each.product == word]
        if not named:
            raise Failed("not_found", f"There is no file of {word} here; name its path")
        sources += named
    return sources


async def _consent(options: argparse.Namespace, person: Person, plan: ImportPlan, file: str) -> None:
    """Show the plan to a person, who may say no."""
    lines = [line for one in plan.taken for line in _shown(one)]
    lines += [f"Not taken: {each.key} ({each.origin}): {each.reason}" for each in plan.skipped]
    if options.yes or not plan.taken:
        if options.format == "text":
            output.show_text("\n".join(lines) or "No servers.")
        return
    if not person.there:
        raise UsageError("nobody can be asked whether to import: --yes takes everything")
    if not await person.agrees(f"Import into {file}?", lines):
        raise Failed("refused", "Nothing was imported")


def _shown(one: ImportedServer) -> list[str]:
    """A server before it is taken over: all of its command or URL, and the names of what goes with it."""
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
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.config.editing import put_input, put_server, remove_input, wanted_inputs

    text = document.text
    for key, server in servers.items():
        text = put_server(ConfigDocument(document.file, text), key, server)
    for wanted in inputs:
        text = put_input(ConfigDocument(document.file, text), wanted)
    for name in dict.fromkeys(name for key in servers for name in wanted_inputs(document, key)):
        text = remove_input(ConfigDocument(document.file, text), name)
    return text
