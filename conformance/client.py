"""The client that the conformance suite tests: it does what a scenario asks for, and exits with 0 if that worked.

    python conformance/client.py URL

The suite says in the environment what it wants: MCP_CONFORMANCE_SCENARIO is the name of the scenario,
MCP_CONFORMANCE_PROTOCOL_VERSION the revision to speak, MCP_CONFORMANCE_CONTEXT more about it, as JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from credentials import credentials

from dovetail import Client, CreateMessageParams, CreateMessageResult, DovetailError, Elicitation, Text

Scenario = Callable[[str], Coroutine[Any, Any, None]]

CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
NOT_BUILT = 3
"""Exit code for an unknown scenario."""

scenarios: dict[str, Scenario] = {}


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    """Run a function for these scenarios."""

    def add(function: Scenario) -> Scenario:
        scenarios.update(dict.fromkeys(names, function))
        return function

    return add


def connect(url: str, **options: Any) -> Client:
    """A client of the revision that the suite wants."""
    return Client(url, revision=os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION"), timeout=20, **options)


@scenario("initialize", "json-schema-ref-no-deref")
async def list_tools(url: str) -> None:
    """Connect and list the tools."""
    async with connect(url) as client:
        await client.tools()


@scenario("tools_call")
async def add_numbers(url: str) -> None:
    """Call the tool that adds."""
    async with connect(url) as client:
        await client.tools()
        result = await client.call("add_numbers", a=5, b=3)
        if "8" not in result.text:
            raise DovetailError(f"5 and 3 are not {result.text}")


@scenario("elicitation-sep1034-client-defaults")
async def take_the_defaults(url: str) -> None:
    """Accept a form and fill in nothing: the defaults go in by themselves."""
    async with connect(url, on_elicit=accept_as_it_is) as client:
        await client.tools()  # the server asks on the stream for what belongs to no request, which is open by then
        await client.call("test_client_elicitation_defaults")


@scenario("sse-retry")
async def come_back(url: str) -> None:
    """Call a tool whose response comes after the stream was closed."""
    async with connect(url) as client:
        for tool in await client.tools():
            await client.call(tool.name)


@scenario("request-metadata")
async def declare_everything(url: str) -> None:
    """Say with each request who asks, and that everything can be asked back.

    Nothing says which revision: the server refuses the first choice, and the client has to find another.
    """
    async with Client(url, timeout=20, on_elicit=accept_as_it_is, on_sample=say_hello, roots=["/"]) as client:
        await client.tools()


@scenario("sep-2322-client-request-state")
async def answer_in_rounds(url: str) -> None:
    """Call tools that need input, one that does not meanwhile, and one without resultType."""
    async with connect(url, on_elicit=confirm) as client:
        async with asyncio.TaskGroup() as together:
            together.create_task(client.call("test_mrtr_echo_state"))
            together.create_task(client.call("test_mrtr_unrelated"))
        await client.call("test_mrtr_no_state")
        await client.call("test_mrtr_no_result_type")


@scenario("http-standard-headers")
async def ask_for_each_kind(url: str) -> None:
    """Call a tool, read a resource and get a prompt."""
    async with connect(url) as client:
        for tool in await client.tools():
            await client.call(tool.name)
        for resource in await client.resources():
            await client.read(resource.uri)
        for prompt in await client.prompts():
            await client.prompt(prompt.name)


@scenario("http-custom-headers")
async def make_the_calls(url: str) -> None:
    """Make the calls that the scenario lists; their arguments are mirrored in headers."""
    async with connect(url) as client:
        await client.tools()
        for call in CONTEXT["toolCalls"]:
            await client.call(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
async def call_what_is_valid(url: str) -> None:
    """Call every tool, except those with invalid headers, which the client drops."""
    async with connect(url) as client:
        tools = await client.tools()
        for tool in tools:
            await client.call(tool.name, dict.fromkeys(tool.input_schema.get("properties", {}), "x"))


@scenario("json-schema-2020-12-preservation")
async def echo_the_schema(url: str) -> None:
    """Give the schema of one tool to another as an argument."""
    async with connect(url) as client:
        tools = {tool.name: tool for tool in await client.tools()}
        await client.call("json_schema_echo", schema=tools["json_schema_2020_12_tool"].input_schema)


async def use_all_tools(url: str) -> None:
    """Log in when the server asks for it, and call every tool.

    One server moves to another authorization server after the tools were called: it is asked once more.
    """
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    async with connect(url, auth=credentials(name, CONTEXT)) as client:
        for tool in await client.tools():
            await client.call(tool.name)
        if "migration" in name:
            await client.tools()


def accept_as_it_is(question: Elicitation) -> dict[str, Any]:
    """Accept a form unchanged."""
    return {}


def confirm(question: Elicitation) -> dict[str, Any]:
    """Accept a form."""
    return {"confirmed": True}


def say_hello(request: CreateMessageParams) -> CreateMessageResult:
    """Answer a sampling request."""
    return CreateMessageResult("assistant", Text("Hello"), "small")


def main() -> int:
    """Run the scenario that the suite names."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "tools_call")
    chosen = use_all_tools if name.startswith("auth/") else scenarios.get(name)
    if chosen is None:
        print(f"Nothing is written for the scenario {name}", file=sys.stderr)
        return NOT_BUILT
    try:
        asyncio.run(chosen(sys.argv[1]))
    except DovetailError as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
