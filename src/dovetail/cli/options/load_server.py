"""Loading a server from a Python file or a module."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import USAGE, CommandFailed
from dovetail.cli.parser import UsageError
from dovetail.client.targets.python_files import split_object
from dovetail.runtime.tracebacks import wants_full_traceback
from dovetail.text.stderr_excerpt import stderr_excerpt

if TYPE_CHECKING:
    from dovetail.server.app import Server

_USUAL = ("server", "app", "mcp")
_OTHER_LIBRARIES = ("mcp", "fastmcp")


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add FILE and `-m MODULE`; arguments for the server stand after `--`."""
    parser.add_argument("file", nargs="?", metavar="FILE[:object]", help="a Python file, and the server in it")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module instead, such as package.server")
    parser.set_defaults(takes_program=True)
    parser.usage = f"{parser.prog} [options] FILE[:object] [-- ARGUMENTS…]"


class ServerSource:
    """The file or module that a server is loaded from, and the object in it, if one is named."""

    def __init__(self, *, file: str | None = None, module: str | None = None) -> None:
        if (file is None) == (module is None):
            raise UsageError("name one: a FILE, or a module with -m")
        self.name: str | None = None
        self.file: str | None = None
        if file is not None:
            self.file, self.name = split_object(file)
        self._module = module

    @property
    def label(self) -> str:
        """The source in error messages."""
        return self.file or f"The module {self._module}"

    @property
    def watched_file(self) -> str:
        """The file whose folder `--reload` watches."""
        if self.file is None:
            raise UsageError("--reload needs a FILE; name the file of the module")
        return self.file

    def load(self) -> ModuleType:
        """The module, known to `sys.modules` and not executed yet."""
        return _module(self.file) if self.file is not None else _importable(self._module or "")

    def execute(self, module: ModuleType) -> None:
        """Execute the module, as `python FILE` or `python -m` would, but not as `__main__`."""
        if self.file is not None:
            sys.path.insert(0, os.path.dirname(os.path.abspath(self.file)))
        assert module.__spec__ is not None
        assert module.__spec__.loader is not None
        with reports_errors_of(self.file or self._module or ""):
            module.__spec__.loader.exec_module(module)

    def run_as_main(self) -> None:
        """Run a server of another library, which starts itself only as `__main__`."""
        import runpy

        if self.file is not None:
            runpy.run_path(self.file, run_name="__main__")
        else:
            runpy.run_module(self._module or "", run_name="__main__", alter_sys=True)


def serve_source(
    source: ServerSource, arguments: Sequence[str] = (), serve_with: Callable[[Server], None] | None = None
) -> None:
    """Load the server and serve until the client disconnects; `arguments` are what it finds in `sys.argv`.

    If the source itself calls `Server.run` when it is loaded, that call serves, as with `python FILE`; unless
    another object is named, then the call is ignored and that one is served. `serve_with` replaces `Server.run`.
    """
    from dovetail.server.app import Server

    served = False
    serve = Server.run
    module = source.load()
    sys.argv = [source.file or module.__file__ or source.label, *arguments]

    def run(server: Server, *arguments: Any, **options: Any) -> None:
        nonlocal served
        if source.name is None or getattr(module, source.name, None) is server:
            served = True
            if serve_with is None:
                serve(server, *arguments, **options)
            else:
                Server.run = serve  # type: ignore[method-assign]
                serve_with(server)

    Server.run = run  # type: ignore[method-assign]
    try:
        source.execute(module)
        if not served and _is_of_another_library(module) and serve_with is None:
            source.run_as_main()
            return
    finally:
        Server.run = serve  # type: ignore[method-assign]
    if not served:
        (serve_with or serve)(find_server(module, source.label, source.name))


def find_server(module: ModuleType, path: str, name: str | None) -> Server:
    """The named server, or the only plausible one of the module."""
    from dovetail.server.app import Server

    shown = _shown(path)
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    if name is not None:
        candidate: Any = module
        for part in name.split("."):
            candidate = getattr(candidate, part, None)
        if _is_factory(candidate):
            with reports_errors_of(path):
                candidate = candidate()
        if not isinstance(candidate, Server):
            raise CommandFailed("usage", f"{shown} has no Server named {name!r}{_instead(candidate, servers)}", USAGE)
        return candidate
    for usual in _USUAL:
        if usual in servers:
            return servers[usual]
    distinct = {id(server): server for server in servers.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not servers:
        raise CommandFailed("usage", f"{shown} has no Server at its top level; write: server = Server(…)", USAGE)
    names = " or ".join(f"{shown}:{key}" for key in servers)
    raise CommandFailed("usage", f"{shown} has several servers; name one: {names}", USAGE)


def _is_factory(candidate: Any) -> bool:
    """True for a function without required parameters, which may return a server."""
    from dovetail.server.app import Server

    if isinstance(candidate, Server) or not callable(candidate):
        return False
    try:
        inspect.signature(candidate).bind()
    except (TypeError, ValueError):
        return False
    return True


def _instead(candidate: Any, servers: dict[str, Server]) -> str:
    """The kind of object that was named instead of a server, and the servers that there are."""
    kind = "" if candidate is None else f"; it is a {type(candidate).__name__}"
    names = " or ".join(servers)
    return f"{kind}; did you mean {names}?" if names else kind


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


@contextlib.contextmanager
def reports_errors_of(path: str) -> Generator[None]:
    """Report an exception of a file in a few lines: its own frames, and the error.

    The variable DOVETAIL_FULL_TRACEBACK keeps the whole traceback.
    """
    try:
        yield
    except CommandFailed:
        raise
    except Exception as problem:
        if wants_full_traceback():
            raise
        lines = "".join(traceback.format_exception(problem)).splitlines()
        text = "\n".join(stderr_excerpt(lines))
        raise CommandFailed("usage", f"{_shown(path)} cannot be loaded:\n{text}", USAGE) from None


def _shown(path: str) -> str:
    """The path as users write it: relative where the file is below the current folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _importable(name: str) -> ModuleType:
    """A module by its name, found from the current folder, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.loader is None:
        raise CommandFailed("usage", f"There is no module {name}; it is looked for in {os.getcwd()} first", USAGE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _is_of_another_library(module: ModuleType) -> bool:
    """True if the module uses an MCP library other than Dovetail, and has no `Server` of ours."""
    from dovetail.server.app import Server

    others = any(name in sys.modules for name in _OTHER_LIBRARIES)
    return others and not any(isinstance(value, Server) for value in vars(module).values())
