"""docs/api.md lists every option with its default, and every public method."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Host, HttpOptions, Server
from dovetail.server.features.prompts import PromptOptions
from dovetail.server.features.resources import ResourceOptions
from dovetail.server.features.tools import ToolOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
OPTIONS: dict[str, Callable[..., Any]] = {
    "Server": Server,
    "Client": Client,
    "Host": Host,
    "HttpOptions": HttpOptions,
}
TYPED = {"Options of tools": ToolOptions, "Options of resources": ResourceOptions, "Options of prompts": PromptOptions}
MEMBERS: dict[str, type] = {
    "Methods of Server": Server,
    "Context": Context,
    "Methods of Client": Client,
    "Methods of Host": Host,
}


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading."""
    section = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/api.md has no heading {heading!r}"
    lines = [line for line in section[1].splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(heading: str) -> list[str]:
    """Return the names in the first column of that table."""
    return [name for row in rows(heading) for name in re.findall(r"`(\w+)`", row[0])]


@pytest.mark.parametrize("heading", OPTIONS)
def test_every_option_is_listed_with_its_default(heading: str) -> None:
    parameters = inspect.signature(OPTIONS[heading]).parameters
    listed = {row[0].strip("`"): row[1] for row in rows(heading)}
    assert list(listed) == list(parameters)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            assert listed[name] == "required"
        elif not listed[name].startswith("`"):
            assert listed[name] == "shared"  # an object that has no literal
        else:
            assert ast.literal_eval(listed[name].strip("`")) == parameter.default, name


@pytest.mark.parametrize("heading", TYPED)
def test_every_option_of_a_decorator_is_listed(heading: str) -> None:
    assert named(heading) == list(TYPED[heading].__annotations__)


@pytest.mark.parametrize("heading", MEMBERS)
def test_every_public_method_is_listed(heading: str) -> None:
    public = [name for name in dir(MEMBERS[heading]) if not name.startswith("_")]
    assert sorted(named(heading)) == public
