"""Python files, modules and bare `python` in a target: the command that runs them with an interpreter."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence

from dovetail.protocol.errors import LocalError

_OBJECT = re.compile(r"(?P<path>.+):(?P<name>[^\W\d][\w.]*)")
_INTERPRETER = re.compile(r"python(?:3(?:\.\d+)?)?(?:\.exe)?", re.IGNORECASE)
_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that are set while an environment is activated."""
_RUN = ("-m", "dovetail.cli", "run")


def split_object(word: str) -> tuple[str, str | None]:
    """Split FILE:object; the colon of a Windows drive does not separate them."""
    match = _OBJECT.fullmatch(word)
    if match is None or not match["path"].endswith(".py"):
        return word, None
    return match["path"], match["name"]


def python_file_command(word: str, arguments: Sequence[str] = ()) -> list[str] | None:
    """The command that serves a Python file (`server.py`, `server.py:object`); None for another word.

    This interpreter runs it through `dovetail run`, so the file need not call `Server.run`.
    """
    path, _ = split_object(word)
    if not path.endswith(".py"):
        return None
    if os.path.isfile(path):
        whole = os.path.abspath(path) + word[len(path) :]
        # -P: the current folder is no place for modules of a file elsewhere.
        return [sys.executable, "-P", *_RUN, whole, *_after_dashes(arguments)]
    if any(char.isspace() for char in path):
        return None  # a command that ends with a file: python server.py
    raise LocalError(f"There is no file {path}{_near(path)}")


def module_command(module: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that serves a module (`package.server`), found from the current folder as `python -m` finds it."""
    return [sys.executable, *_RUN, "-m", module, *_after_dashes(arguments)]


def with_this_interpreter(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """The words of a command line, with this interpreter in place of a bare `python` or `python3`.

    While a virtual environment is activated the words stay as they are, because `PATH` leads to its interpreter.
    """
    if words and _INTERPRETER.fullmatch(words[0]) and not any(environ.get(name) for name in _ACTIVATED):
        name = words[0].lower().removesuffix(".exe")
        if name in ("python", "python3", f"python3.{sys.version_info.minor}"):
            return [sys.executable, *words[1:]]
    return list(words)


def _after_dashes(arguments: Sequence[str]) -> list[str]:
    return ["--", *arguments] if arguments else []


def _near(path: str) -> str:
    """A hint at a file of the same folder whose name is nearly right."""
    folder, name = os.path.split(path)
    try:
        files = [each for each in os.listdir(folder or os.curdir) if each.endswith(".py")]
    except OSError:
        return f": there is no folder {folder}"
    near = difflib.get_close_matches(name, files, 1)
    return f"; did you mean {os.path.join(folder, near[0])}?" if near else f" in {os.path.abspath(folder)}"
