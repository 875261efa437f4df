"""Loading a server from a Python file."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import USAGE, CommandFailed

if TYPE_CHECKING:
    from dovetail.server.app import Server

_USUAL = ("server", "app", "mcp")
_OBJECT = re.compile(r"(?P<path>.+):(?P<name>[^\W\d][\w.]*)")


def split_object(word: str) -> tuple[str, str | None]:
    """Split FILE:object; the colon of a Windows drive does not separate them."""
    match = _OBJECT.fullmatch(word)
    if match is None or not match["path"].endswith(".py"):
        return word, None
    return match["path"], match["name"]


def serve_file(path: str, name: str | None, serve_with: Callable[[Server], None] | None = None) -> None:
    """Load the file and serve until the client disconnects.

    If the file itself calls `Server.run` when it is loaded, that call serves, as with `python FILE`; unless
    another object is named, then the call is ignored and that one is served. `serve_with` replaces `Server.run`.
    """
    from dovetail.server.app import Server

    served = False
    serve = Server.run
    module = _module(path)

    def run(server: Server, *arguments: Any, **options: Any) -> None:
        nonlocal served
        if name is None or getattr(module, name, None) is server:
            served = True
            if serve_with is None:
                serve(server, *arguments, **options)
            else:
                Server.run = serve  # type: ignore[method-assign]
                serve_with(server)

    Server.run = run  # type: ignore[method-assign]
    try:
        _execute(module, path)
    finally:
        Server.run = serve  # type: ignore[method-assign]
    if not served:
        (serve_with or serve)(find_server(module, path, name))


def find_server(module: ModuleType, path: str, name: str | None) -> Server:
    """The named server, or the only plausible one of the module."""
    from dovetail.server.app import Server

    if name is not None:
        candidate: Any = module
        for part in name.split("."):
            candidate = getattr(candidate, part, None)
        if callable(candidate) and not isinstance(candidate, Server):
            candidate = candidate()
        if not isinstance(candidate, Server):
            raise CommandFailed("usage", f"{path} has no Server named {name!r}", USAGE)
        return candidate
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    for usual in _USUAL:
        if usual in servers:
            return servers[usual]
    distinct = {id(server): server for server in servers.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not servers:
        raise CommandFailed("usage", f"{path} has no Server at its top level", USAGE)
    raise CommandFailed("usage", f"{path} has several servers; name one: {path}:{' or :'.join(servers)}", USAGE)


def check_file(path: str) -> None:
    """Fail if there is no such file."""
    if not os.path.isfile(path):
        raise CommandFailed("usage", f"There is no file {path}", USAGE)


def _module(path: str) -> ModuleType:
    check_file(path)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.stdlib_module_names or name == "dovetail" or name in sys.modules:
        # A file may be called json.py; `import json` must still find the standard library.
        name = f"__dovetail_{name}__"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _execute(module: ModuleType, path: str) -> None:
    """Execute the file with its folder on sys.path, as `python FILE` does."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)
