"""One server of a file: its values, with every variable filled in, or why it cannot be started."""

from __future__ import annotations

import os
import re
import shutil
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from dovetail.config.entries import Origin, ServerEntry
from dovetail.config.launch_spec import LaunchSpec

from .document import BadConfig, ConfigDocument, read_text
from .env_file import EnvFileError, parse_env
from .inputs import Inputs
from .jsonc import Array, Member, Node, Object, Scalar
from .key_typos import SERVER_KEYS, UNHEEDED, suggest_key
from .variables import INPUT, UnresolvedVariable, VariableScope, expand, input_names

Kind = Literal["stdio", "http", "sse", "ws"]

KINDS: dict[str, Kind] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "ws": "ws",
    "websocket": "ws",
}
_BARE = re.compile(r"(?:\w+ )?\$([A-Za-z_]\w*)")
"""A variable as a shell would write it, which no program fills in."""
_SCHEMES = {"http": "http", "https": "http", "ws": "ws", "wss": "ws"}


class FileContext(msgspec.Struct, frozen=True):
    """Context shared by the servers of one file."""

    document: ConfigDocument
    around: VariableScope
    inputs: Inputs
    folder: str | None
    """Working directory of commands that name none; None leaves it to the launcher."""
    checks_spelling: bool = True
    """False for servers with keys of other programs."""

    @property
    def base(self) -> str:
        """The folder that relative paths of the file refer to."""
        return self.folder or self.around.workspace


class ParsedServer(msgspec.Struct, frozen=True):
    """A server, and what else came to light."""

    entry: ServerEntry
    warnings: tuple[str, ...]
    files: tuple[str, ...]


def read_server(key: str, member: Member, surface: FileContext) -> ParsedServer:
    """Read one server; what is wrong with it becomes its `problem` and nobody else's."""
    return _ServerReader(key, member, surface).read()


class _ServerReader:
    """Reads one server of a configuration file, and collects its problems, warnings and files."""

    def __init__(self, key: str, member: Member, surface: FileContext) -> None:
        self._key = key
        self._member = member
        self._surface = surface
        self._document = surface.document
        self._problems: list[str] = []
        self._warnings: list[str] = []
        self._files: list[str] = []
        self._wanted: dict[str, None] = {}
        self._origins: dict[str, Origin] = {}

    def read(self) -> ParsedServer:
        origin, node = self._document.origin(self._member.key), self._member.value
        spec, enabled = None, True
        if not isinstance(node, Object):
            self._problem(node, "a server is to be an object: { … }")
        else:
            if self._surface.checks_spelling:
                self._check_spelling(node)
            enabled = not self._switch(node)
            spec = self._spec(node)
        if not self._key.strip():
            self._problem(self._member.key, "a server is to have a key that is not empty")
        entry = ServerEntry(
            key=self._key,
            spec=None if self._problems else spec,
            origin=origin,
            enabled=enabled,
            problem="; ".join(self._problems) or None,
            inputs=tuple(self._surface.inputs.known[name] for name in self._wanted),
            origins=self._origins,
        )
        return ParsedServer(entry, tuple(self._warnings), tuple(self._files))

    def _check_spelling(self, node: Object) -> None:
        for key, member in node.members.items():
            if meant := suggest_key(key, SERVER_KEYS):
                place = self._document.origin(member.key)
                self._warnings.append(f"{place}: {key!r} is no key of a server; did you mean {meant!r}?")
            if key in UNHEEDED and not (isinstance(member.value, Scalar) and not member.value.value):
                self._warn(member.key, f"{key}: {UNHEEDED[key]}")

    def _switch(self, node: Object) -> bool:
        value = node.get("disabled")
        if value is None:
            return False
        if isinstance(value, Scalar) and isinstance(value.value, bool):
            return value.value
        self._problem(value, "disabled is to be true or false")
        return True

    def _spec(self, node: Object) -> LaunchSpec | None:
        kind = self._kind(node)
        if kind is None:
            return None
        if kind == "stdio":
            command = (self._text(node.get("command"), "command"), *self._list(node.get("args"), "args"))
            self._check_command(node)
            return LaunchSpec(kind=kind, command=command, env=self._environment(node), cwd=self._cwd(node))
        url = self._text(node.get("url"), "url")
        self._check_url(node, url, kind)
        return LaunchSpec(kind=kind, url=url, headers=self._map(node.get("headers"), "headers"))

    def _kind(self, node: Object) -> Kind | None:
        """The kind that the file names, or the only one that its keys permit."""
        said = node.get("type")
        if said is None:
            return self._guess(node)
        word = said.value if isinstance(said, Scalar) else None
        kind = KINDS.get(word) if isinstance(word, str) else None
        if kind is None:
            self._problem(said, "there is no such type of server: stdio, http, sse and ws are known")
            return None
        self._origins["type"] = self._document.origin(said)
        needed = "command" if kind == "stdio" else "url"
        if node.get(needed) is None:
            self._problem(said, f"a server of type {word} is to have a {needed}")
            return None
        return kind

    def _guess(self, node: Object) -> Kind | None:
        command, url = node.get("command"), node.get("url")
        if command is not None and url is not None:
            self._problem(node, "the server has both a command and a url: give its type, or one of them only")
            return None
        if command is not None:
            return "stdio"
        if url is None:
            self._problem(node, "the server has neither a command nor a url")
            return None
        text = url.value if isinstance(url, Scalar) and isinstance(url.value, str) else ""
        return "ws" if re.match("wss?:", text, re.IGNORECASE) else "http"

    def _check_command(self, node: Object) -> None:
        command = node.get("command")
        text = command.value if isinstance(command, Scalar) else None
        if not isinstance(text, str):
            return
        if not text.strip():
            self._problem(node, "the command is empty")
        elif " " in text.strip() and node.get("args") is None and not os.path.exists(text) and not shutil.which(text):
            self._warn(node.members["command"].value, "the command is one word, no shell splits it; use args")

    def _check_url(self, node: Object, url: str, kind: Kind) -> None:
        if self._problems or INPUT.match(url):
            return
        try:
            parts = urlsplit(url)
            fitting = _SCHEMES.get(parts.scheme.lower()) == ("ws" if kind == "ws" else "http") and bool(parts.netloc)
        except ValueError:
            fitting = False
        if not fitting:
            schemes = "ws:// or wss://" if kind == "ws" else "http:// or https://"
            self._problem(node.members["url"].value, f"the url is to begin with {schemes} and to name a host")

    def _cwd(self, node: Object) -> str | None:
        value = node.get("cwd")
        if value is None:
            return self._surface.folder
        text = os.path.expanduser(self._text(value, "cwd"))
        # What the user fills in later may be a whole path.
        return text if INPUT.match(text) else os.path.normpath(os.path.join(self._surface.base, text))

    def _environment(self, node: Object) -> dict[str, str]:
        named = node.get("envFile")
        shared = {} if named is None else self._env_file(named)
        own = node.get("env")
        if not isinstance(own, Object):
            return {**shared, **self._map(own, "env")}
        # VS Code takes a null for a variable that is not to be set.
        unset = {name for name, member in own.members.items() if _is_null(member.value)}
        kept = Object(own.start, own.end, {name: each for name, each in own.members.items() if name not in unset})
        return {name: value for name, value in {**shared, **self._map(kept, "env")}.items() if name not in unset}

    def _env_file(self, node: Node) -> dict[str, str]:
        before = len(self._problems)
        path = os.path.expanduser(self._text(node, "envFile"))
        if len(self._problems) > before:
            return {}
        if INPUT.search(path):
            self._problem(node, "envFile can hold no ${input:…}: the file is read before anybody is asked")
            return {}
        file = os.path.normpath(os.path.join(self._surface.base, path))
        self._files.append(file)
        try:
            pairs = parse_env(read_text(file))
        except BadConfig as problem:
            self._problem(node, f"envFile: {problem}")
            return {}
        except EnvFileError as problem:
            self._problem(node, f"envFile: {Origin(file, problem.line)}: {problem}")
            return {}
        for name, (value, line) in pairs.items():
            self._origins[f"env.{name}"] = Origin(file, line)
            if INPUT.search(value) or "\0" in value:
                self._problem(node, f"envFile: {Origin(file, line)}: {name} may hold no ${{input:…}} and no NUL")
        return {name: value for name, (value, _) in pairs.items()}

    def _list(self, node: Node | None, name: str) -> list[str]:
        if node is None:
            return []
        if not isinstance(node, Array):
            self._problem(node, f"{name} is to be a list of texts")
            return []
        return [self._text(item, f"{name}.{index}") for index, item in enumerate(node.items)]

    def _map(self, node: Node | None, name: str) -> dict[str, str]:
        if node is None:
            return {}
        if not isinstance(node, Object):
            self._problem(node, f"{name} is to be an object of texts")
            return {}
        return {key: self._text(member.value, f"{name}.{key}") for key, member in node.members.items()}

    def _text(self, node: Node | None, name: str) -> str:
        """A text with its variables filled in; where that fails the server has a problem and no `spec`."""
        if node is None:
            return ""
        origin = self._document.origin(node)
        self._origins[name] = origin
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._document.text[node.start : node.end]
        if not isinstance(value, str):
            self._problem(node, f"{name} is to be a text, in double quotes")
            return ""
        try:
            filled = expand(value, self._surface.around)
        except UnresolvedVariable as problem:
            self._problem(node, f"{name}: {problem}")
            return ""
        if "\0" in filled:
            self._problem(node, f"{name} holds a NUL")
        for wanted in input_names(value):
            self._want(wanted, node, name)
        if bare := _BARE.fullmatch(value):
            self._warn(node, f"{name}: ${bare[1]} is passed on as it stands there; ${{{bare[1]}}} would be filled in")
        return filled

    def _want(self, name: str, node: Node, where: str) -> None:
        inputs = self._surface.inputs
        if name in inputs.known:
            self._wanted[name] = None
            if inputs.known[name].secret and where.startswith(("args.", "command")):
                self._warn(
                    node, f"{where}: everybody on this machine can see a command line, and {name!r} in it; use env"
                )
        elif name in inputs.refused:
            self._problem(node, inputs.refused[name])
        else:
            self._problem(node, f"the file has no input {name!r} among its inputs")

    def _problem(self, node: Node, text: str) -> None:
        self._problems.append(f"{self._document.origin(node)}: {text}")

    def _warn(self, node: Node, text: str) -> None:
        self._warnings.append(f"{self._document.origin(node)}: {text}")


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None
