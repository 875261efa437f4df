"""The program of a launch and the files that it names: an approval is of what runs, not only of words.

`resolve_launch` finds the program in `PATH`, and takes the SHA-256 of each file with code that is named by the command
or by a variable that steers programs. Files that these load in turn, such as modules and packages, are not looked at.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from dovetail.config.launch_spec import LaunchSpec
from dovetail.protocol.errors import LocalError

from .launch import steers_programs

MAX_FILES = 200
"""Files that one launch may name."""
MAX_BYTES = 500_000_000
"""Bytes of a file that are read; of a larger one the size counts."""

_CODE = frozenset(
    {
        *("py", "pyw", "pyz", "pyc", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "node", "wasm"),
        *("sh", "bash", "zsh", "fish", "ps1", "bat", "cmd", "exe", "com", "dll", "so", "dylib"),
        *("rb", "pl", "pm", "php", "lua", "r", "jl", "ex", "exs", "go", "rs", "jar", "class", "kts", "groovy", "cs"),
    }
)
"""Endings of files with code. A file that is named for its data, such as a database, changes at every run."""
_MAGIC = (b"#!", b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""Beginnings of scripts and programs."""
_INTERPRETERS = re.compile(
    r"(?:python|pypy|ruby|perl|php|lua|node|bun|deno|tsx|ts-node|bash|sh|zsh|dash|fish|pwsh|powershell|java|dotnet"
    r"|Rscript|julia|elixir|uv|poetry|pdm|hatch|pipenv|env)[\d.]*w?(?:\.exe)?",
    re.IGNORECASE,
)
"""Programs whose first argument is code, whatever its name is."""
_INLINE = frozenset({"-m", "-c", "-e", "-p", "--eval", "--print"})
"""Options of interpreters after which no script follows."""
_WITH_VALUE = frozenset({"-W", "-X", "-r", "-C", "-I"})
_SUBCOMMANDS = frozenset({"run", "exec", "tool", "x"})
_WITH_SUBCOMMANDS = re.compile(r"(?:uv|poetry|pdm|hatch|pipenv|bun|deno|dotnet)(?:\.exe)?", re.IGNORECASE)
_MANIFESTS = {
    "package.json": re.compile(r"(?:npm|pnpm|yarn|bun)(?:\.cmd|\.exe)?", re.IGNORECASE),
    "pyproject.toml": re.compile(r"(?:uv|poetry|pdm|hatch)(?:\.exe)?", re.IGNORECASE),
}
"""Files that name the scripts which these programs run."""
_NPX = re.compile(r"(?:npx|bunx|pnpx)(?:\.cmd|\.exe)?", re.IGNORECASE)
_ENTRIES = ("__main__.py", "index.js", "package.json")
"""Files of a folder that interpreters run."""
_FOLDER_OPTIONS = frozenset({"--directory", "--project", "--prefix", "--cwd", "--dir", "-C"})
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def resolve_launch(spec: LaunchSpec, inherited: Mapping[str, str]) -> LaunchSpec:
    """The launch with its `program` and its `files`, which it reads; `inherited` is the environment without `env`."""
    if spec.kind != "stdio" or not spec.command:
        return spec
    program = find_program(spec, inherited)
    files = {path: _digest(path) for path in _unique(_named_files(spec, program))}
    return msgspec.structs.replace(spec, program=program, files=files)


def find_program(spec: LaunchSpec, inherited: Mapping[str, str]) -> str | None:
    """The absolute path of the program of a launch; None if there is none."""
    word = spec.command[0]
    if os.path.dirname(word):
        path = os.path.normpath(os.path.join(_folder(spec), word))
        return path if os.path.isfile(path) else None
    names = [word]
    if sys.platform == "win32":
        names += [word + ending for ending in inherited.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")]
    folders = safe_path({**inherited, **spec.env}.get("PATH", os.defpath)).split(os.pathsep)
    # Not shutil.which: on Windows it looks into the current folder first, whatever PATH says.
    paths = (os.path.join(folder, name) for folder in folders for name in names if folder)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def safe_path(path: str) -> str:
    """A `PATH` without empty and relative elements, which are folders of whichever project one happens to be in."""
    # An empty PATH is the current folder again.
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder)) or os.defpath


def _named_files(spec: LaunchSpec, program: str | None) -> Iterator[str]:
    """The files with code that a launch names, each as an absolute path."""
    folder = _folder(spec)
    if program is not None and _belongs_to_project(spec, program):
        yield program
    name = os.path.basename(spec.command[0])
    words = [part for word in spec.command[1:] for part in _parts(word)]
    bases = [folder, *(os.path.join(folder, os.path.expanduser(each)) for each in _folder_options(words))]
    script = _script_index(name, spec.command[1:])
    for index, word in enumerate(spec.command[1:]):
        for path in (path for part in _parts(word) for path in _candidates(part, bases)):
            if os.path.isfile(path) and (index == script or _is_code(path)):
                yield path
            elif index == script and os.path.isdir(path):
                yield from (entry for entry in (os.path.join(path, each) for each in _ENTRIES) if os.path.isfile(entry))
    yield from _modules(words, bases)
    yield from _scripts(name, words, bases)
    for variable, value in sorted(spec.env.items()):
        if steers_programs(variable) and variable != "PATH":
            parts = re.split(rf"[\s={re.escape(os.pathsep)},;]+", value)
            yield from (path for part in parts for path in _candidates(part, [folder]) if _is_code(path))


def _script_index(name: str, words: Sequence[str]) -> int | None:
    """The place of the script among the arguments of an interpreter; None if there is none, or no interpreter."""
    if _INTERPRETERS.fullmatch(name) is None:
        return None
    subcommands = _SUBCOMMANDS if _WITH_SUBCOMMANDS.fullmatch(name) else frozenset[str]()
    is_value = False
    for index, word in enumerate(words):
        if is_value:
            is_value = False
        elif word in _INLINE:
            return None
        elif word.startswith("-"):
            is_value = "=" not in word and (word.startswith("--") or word in _WITH_VALUE)
        elif word not in subcommands:
            return index
    return None


def _parts(word: str) -> Iterator[str]:
    """A word of a command; of `--option=value` the value too, and of a line for a shell its words."""
    yield word
    if word.startswith("-") and "=" in word:
        yield word.partition("=")[2]
    if any(char.isspace() for char in word):
        try:
            yield from shlex.split(word)[:MAX_FILES]
        except ValueError:
            yield from word.split()[:MAX_FILES]


def _folder_options(words: list[str]) -> Iterator[str]:
    """The folders that a command changes into, as `uv run --directory DIR`."""
    for index, word in enumerate(words):
        option, sign, value = word.partition("=")
        if option in _FOLDER_OPTIONS:
            if sign:
                yield value
            elif index + 1 < len(words):
                yield words[index + 1]


def _modules(words: list[str], bases: list[str]) -> Iterator[str]:
    """The files of `python -m NAME`, where NAME is a module in one of the folders."""
    for option, name in pairwise(words):
        if option == "-m" and _MODULE.fullmatch(name):
            path = name.replace(".", "/")
            for each in (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"):
                yield from (file for file in _candidates(each, bases) if os.path.isfile(file))


def _scripts(name: str, words: list[str], bases: list[str]) -> Iterator[str]:
    """The manifests that name the script of a runner, and what `npx` finds in the folder instead of fetching it."""
    for manifest, runners in _MANIFESTS.items():
        if runners.fullmatch(name) and "run" in words:
            yield from (file for file in _candidates(manifest, bases) if os.path.isfile(file))
    if _NPX.fullmatch(name):
        for word in words:
            plain = re.sub(r"(?<=.)@[^/]*$", "", word).rpartition("/")[2]
            if plain and not word.startswith(("-", ".")):
                yield from (file for file in _candidates(f"node_modules/.bin/{plain}", bases) if os.path.isfile(file))


def _candidates(word: str, bases: Iterable[str]) -> Iterator[str]:
    if not word or "\0" in word or len(word) > 4096:
        return
    yield from dict.fromkeys(os.path.normpath(os.path.join(base, os.path.expanduser(word))) for base in bases)


def _is_code(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    if os.path.splitext(path)[1][1:].lower() in _CODE:
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4).startswith(_MAGIC)
    except OSError:
        return False


def _belongs_to_project(spec: LaunchSpec, program: str) -> bool:
    """True for a program in the folder that it runs in; others are installed, and updated, apart from it."""
    word = spec.command[0]
    if os.path.dirname(word) and not os.path.isabs(word):
        return True
    folder = None if spec.cwd is None else os.path.join(os.path.realpath(spec.cwd), "")
    return folder is not None and (
        os.path.abspath(program).startswith(folder) or os.path.realpath(program).startswith(folder)
    )


def _folder(spec: LaunchSpec) -> str:
    return os.path.abspath(spec.cwd or os.curdir)


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                return f"{size} bytes"
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        return f"not readable: {problem.strerror}"


def _unique(paths: Iterable[str]) -> list[str]:
    unique = dict[str, None]()
    for path in paths:
        unique[path] = None
        if len(unique) > MAX_FILES:
            raise LocalError(f"The command names more than {MAX_FILES} files, which nobody can review")
    return list(unique)
