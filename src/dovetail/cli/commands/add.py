"""`dovetail add KEY -- COMMAND…` and `dovetail add KEY URL`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

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
    read_entry,
    store_secrets_and_write,
    use_keyring,
    warn_if_inputs_unsupported,
)
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.options.values import read_pairs
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.config.document import ConfigDocument
    from dovetail.config.entries import ServerEntry


def configure_add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.usage = "dovetail add KEY URL [options] | dovetail add KEY [options] -- COMMAND…  (-- before its options)"
    parser.set_defaults(takes_program=True)
    parser.add_argument("key", metavar="KEY", help="the name of the server")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="URL",
        help="the URL of the server (https:, ws:), a Python file, or a command without options",
    )
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    parser.add_argument("--cwd", metavar="DIR", help="where the server's process runs")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send with every request")
    parser.add_argument(
        "--type", choices=("http", "sse", "ws"), help="the transport for a URL (default: by its scheme)"
    )
    parser.add_argument("--replace", action="store_true", help="replace a server of the same name")
    add_secrets_option(parser)
    add_file_option(parser)
    parser.epilog = (
        "Values may hold ${VAR}, ${VAR:-default} and ${input:id}; inputs are asked for and stored encrypted. A Python "
        "file in place of the command is served by this interpreter, as `dovetail install` writes it."
    )


def run_add(options: argparse.Namespace) -> int:
    """Add the server."""
    server = _server(options)
    with ProgressDisplay(sys.stderr) as display:
        return asyncio.run(_add(options, server, TerminalPrompts(display)))


def _server(options: argparse.Namespace) -> dict[str, Any]:
    env, headers = read_pairs(options.env), read_pairs(options.header, "NAME=VALUE")
    url, command = _url_or_command(options.words, options.after_dashes)
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
            "cwd": _absolute(options.cwd),
        }
    else:
        if env or options.cwd:
            raise UsageError("--env and --cwd are for a command")
        kind = options.type or ("ws" if url.lower().startswith(("ws:", "wss:")) else "http")
        given = {"type": kind, "url": url, "headers": headers}
    return {name: value for name, value in given.items() if value}


def _url_or_command(words: list[str], after_dashes: list[str]) -> tuple[str, list[str]]:
    """The URL, or the words of the command; one of them is empty."""
    if bool(words) == bool(after_dashes):
        raise UsageError("give either a URL, or a command after --: dovetail add KEY -- COMMAND…")
    if after_dashes:
        return "", after_dashes
    if len(words) == 1 and "://" in words[0]:
        return words[0], []
    if any("://" in word for word in words[:1]):
        raise UsageError(f"one URL is enough; {words[1]!r} is too much")
    from dovetail.client.targets.addresses import address_url
    from dovetail.client.targets.python_files import python_file_command, split_object

    if len(words) == 1 and os.path.isfile(split_object(words[0])[0]):
        return "", python_file_command(words[0]) or words
    url = address_url(words[0]) if len(words) == 1 and not os.path.exists(words[0]) else None
    return (url, []) if url is not None else ("", words)


async def _add(options: argparse.Namespace, server: dict[str, Any], prompts: TerminalPrompts) -> int:
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.editing import edit_file, input_ids
    from dovetail.config.secret_inputs import extract_secrets, secrets_left_in_file

    file, key = config_path(options), options.key
    document = open_document(file)
    _require_free_key(options, document)
    without, hidden = extract_secrets(key, server, input_ids(document))
    if await use_keyring(options, prompts, [each.where for each in hidden]):
        server = without
    else:
        hidden = []
    secrets = Secrets(on_input=prompts.input_value if prompts.available else None)
    declarations = [each.declaration(key) for each in hidden]

    def change(before: ConfigDocument) -> str:
        _require_free_key(options, before)  # another process may have added it meanwhile
        return _changed(before, key, server, declarations)

    with audited("add", {key: {"entry": server}}, file):
        await store_secrets_and_write(secrets, file, hidden, lambda: edit_file(file, change))
    await forget_removed_inputs(input_ids(document), file)
    print_warnings([f"{place} looks like a secret and is in the file" for place in secrets_left_in_file(server)])
    entry, _ = read_entry(file, key)
    print_warnings(
        [
            f"{word} is resolved in the folder where a host starts; with `--cwd .` it is resolved here"
            for word in _relative_paths(entry)
        ]
    )
    if entry is not None and entry.inputs:
        warn_if_inputs_unsupported(file)
    missing = [each for each in entry.inputs if await secrets.known(each) is None] if entry is not None else []
    for wanted in missing:
        await secrets.ask(key, wanted)
    problem = entry.problem if entry is not None else None
    if problem is not None:
        print_warnings([f"the server cannot start yet: {problem}"])
    stored = [each.where for each in hidden]
    text = "\n".join([f"Added {key} to {file}.", *(f"{where} is {_place()}, not in the file." for where in stored)])
    print_result(options, text, {"file": file, "key": key, "problem": problem, "stored": stored})
    return OK


def _place() -> str:
    """The place on this machine that keeps the values of inputs."""
    import importlib.util

    from dovetail.client.auth.encryption_keys import KEY_VARIABLE, preferred_key_origin
    from dovetail.client.auth.system_keyring import KEYRING_VARIABLE

    origin = preferred_key_origin(os.environ)
    if origin == "keyring":
        return "stored encrypted, with the key in the keyring"
    if origin == "environment":
        return f"stored encrypted, with the key of {KEY_VARIABLE}"
    if os.environ.get(KEYRING_VARIABLE) == "off":
        why = f"{KEYRING_VARIABLE} is off"
    elif importlib.util.find_spec("keyring") is None:
        why = "the extra `keyring` hides the key"
    else:
        why = "this system has no keyring to hide the key in"
    return f"stored encrypted in your settings folder, with its key in a file beside it ({why})"


def _require_free_key(options: argparse.Namespace, document: ConfigDocument) -> None:
    from dovetail.config.editing import server_keys

    if options.key in server_keys(document) and not options.replace:
        raise CommandFailed(
            "exists", f"{document.file} has a server {options.key!r} already; use --replace to replace it"
        )


def _absolute(folder: str | None) -> str | None:
    """Make a path absolute, unless it begins with a variable or `~`."""
    return folder if folder is None or folder.startswith(("${", "~")) else os.path.abspath(folder)


def _relative_paths(entry: ServerEntry | None) -> list[str]:
    """Words of the command that are relative paths of files here, although it will run elsewhere."""
    if entry is None or entry.spec is None or entry.spec.cwd is not None:
        return []
    return [word for word in entry.spec.command if not os.path.isabs(word) and os.path.isfile(word)]


def _changed(document: ConfigDocument, key: str, server: dict[str, Any], declarations: list[dict[str, Any]]) -> str:
    from dovetail.config.document import ConfigDocument
    from dovetail.config.editing import input_ids, put_input, put_server, remove_input, wanted_inputs
    from dovetail.config.secret_inputs import secret_input
    from dovetail.config.variables import input_names

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
