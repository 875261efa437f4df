"""Options and helpers of the subcommands that change a configuration file."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import CommandFailed

from .client_options import add_format_option
from .terminal_prompts import TerminalPrompts

if TYPE_CHECKING:
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.document import ConfigDocument
    from dovetail.config.entries import ServerEntry
    from dovetail.config.secret_inputs import ExtractedSecret


def add_file_option(parser: argparse.ArgumentParser) -> None:
    """Add `--file` and `--format`."""
    parser.add_argument(
        "--file", metavar="PATH", help="the configuration file (default: mcp.json here if there, else your own)"
    )
    add_format_option(parser)


def add_secrets_option(parser: argparse.ArgumentParser) -> None:
    """Add `--secrets`."""
    parser.add_argument(
        "--secrets",
        choices=("keyring", "file"),
        help="where to store values that look like secrets: encrypted, with the key in the keyring if there is one, or"
        " in the file (default: ask; without a terminal encrypted)",
    )


def config_path(options: argparse.Namespace) -> str:
    """The configuration file to change."""
    from dovetail.config.files import default_file

    return os.path.abspath(options.file) if options.file is not None else str(default_file())


def open_document(file: str) -> ConfigDocument:
    """Read the file; a missing file is an empty document."""
    from dovetail.config.document import ConfigDocument, read_document
    from dovetail.config.editing import empty_text

    return read_document(file) if os.path.lexists(file) else ConfigDocument(file, empty_text(file))


def require_server(file: str, key: str) -> None:
    """Fail if the file has no server of this key."""
    from dovetail.config.editing import server_keys

    keys = server_keys(open_document(file))
    if key not in keys:
        near = difflib.get_close_matches(key, keys, 1)
        other = None if near else _other_file_with(key, file)
        hint = f"; did you mean {near[0]}?" if near else f"; it is in {other}: use --file {other}" if other else ""
        raise CommandFailed("not_found", f"{file} has no server {key!r}{hint}")


def _other_file_with(key: str, but: str) -> str | None:
    """Another configuration file with a server of this key."""
    from dovetail.config.document import BadConfig
    from dovetail.config.editing import server_keys
    from dovetail.config.files import find_files

    for each in find_files():
        with contextlib.suppress(BadConfig):
            if str(each.path) != but and key in server_keys(open_document(str(each.path))):
                return str(each.path)
    return None


def warn_if_shared(file: str) -> None:
    """Warn if the file belongs to a project that others share."""
    from dovetail.config.dialects import repository_root
    from dovetail.config.reader import project_of

    folder = project_of(file, os.environ)
    if folder is not None and repository_root(folder) is not None:
        print_warnings([f"{file} belongs to a project: everyone who shares the project gets this change"])


def warn_if_inputs_unsupported(file: str) -> None:
    """Warn if the program that owns the file does not support inputs."""
    from dovetail.config.files import product_of

    if (product := product_of(file)) not in (None, "vscode"):
        print_warnings(
            [f"{file} belongs to {product}, which has no ${{input:…}}: only Dovetail can start this server now"]
        )


def read_entry(file: str, key: str) -> tuple[ServerEntry | None, list[str]]:
    """The entry of a server, and the warnings of the file."""
    from dovetail.config.reader import read_config

    config = read_config(file)
    entry = next((entry for entry in config.entries if entry.key == key), None)
    return entry, list(config.warnings)


def audit_change(action: str, key: str, file: str, **details: Any) -> None:
    """Append a change to the audit log before it is made; if that fails, the change is not made."""
    from dovetail.policy.audit.log import Audit

    with Audit() as audit:
        audit.write("config", server=key, name=action, by="person", file=file, **details)


@contextlib.contextmanager
def audited(action: str, keys: Mapping[str, Mapping[str, Any]], file: str) -> Generator[None]:
    """Append changes of servers, with details of each, to the audit log; if the body fails, append that too."""
    for key, details in keys.items():
        audit_change(action, key, file, **details)
    try:
        yield
    except BaseException as problem:
        for key in keys:
            audit_change(f"{action} failed", key, file, problem=str(problem))
        raise


async def forget_removed_inputs(before: Sequence[str], file: str) -> list[str]:
    """Delete the stored values whose inputs are no longer in the file."""
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.editing import input_ids
    from dovetail.config.entries import Input, Origin

    left = input_ids(open_document(file))
    gone = [id for id in before if id not in left]
    for id in gone:
        await Secrets().give(Input(id=id, origin=Origin(file)), None)
    return gone


def print_result(options: argparse.Namespace, text: str, facts: Mapping[str, Any]) -> None:
    """Print the result, as text or as JSON."""
    if options.format == "json":
        output.show_json(facts)
    else:
        output.show_text(text)


def print_warnings(texts: Sequence[str]) -> None:
    """Print warnings to stderr."""
    for text in texts:
        print(f"dovetail: {output.printable(text)}", file=sys.stderr)


async def use_keyring(options: argparse.Namespace, prompts: TerminalPrompts, places: Sequence[str]) -> bool:
    """True if values that look like secrets are stored encrypted; asks the user if no option says so."""
    if options.secrets is not None or not places or not prompts.available:
        return options.secrets != "file"
    lines = ["These values look like secrets:", *(f"  {place}" for place in places)]
    return await prompts.confirm("Store them encrypted, apart from the file?", lines)


async def store_secrets_and_write(
    secrets: Secrets, file: str, hidden: Sequence[ExtractedSecret], write: Callable[[], None]
) -> None:
    """Store secrets encrypted, then write the file that refers to them; both or neither."""
    from dovetail.config.entries import Input, Origin

    inputs = [(Input(id=each.id, origin=Origin(file)), each.value) for each in hidden]
    for wanted, value in inputs:
        await secrets.give(wanted, value)
    try:
        write()
    except BaseException:
        for wanted, _ in inputs:
            await secrets.give(wanted, None)
        raise
