"""docs/api.md lists every option with its default, and every public method."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, Handles, Host, HttpOptions, Param, Server, SyncContext
from dovetail.gateway import Profile, ServerSettings
from dovetail.gateway.gateway import GatewayOptions
from dovetail.server.features.prompts import PromptOptions
from dovetail.server.features.resources import ResourceOptions
from dovetail.server.features.tools import ToolOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
OPTIONS: dict[str, Callable[..., Any]] = {
    "Server": Server,
    "Client": Client,
    "Host": Host,
    "HttpOptions": HttpOptions,
    "Param": Param,
    "Gateway": Gateway,
    "ServerSettings": ServerSettings,
    "Profile": Profile,
    "Options of handles": Server("s").handles,
}
TYPED = {
    "Options of tools": ToolOptions,
    "Options of resources": ResourceOptions,
    "Options of prompts": PromptOptions,
    "Options of gateways": GatewayOptions,
}
MEMBERS: dict[str, type] = {
    "Methods of Server": Server,
    "Handles": Handles,
    "Context": Context,
    "Methods of Client": Client,
    "Methods of Host": Host,
    "Methods of Gateway": Gateway,
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
    found = inspect.signature(OPTIONS[heading]).parameters
    parameters = {name: each for name, each in found.items() if each.kind is not each.VAR_KEYWORD}
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


def test_the_context_of_plain_functions_has_the_same_names() -> None:
    assert sorted(named("Context")) == [name for name in dir(SyncContext) if not name.startswith("_")]


@pytest.mark.parametrize("heading", MEMBERS)
def test_every_public_method_is_listed(heading: str) -> None:
    public = [name for name in dir(MEMBERS[heading]) if not name.startswith("_")]
    assert sorted(named(heading)) == public


HOVER: dict[str, tuple[Any, list[str]]] = {
    "Server.tool": (Server.tool, list(ToolOptions.__annotations__)),
    "Server.resource": (Server.resource, list(ResourceOptions.__annotations__)),
    "Server.prompt": (Server.prompt, list(PromptOptions.__annotations__)),
    "Client": (Client, list(inspect.signature(Client).parameters)[1:]),
    "Client.call": (Client.call, list(inspect.signature(Client.call).parameters)[2:-1]),
}


@pytest.mark.parametrize("name", HOVER)
def test_an_editor_shows_every_option_with_its_meaning(name: str) -> None:
    documented, options = HOVER[name]
    listed = (inspect.getdoc(documented) or "").partition("Options:\n")[2]
    assert re.findall(r"^    (\w+): \S", listed, re.MULTILINE) == options


def test_completion_offers_authors_only_what_they_use() -> None:
    assert [name for name in dir(Server("x")) if not name.startswith("_")] == sorted(named("Methods of Server"))
