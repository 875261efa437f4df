"""Each public name of the other Python libraries exists here, or is answered with our name for it or a reason."""

import inspect
import json
import subprocess
from collections.abc import Mapping

import pytest

from dovetail import Context, Server
from dovetail.server import other_names
from dovetail.server.features.prompts import PromptOptions
from dovetail.server.features.resources import ResourceOptions
from dovetail.server.features.tools import ToolOptions
from dovetail.server.mrtr.client_requests import SampleOptions
from dovetail.server.run.http import RunOptions
from tests.interop.peers import python_program

pytestmark = pytest.mark.interop


def parameters(function: object) -> set[str]:
    assert callable(function)
    return set(inspect.signature(function).parameters)


KNOWN: Mapping[str, tuple[set[str], Mapping[str, str]]] = {
    "server": (set(dir(Server)), other_names.SERVER_MEMBERS),
    "context": (set(dir(Context)), other_names.CONTEXT_MEMBERS),
    "constructor": (parameters(Server), other_names.CONSTRUCTOR_OPTIONS),
    "tool": (set(ToolOptions.__annotations__), other_names.TOOL_OPTIONS),
    "resource": ({"uri", *ResourceOptions.__annotations__}, other_names.RESOURCE_OPTIONS),
    "prompt": (set(PromptOptions.__annotations__), other_names.PROMPT_OPTIONS),
    "http": ({"transport", *RunOptions.__annotations__}, other_names.HTTP_OPTIONS),
    "mount": (parameters(Server.mount), other_names.MOUNT_OPTIONS),
    "elicit": (parameters(Context.elicit), other_names.ELICIT_OPTIONS),
    "sample": (parameters(Context.sample) | set(SampleOptions.__annotations__), other_names.SAMPLE_OPTIONS),
}
"""Names that exist here, and those that are answered with another name, by kind."""

OPTIONAL = {"tool": {"tool"}}
"""What `add_tool` of FastMCP takes is an object, not an option."""


@pytest.mark.parametrize("environment", ["fastmcp2", "fastmcp3", "ported", "mcp1", "mcp"])
def test_each_public_name_of_another_library_exists_or_is_explained(environment: str) -> None:
    program = subprocess.run(
        python_program(environment, "public_names.py"), capture_output=True, timeout=120, check=True
    )
    theirs = json.loads(program.stdout)
    assert {"server", "context", "constructor", "tool", "resource", "prompt"} <= theirs.keys()
    unknown = {
        kind: left
        for kind, names in theirs.items()
        if (left := set(names) - KNOWN[kind][0] - KNOWN[kind][1].keys() - OPTIONAL.get(kind, set()))
    }
    assert unknown == {}
