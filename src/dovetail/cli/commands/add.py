"""`dovetail add KEY -- COMMAND…` and `dovetail add KEY URL`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import OK, Failed
from dovetail.cli.options.config_options import (
    Person,
    add_file,
    add_secrets,
    chosen_file,
    entry_of,
    forget_unwanted,
    kept,
    opened,
    recorded,
    tell,
    wants_keyring,
    warn,
    warn_of_strangers,
)
from dovetail.cli.options.values import read_pairs
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.entries import ServerEntry


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.usage = "dovetail add KEY URL [options] | dovetail add KEY [options] -- COMMAND…"
    parser.add_argument("key", metavar="KEY", help="what to call the server")
    parser.add_argument("url", nargs="?", metavar="URL", help="where it is (https:, ws:)")
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    parser.add_argument("--cwd", metavar="DIR", help="where the server's process runs")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send with every request")
    parser.add_argument("--type", choices=("http", "sse", "ws"), help="how to talk to a URL (default: by its scheme)")
    parser.add_argument("--replace", action="store_true", help="in place of a server of the same name")
    add_secrets(parser)
    add_file(parser)
    parser.epilog = "Values may hold ${VAR}, ${VAR:-default} and ${input:id}; what is asked for goes to the keyring."


def run(options: argparse.Namespace) -> int:
    """Add it."""
    server = _server(options)
    with Screen(sys.stderr) as screen:
        return asyncio.run(_add(options, server, Person(screen)))


def _server(options: argparse.Namespace) -> dict[str, Any]:
    command, env, headers = options.after_dashes, read_pairs(options.env), read_pairs(options.header, "NAME=VALUE")
    if bool(command) == (options.url is not None):
        raise UsageError("give either a URL, or a command after --: dovetail add KEY -- COMMAND…")
    if not options.key.strip():
        raise UsageError("the KEY is empty")
    if command:
        if headers or options.type:
            raise UsageError("--header and --type are for a URL")
        given = {
            "type": "stdio",
            "command": command[0],
            "args": command[1:],
            "env": env,
            "cwd": _from_here(options.cwd),
        }
    else:
        if env or options.cwd:
            raise UsageError("--env and --cwd are for a command")
        kind = options.type or ("ws" if options.url.lower().startswith(("ws:", "wss:")) else "http")
        given = {"type": kind, "url": options.url, "headers": headers}
    return {name: value for name, value in given.items() if value}


async def _add(options: argparse.Namespace, server: dict[str, Any], person: Person) -> int:
    from dovetail.host.config.editing import edit_file, input_ids
    from dovetail.host.config.secret_inputs import extract_secrets, secrets_left_in_file
    from dovetail.host.secrets import Secrets

    file, key = chosen_file(options), options.key
    document = opened(file)
    _refuse_taken(options, document)
    without, hidden = extract_secrets(key, server, input_ids(document))
    if await wants_keyring(options, person, [each.where for each in hidden]):
        server = without
    else:
        hidden = []
    secrets = Secrets(on_input=person.value if person.there else None)
    declarations = [each.declaration(key) for each in hidden]

    def change(before: ConfigDocument) -> str:
        _refuse_taken(options, before)  # somebody else may have been quicker
        return _changed(before, key, server, declarations)

    with recorded("add", {key: {"entry": server}}, file):
        await kept(secrets, file, hidden, lambda: edit_file(file, change))
    await forget_unwanted(input_ids(document), file)
    warn([f"{place} looks like a secret; it stands in the file" for place in secrets_left_in_file(server)])
    entry, _ = entry_of(file, key)
    warn(
        [
            f"{word} is looked for wherever a host is started; with `--cwd .` it is looked for here"
            for word in _astray(entry)
        ]
    )
    if entry is not None and entry.inputs:
        warn_of_strangers(file)
    missing = [each for each in entry.inputs if await secrets.known(each) is None] if entry is not None else []
    for wanted in missing:
        await secrets.ask(key, wanted)
    problem = entry.problem if entry is not None else None
    if problem is not None:
        warn([f"it cannot be started yet: {problem}"])
    tell(options, f"Added {key} to {file}.", {"file": file, "key": key, "problem": problem})
    return OK


def _refuse_taken(options: argparse.Namespace, document: ConfigDocument) -> None:
    from dovetail.host.config.editing import server_keys

    if options.key in server_keys(document) and not options.replace:
        raise Failed(
            "exists", f"{document.file} has a server {options.key!r} already; --replace puts this one in its place"
        )


def _from_here(folder: str | None) -> str | None:
    """A folder as it is called everywhere; what begins with a variable or `~` is that already."""
    return folder if folder is None or folder.startswith(("${", "~")) else os.path.abspath(folder)


def _astray(entry: ServerEntry | None) -> list[str]:
    """The words of a command that name a file from here, though the command will not run here."""
    if entry is None or entry.spec is None or entry.spec.cwd is not None:
        return []
    return [word for word in entry.spec.command if not os.path.isabs(word) and os.path.isfile(word)]


def _changed(document: ConfigDocument, key: str, server: dict[str, Any], declarations: list[dict[str, Any]]) -> str:
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.config.editing import input_ids, put_input, put_server, remove_input, wanted_inputs
    from dovetail.host.config.secret_inputs import secret_input
    from dovetail.host.config.variables import input_names

    text = put_server(document, key, server)
    known = [*input_ids(document), *(each["id"] for each in declarations)]
    values = [server.get("url", ""), server.get("command", ""), server.get("cwd", ""), *server.get("args", ())]
    values += [*server.get("env", {}).values(), *server.get("headers", {}).values()]
    named = dict.fromkeys(name for value in values for name in input_names(value) if name not in known)
    for declaration in [*declarations, *(secret_input(name, f"{name} of {key}") for name in named)]:
        text = put_input(ConfigDocument(document.file, text), declaration)
    for name in wanted_inputs(document, key):
        text = remove_input(ConfigDocument(document.file, text), name)
    return text
