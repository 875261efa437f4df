"""TARGET of the commands: files, modules, folders, commands, URLs, and names of configured servers."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from dovetail.cli.exit_status import UNREACHABLE, CommandFailed
from dovetail.cli.parser import MODULE_TARGET, UsageError
from dovetail.client.targets.addresses import address_url
from dovetail.client.targets.configured import choose_entry, split_config_word
from dovetail.client.targets.python_files import (
    module_command,
    python_file_command,
    split_object,
    with_this_interpreter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dovetail.cli.options.terminal_prompts import TerminalPrompts
    from dovetail.client.targets.resolve import Target

    from .configured_servers import ConfiguredServer, ConfiguredServers

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|unix:")
_USUAL_FILES = ("server.py", "app.py", "mcp_server.py", "main.py")
_PACKAGED_FILE = "src/*/server.py"
_UNTELLING = ("server", "app", "main", "mcp_server", "__main__", "mcp")
"""Names of files and modules that do not tell one server from another."""
_CONFIG_FILES = ("mcp.json", ".mcp.json")
_MAX_READ = 200_000
_NAMED_SERVER = re.compile(r"""\b(?:Server|FastMCP)\(\s*(?:name\s*=\s*)?["']([\w.-][\w .-]{0,62}[\w.-]|\w)["']""")
"""Characters of a Python file that are searched for a server."""

HELP = (
    'a Python file (server.py[:object]), a URL (https:, ws:, unix:, localhost:8000), a command in quotes ("npx …"), '
    "the name of a configured server, or FILE#name; arguments for the server after --"
)


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    """Add the TARGET argument, `-m` in its place, and arguments for the server after `--`."""
    parser.add_argument("target", metavar="TARGET", help=HELP)
    # The parser turns it into a TARGET before argparse sees it, because positional arguments follow.
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module as the TARGET, such as package.server")
    parser.set_defaults(takes_program=True, takes_target=True)


class TargetSearch:
    """Finds what the word of a user means.

    In this order: an address with a scheme, a configuration file, a Python file, the name of a configured server, a
    folder, an address without a scheme, and a command line. A word with a slash is never a name.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self._arguments = list(arguments)
        self._configured: ConfiguredServers | None = None

    def find(self, word: str) -> str | list[str] | ConfiguredServer:
        """A URL, the words of a command, or a configured server; `CommandFailed` for what is none."""
        if _ADDRESS.match(word):
            return self._url(word)
        if word.startswith(MODULE_TARGET):
            return module_command(word.removeprefix(MODULE_TARGET), self._arguments)
        if (named := split_config_word(word)) is not None:
            return self._of_file(*named)
        if (command := python_file_command(word, self._arguments)) is not None:
            return command
        server = None if _is_path(word) or " " in word else self.configured.named(word)
        if server is not None or os.path.isdir(word):
            return server or self._of_folder(word)
        url = None if os.path.exists(word) else address_url(word)
        return self._command(word) if url is None else self._url(url)

    @property
    def configured(self) -> ConfiguredServers:
        """The configured servers, read once."""
        if self._configured is None:
            from .configured_servers import find_configured_servers

            self._configured = find_configured_servers()
        return self._configured

    def _url(self, url: str) -> str:
        if self._arguments:
            raise UsageError(f"arguments after -- are for a server that is started, and {url} is not")
        return url

    def _of_file(self, file: str, key: str | None) -> ConfiguredServer:
        from .configured_servers import find_configured_servers

        found = find_configured_servers([file])
        if found.warnings and not found.servers:
            raise CommandFailed("usage", found.warnings[0], 1)
        entry = choose_entry([each.entry for each in found.servers], file, key)
        return next(each for each in found.servers if each.entry is entry)

    def _of_folder(self, folder: str) -> str | list[str] | ConfiguredServer:
        """The server of a folder.

        It is a file with a usual name, the only file with a server, its configuration, or the server of the package
        in `src`, where `dovetail init` puts it.
        """
        files = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
        named = [name for name in _USUAL_FILES if name in files]
        likely = named[:1] or [name for name in files if _mentions_server(os.path.join(folder, name))]
        if len(likely) == 1:
            return python_file_command(os.path.join(folder, likely[0]), self._arguments) or []
        for name in _CONFIG_FILES:
            if not likely and os.path.isfile(os.path.join(folder, name)):
                return self._of_file(os.path.join(folder, name), None)
        if not likely and len(packaged := sorted(Path(folder).glob(_PACKAGED_FILE))) == 1:
            return python_file_command(str(packaged[0]), self._arguments) or []
        there = f"; name one of {', '.join(likely or files)}" if likely or files else ""
        raise CommandFailed(
            "usage", f"{folder} is a folder with {'several servers' if likely else 'no server.py'}{there}", 1
        )

    def _command(self, word: str) -> list[str]:
        try:
            words = shlex.split(word)
        except ValueError as problem:
            raise UsageError(f"the command {word!r} cannot be read: {problem}") from None
        if not words:
            raise UsageError("the TARGET is empty")
        if len(words) == 1 and shutil.which(words[0]) is None and not os.path.exists(words[0]):
            keys = [each.entry.key for each in self.configured.servers]
            near = difflib.get_close_matches(word, keys, 1)
            hint = f"did you mean {near[0]}?" if near else "`dovetail servers` lists the configured ones"
            raise CommandFailed(
                "unreachable", f"There is no file, program or configured server {word!r}; {hint}", UNREACHABLE
            )
        return [*with_this_interpreter(words), *self._arguments]


async def client_target(
    found: str | list[str] | ConfiguredServer,
    prompts: TerminalPrompts,
    *,
    env: Mapping[str, str],
    cwd: str | None,
    inherit_env: bool,
    on_stderr: Callable[[str], None] | None,
    arguments: Sequence[str],
    yes: bool,
) -> Target:
    """The target for a client; a configured server is approved, and its inputs are filled in."""
    if isinstance(found, str | list):
        return found
    import msgspec

    from dovetail.client.targets.environment import shared_environment
    from dovetail.client.targets.secrets import Secrets
    from dovetail.policy.launch_target import command_target

    from .launch_approval import approve_launch

    await approve_launch(found, prompts, yes=yes)
    secrets = Secrets(on_input=prompts.input_value if prompts.available else None)
    spec = await secrets.fill(found.entry)
    if spec.url is not None:
        if arguments:
            raise UsageError(f"arguments after -- are for a server that is started, and {found.entry.key} is not")
        return msgspec.structs.replace(found.entry, spec=spec, inputs=())
    spec = msgspec.structs.replace(
        spec, command=(*spec.command, *arguments), env={**spec.env, **env}, cwd=cwd or spec.cwd
    )
    inherited = dict(os.environ) if inherit_env else shared_environment(os.environ)
    return command_target(spec, inherited, on_stderr, found.entry.key)


def url_of(word: str) -> str | None:
    """The URL that a word means, for logins; None for a server without one."""
    if "://" in word:
        return word
    search = TargetSearch()
    server = search.configured.named(word) if not _is_path(word) else None
    if server is None:
        return address_url(word)
    url = None if server.entry.spec is None else server.entry.spec.url
    if url is not None and server.scope == "project":
        from .launch_approval import approval_state

        if approval_state(server) != "approved":
            raise CommandFailed(
                "refused", f"{word!r} of {server.entry.origin} was not approved yet; use its URL: {url}"
            )
    return url


def host_name(url: str) -> str:
    """A name for the server at a URL."""
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or "server"
    parts = [part for part in host.split(".") if part not in ("www", "mcp", "api")]
    return parts[0] if parts and not host.replace(".", "").isdigit() else host


def command_name(word: str) -> str:
    """A name that tells the server from others: its own, or that of the file, the module, or the folder around it."""
    if word.startswith(MODULE_TARGET):
        parts = word.removeprefix(MODULE_TARGET).split(".")
        return next((part for part in reversed(parts) if part not in _UNTELLING), parts[0])
    path = os.path.abspath(split_object(word)[0])
    stem = PurePath(path).stem if path.endswith(".py") else PurePath(path).name
    if os.path.exists(path):
        return _named_in_file(path) or (PurePath(path).parent.name or stem if stem in _UNTELLING else stem)
    last = next((each for each in reversed(word.split()) if not each.startswith("-")), "server")
    return re.sub(r"[^\w.-]+", "-", PurePath(last).stem).strip("-") or "server"


def _is_path(word: str) -> bool:
    return os.sep in word or "/" in word or word in (os.curdir, os.pardir)


def _named_in_file(path: str) -> str | None:
    """The name of the server, if the file makes one with a literal name; the file is not run."""
    names = set(_NAMED_SERVER.findall(_beginning(path))) if path.endswith(".py") else set[str]()
    return names.pop() if len(names) == 1 else None


def _mentions_server(path: str) -> bool:
    text = _beginning(path)
    return "Server(" in text or "FastMCP(" in text


def _beginning(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_READ)
    except OSError:
        return ""
