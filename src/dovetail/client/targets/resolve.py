"""Target resolution: from what a caller gives to `Client` to the kind of server that it means."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dovetail.config.entries import ServerEntry
from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel

from .command import CommandTarget
from .contract import ServerTarget
from .memory import ChannelTarget, MemoryTarget, Servable, UserChannel
from .python_files import python_file_command, with_this_interpreter
from .sockets import TcpTarget, UnixTarget, socket_path

if TYPE_CHECKING:
    from dovetail.transports.http.contract import HttpOptions

    from .http import Credentials, HttpSettings

Target: TypeAlias = "str | os.PathLike[str] | Sequence[str] | ServerEntry | Servable | Channel | CommandTarget"
"""A Python file, a command, a URL, the address of a socket, a server of a configuration file, a server in this process,
or a channel."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def http_settings(
    headers: Mapping[str, str] | None, auth: Credentials | None, options: HttpOptions | None
) -> HttpSettings | None:
    """The settings for servers behind a URL; None where the caller gave none."""
    if headers is None and auth is None and options is None:
        return None
    from .http import HttpSettings

    return HttpSettings(headers, auth, options)


def resolve_target(
    target: Target,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    settings: HttpSettings | None = None,
    *,
    inherit_env: bool = False,
    on_stderr: Callable[[str], None] | None = None,
) -> ServerTarget:
    """The server that a caller means; raises `LocalError` for what is none."""
    resolver = _Resolver(env, cwd, settings, inherit_env=inherit_env, on_stderr=on_stderr)
    if isinstance(target, str):
        return resolver.word(target)
    if isinstance(target, ServerEntry):
        return resolver.entry(target)
    if isinstance(target, os.PathLike):
        return resolver.path(os.fspath(target))
    if settings is not None:
        raise LocalError(_ONLY_URLS)
    if isinstance(target, CommandTarget):
        return target
    if isinstance(target, Servable):
        return MemoryTarget(target)
    if isinstance(target, UserChannel):
        return ChannelTarget(target)
    return resolver.command(_command_words(target))


_ONLY_URLS = "headers, auth and http are for servers behind a URL"


class _Resolver:
    """Builds the target of one client out of its options."""

    def __init__(
        self,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        settings: HttpSettings | None,
        *,
        inherit_env: bool,
        on_stderr: Callable[[str], None] | None,
    ) -> None:
        self._env = env
        self._cwd = cwd
        self._settings = settings
        self._inherit_env = inherit_env
        self._on_stderr = on_stderr

    def word(self, target: str) -> ServerTarget:
        """An address, a configured server, a Python file, or else a command line."""
        return self._address(target) or self._file(target) or self._bare_address(target) or self._command_line(target)

    def path(self, path: str) -> ServerTarget:
        """A file: of Python, of a configuration, a socket, or else a program."""
        if self._settings is None and (socket := socket_path(os.path.join(os.curdir, path))) is not None:
            return UnixTarget(socket)
        return self._file(path) or self.command([path])

    def entry(self, entry: ServerEntry) -> ServerTarget:
        """A server of a configuration; the options of the client go before its own values."""
        from .configured import launch_of

        spec = launch_of(entry)
        if spec.url is not None:
            from .http import HttpSettings

            settings = self._settings or HttpSettings(None, None, None)
            return web_target(spec.url, settings.with_defaults(spec.headers))
        env = {**spec.env, **(self._env or {})}
        return self.command(spec.command, env=env, cwd=self._cwd or spec.cwd, name=entry.key)

    def command(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> CommandTarget:
        """A program, word by word."""
        if self._settings is not None:
            raise LocalError(_ONLY_URLS)
        if not words:
            raise LocalError("The command to run is empty")
        return CommandTarget(
            words,
            self._env if env is None else env,
            self._cwd if cwd is None else cwd,
            inherit_env=self._inherit_env,
            on_stderr=self._on_stderr,
            name=name,
        )

    def _address(self, target: str) -> ServerTarget | None:
        """The server at an address with a scheme, or at a socket."""
        if self._settings is None and (path := socket_path(target)) is not None:
            return UnixTarget(path)
        scheme = _SCHEME.match(target)
        if scheme is None:
            return None
        kind = scheme[1].lower()
        if kind == "tcp" and self._settings is None:
            return TcpTarget(target)
        if kind not in ("http", "https", "ws", "wss"):
            given = " with headers or auth" if kind == "tcp" else ""
            raise LocalError(f"{target!r} cannot be reached{given}: http, https, ws, wss, unix and tcp can")
        return web_target(target, self._settings)

    def _file(self, target: str) -> ServerTarget | None:
        """The server of a Python file or of a configuration file."""
        from .configured import find_entry, split_config_word

        if (named := split_config_word(target)) is not None:
            return self.entry(find_entry(*named))
        if (words := python_file_command(target)) is not None:
            return self.command(words, name=target)
        if target and os.path.isdir(target):
            raise LocalError(
                f"{target!r} is a folder: name a Python file in it, such as {os.path.join(target, 'server.py')}"
            )
        return None

    def _bare_address(self, target: str) -> ServerTarget | None:
        from .addresses import address_url

        url = None if os.path.exists(target) else address_url(target)
        return None if url is None else web_target(url, self._settings)

    def _command_line(self, target: str) -> CommandTarget:
        try:
            words = shlex.split(target)
        except ValueError as problem:
            raise LocalError(f"The command {target!r} cannot be read: {problem}") from None
        # Whoever sets PATH chooses the interpreter.
        return self.command(words if "PATH" in (self._env or {}) else with_this_interpreter(words))


def web_target(url: str, settings: HttpSettings | None) -> ServerTarget:
    """The server behind a URL, over HTTP or WebSocket."""
    from .http import HttpSettings, HttpTarget, WebSocketTarget

    settings = settings or HttpSettings(None, None, None)
    return HttpTarget(url, settings) if url.lower().startswith("http") else WebSocketTarget(url, settings)


def _command_words(target: object) -> list[str]:
    if isinstance(target, (list, tuple)):
        words = cast("Sequence[object]", target)
        if all(isinstance(word, (str, os.PathLike)) for word in words):
            return [os.fspath(cast("str | os.PathLike[str]", word)) for word in words]
    raise LocalError(
        f"A client connects to a Python file, a command, as a string or a list of words, a URL or a Server; not to"
        f" {target!r}"
    )
