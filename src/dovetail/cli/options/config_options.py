"""What the verbs that change a configuration file have in common."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import Failed
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen
from dovetail.cli.terminal.terminal import Closed, Terminal, someone_there, unseen

from .client_options import add_output

if TYPE_CHECKING:
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.config.secret_inputs import ExtractedSecret
    from dovetail.host.entries import Input, ServerEntry
    from dovetail.host.secrets import Secrets


def add_file(parser: argparse.ArgumentParser) -> None:
    """Which file it is about."""
    parser.add_argument(
        "--file", metavar="PATH", help="the configuration file (default: mcp.json here if there, else your own)"
    )
    add_output(parser)


def add_secrets(parser: argparse.ArgumentParser) -> None:
    """What becomes of secrets."""
    parser.add_argument(
        "--secrets",
        choices=("keyring", "file"),
        help="where values go that look like secrets (default: you are asked; the keyring where nobody can be)",
    )


def chosen_file(options: argparse.Namespace) -> str:
    """The file that is meant."""
    from dovetail.host.config.files import default_file

    return os.path.abspath(options.file) if options.file is not None else str(default_file())


def opened(file: str) -> ConfigDocument:
    """The file as it is; one that is not there is empty."""
    from dovetail.host.config.document import ConfigDocument, read_document
    from dovetail.host.config.editing import EMPTY

    return read_document(file) if os.path.lexists(file) else ConfigDocument(file, EMPTY)


def check_key(file: str, key: str) -> None:
    """Refuse a key that the file has not."""
    from dovetail.host.config.editing import server_keys

    keys = server_keys(opened(file))
    if key not in keys:
        near = difflib.get_close_matches(key, keys, 1)
        other = None if near else _standing_in(key, file)
        hint = f"; did you mean {near[0]}?" if near else f"; it stands in {other}: --file {other}" if other else ""
        raise Failed("not_found", f"{file} has no server {key!r}{hint}")


def _standing_in(key: str, but: str) -> str | None:
    """Another file that has a server of this key."""
    from dovetail.host.config.editing import server_keys
    from dovetail.host.config.errors import BadConfig
    from dovetail.host.config.files import find_files

    for each in find_files():
        with contextlib.suppress(BadConfig):
            if str(each.path) != but and key in server_keys(opened(str(each.path))):
                return str(each.path)
    return None


def warn_of_others(file: str) -> None:
    """Say that a file is not the person's alone."""
    from dovetail.host.config.dialects import repository_root
    from dovetail.host.config.reader import project_of

    folder = project_of(file, os.environ)
    if folder is not None and repository_root(folder) is not None:
        warn([f"{file} belongs to a project: whoever shares it gets this change too"])


def warn_of_strangers(file: str) -> None:
    """Say that the program whose file this is asks nobody for inputs."""
    from dovetail.host.config.files import product_of

    if (product := product_of(file)) not in (None, "vscode"):
        warn(
            [f"{file} is a file of {product}, which cannot fill in ${{input:…}}: only Dovetail starts this server now"]
        )


def entry_of(file: str, key: str) -> tuple[ServerEntry | None, list[str]]:
    """A server as it is read now, and what there is to say about it."""
    from dovetail.host.config.reader import read_config

    config = read_config(file)
    found = [entry for entry in config.entries if entry.key == key]
    return (found[0] if found else None), list(config.warnings)


def record(action: str, key: str, file: str, **details: Any) -> None:
    """Write down a change before it is made; one that cannot be recorded is not made."""
    from dovetail.policy.audit.log import Audit

    with Audit() as audit:
        audit.write("config", server=key, name=action, by="person", file=file, **details)


@contextlib.contextmanager
def recorded(action: str, keys: Mapping[str, Mapping[str, Any]], file: str) -> Generator[None]:
    """Write down changes to servers, with what there is to say of each, and afterwards if they could not be made."""
    for key, details in keys.items():
        record(action, key, file, **details)
    try:
        yield
    except BaseException as problem:
        for key in keys:
            record(f"{action} failed", key, file, problem=str(problem))
        raise


async def forget_unwanted(before: Sequence[str], file: str) -> list[str]:
    """Take values out of the keyring whose inputs the file had before, and has no more."""
    from dovetail.host.config.editing import input_ids
    from dovetail.host.entries import Input, Origin
    from dovetail.host.secrets import Secrets

    left = input_ids(opened(file))
    gone = [id for id in before if id not in left]
    for id in gone:
        await Secrets().give(Input(id=id, origin=Origin(file)), None)
    return gone


def tell(options: argparse.Namespace, text: str, facts: Mapping[str, Any]) -> None:
    """Say what was done, to a person or to a script."""
    if options.format == "json":
        output.show_json(facts)
    else:
        output.show_text(text)


def warn(texts: Sequence[str]) -> None:
    """Say on stderr what the person should look at."""
    for text in texts:
        print(f"dovetail: {output.printable(text)}", file=sys.stderr)


class Person:
    """Whoever sits at the terminal, if anybody does."""

    def __init__(self, screen: Screen) -> None:
        self._terminal = Terminal(screen) if someone_there() else None

    @property
    def there(self) -> bool:
        """Whether anybody can be asked."""
        return self._terminal is not None

    async def agrees(self, question: str, introduction: Sequence[str] = ()) -> bool:
        """Ask for a yes or no; Enter is yes, the end of input is no."""
        terminal = self._here()
        async with terminal.question():
            for line in introduction:
                terminal.say(line)
            while True:
                try:
                    answer = (await terminal.ask(f"{question} [y]es, [n]o: ")).lower()
                except Closed:
                    return False
                if answer[:1] in ("", "y", "n"):
                    return answer[:1] != "n"

    async def value(self, server: str, wanted: Input) -> str | None:
        """Ask for the value of an input, unseen where it is a secret; Enter leaves it for another time."""
        terminal = self._here()
        async with terminal.question():
            terminal.say(f"The server {server!r} wants {wanted.description or wanted.id}.")
            for number, option in enumerate(wanted.options, 1):
                terminal.say(f"  {number}) {option}")
            hint = f" [{wanted.default}]" if wanted.default is not None else ""
            while True:
                try:
                    with unseen() if wanted.secret else contextlib.nullcontext():
                        answer = await terminal.ask(f"{wanted.id}{hint}: ")
                except Closed:
                    return None
                if wanted.secret:
                    terminal.say()
                if not answer:
                    return wanted.default
                if not wanted.options or answer in wanted.options:
                    return answer
                if answer.isdecimal() and 1 <= int(answer) <= len(wanted.options):
                    return wanted.options[int(answer) - 1]
                terminal.say("  One of these, please.")

    def _here(self) -> Terminal:
        if self._terminal is None:
            raise UsageError("nobody can be asked: there is no terminal")
        return self._terminal


async def wants_keyring(options: argparse.Namespace, person: Person, places: Sequence[str]) -> bool:
    """Whether values that look like secrets go to the keyring."""
    if options.secrets is not None or not places or not person.there:
        return options.secrets != "file"
    lines = ["These values look like secrets:", *(f"  {place}" for place in places)]
    return await person.agrees("Keep them in the keyring instead of the file?", lines)


async def kept(secrets: Secrets, file: str, hidden: Sequence[ExtractedSecret], write: Callable[[], None]) -> None:
    """Put secrets into the keyring and then write the file that refers to them; both, or none."""
    from dovetail.host.entries import Input, Origin

    inputs = [(Input(id=each.id, origin=Origin(file)), each.value) for each in hidden]
    for wanted, value in inputs:
        await secrets.give(wanted, value)
    try:
        write()
    except BaseException:
        for wanted, _ in inputs:
            await secrets.give(wanted, None)
        raise
