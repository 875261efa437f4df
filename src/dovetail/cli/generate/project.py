"""The files of a new server project."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

MAX_NAME = 40
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class ProjectNames(NamedTuple):
    """The names of a project."""

    distribution: str
    """For pip, the command and the server: lower case, with hyphens."""
    package: str
    """For `import`."""


def project_names(name: str) -> ProjectNames:
    """The names for a project; ValueError with a reason if the name cannot be one."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ValueError(
            f"{name!r} cannot be the name of a project: use up to {MAX_NAME} letters, digits, '-', '_' and '.', "
            "beginning with a letter"
        )
    distribution = re.sub(r"[-_.]+", "-", name).lower()
    package = distribution.replace("-", "_")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in ("dovetail", "tests", "mcp"):
        raise ValueError(f"{name!r} cannot be the name of a project: `import {package}` means something else already")
    return ProjectNames(distribution, package)


def project_files(names: ProjectNames, *, http: bool) -> Mapping[str, str]:
    """The text of each file, by its path."""
    marks = {
        "@NAME@": names.distribution,
        "@PACKAGE@": names.package,
        "@DEPENDENCY@": "dovetail-mcp[http]" if http else "dovetail-mcp",
        "@CHECKOUT@": "'path/to/checkout[http]'" if http else "path/to/checkout",
        "@RUN@": 'server.run("http", port=8000)' if http else "server.run()",
        "@CLIENTS@": _HTTP_CLIENTS if http else _STDIO_CLIENTS,
        "@TRANSPORT@": "over HTTP at http://127.0.0.1:8000/mcp" if http else "over stdin and stdout",
    }

    def filled(text: str) -> str:
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return text if "@NAME@" not in text else filled(text)

    return {filled(path): filled(text) for path, text in _FILES.items()}


_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "@NAME@"
version = "0.1.0"
description = "A server of the Model Context Protocol."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["@DEPENDENCY@"]

[project.scripts]
@NAME@ = "@PACKAGE@.server:main"

[dependency-groups]
dev = ["pyright", "pytest>=9", "ruff"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
mcp_server = "@PACKAGE@.server:server"

[tool.ruff]
line-length = 100
src = ["src"]

[tool.ruff.lint]
select = ["ANN", "B", "E", "F", "I", "RUF", "UP", "W"]

[tool.pyright]
include = ["src", "tests"]
extraPaths = ["src"]
typeCheckingMode = "strict"
"""

_SERVER = '''\
"""The tools, resources and prompts of @NAME@."""

from dataclasses import dataclass
from typing import Annotated

from dovetail import Param, Server, ToolError

server = Server(
    "@NAME@",
    version="0.1.0",
    instructions="Measures texts.",
)


@dataclass
class TextSize:
    """The size of a text."""

    words: int
    characters: int


@server.tool(read_only=True)
def measure_text(
    text: Annotated[str, Param(description="the text to measure")],
    count_spaces: Annotated[bool, Param(description="count spaces as characters")] = True,
) -> TextSize:
    """Count the words and the characters of a text."""
    words = text.split()
    if not words:
        raise ToolError("The text is empty.")
    characters = len(text) if count_spaces else sum(map(len, words))
    return TextSize(words=len(words), characters=characters)


@server.resource("@NAME@://about", mime_type="text/plain")
def about() -> str:
    """What this server does."""
    return "This server measures texts.\\n"


@server.prompt
def shorten(text: str, words: str = "50") -> str:
    """Ask for a shorter text."""
    return f"Shorten this text to at most {words} words:\\n\\n{text}"


def main() -> None:
    """Serve @TRANSPORT@."""
    @RUN@


if __name__ == "__main__":
    main()
'''

_TESTS = '''\
"""Tests of the server that pyproject.toml names; `mcp_client` is a client of it."""

import pytest
from dovetail import Client, TextContents, ToolFailed


@pytest.mark.mcp(revisions="all")
async def test_a_text_is_measured(mcp_client: Client) -> None:
    result = await mcp_client.call("measure_text", text="two words")
    assert result.data == {"words": 2, "characters": 9}


async def test_spaces_need_not_count(mcp_client: Client) -> None:
    result = await mcp_client.call("measure_text", text="two words", count_spaces=False)
    assert result.data == {"words": 2, "characters": 8}


async def test_an_empty_text_is_an_error(mcp_client: Client) -> None:
    with pytest.raises(ToolFailed, match="The text is empty"):
        await mcp_client.call("measure_text", text=" ")


async def test_the_resource_can_be_read(mcp_client: Client) -> None:
    result = await mcp_client.read("@NAME@://about")
    [contents] = result.contents
    assert isinstance(contents, TextContents)
    assert contents.text == "This server measures texts.\\n"


async def test_the_prompt_contains_the_text(mcp_client: Client) -> None:
    result = await mcp_client.prompt("shorten", text="A long text.", words="2")
    assert "A long text." in str(result.messages[0].content)
'''

_CI = """\
name: CI

on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      fail-fast: false
      matrix:
        python: ["3.11", "3.14"]
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: ${{ matrix.python }}
      - run: python -m pip install --upgrade pip
      - run: python -m pip install --editable . --group dev
      - run: ruff check .
      - run: ruff format --check .
      - run: pyright
      - run: pytest
"""

_README = """\
# @NAME@

A server of the Model Context Protocol, written with Dovetail. It serves @TRANSPORT@.

| tool | what it does |
|---|---|
| `measure_text` | Count the words and the characters of a text. |

## Use it

```sh
pip install .
@NAME@
```

The distribution `dovetail-mcp` is not on the package index yet. Until it is, install it from a checkout of Dovetail
first, here and in `.github/workflows/ci.yml`: `pip install @CHECKOUT@`

@CLIENTS@
## Work on it

```sh
pip install --editable . --group dev
pytest
ruff check . && ruff format --check . && pyright
```

Try the server without a client:

```sh
dovetail list src/@PACKAGE@/server.py
dovetail call src/@PACKAGE@/server.py measure_text text="two words"
```
"""

_STDIO_CLIENTS = """\
Most clients read a file such as `mcp.json` with

```json
{
  "mcpServers": {
    "@NAME@": {"command": "@NAME@"}
  }
}
```
"""

_HTTP_CLIENTS = """\
Most clients read a file such as `mcp.json` with

```json
{
  "mcpServers": {
    "@NAME@": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}
  }
}
```
"""

_GITIGNORE = """\
__pycache__/
*.egg-info/
.pytest_cache/
.ruff_cache/
.venv/
build/
dist/
"""

_FILES = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    ".gitignore": _GITIGNORE,
    ".github/workflows/ci.yml": _CI,
    "src/@PACKAGE@/__init__.py": '"""A server of the Model Context Protocol."""\n',
    "src/@PACKAGE@/__main__.py": (
        '"""`python -m @PACKAGE@` runs the server."""\n\nfrom @PACKAGE@.server import main\n\nmain()\n'
    ),
    "src/@PACKAGE@/py.typed": "",
    "src/@PACKAGE@/server.py": _SERVER,
    "tests/test_server.py": _TESTS,
}
