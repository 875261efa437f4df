"""Errors about names of other libraries say what they are called here; names that do exist are not listed."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import pytest

from dovetail import Client, Context, LocalError, Server
from dovetail.server import other_names
from dovetail.server.features.prompts import PromptOptions
from dovetail.server.features.resources import ResourceOptions
from dovetail.server.features.tools import ToolOptions
from dovetail.server.http.options import AsgiOptions
from dovetail.server.mrtr.client_requests import SampleOptions


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"annotations": {}}, "A tool has no option annotations; say read_only=True"),
        ({"structured_output": False}, "structured_output; it is called structured"),
        ({"tags": {"a"}}, "there are no tags; visible= of Server"),
        ({"tags": {"a"}, "parameters": {}}, "no option parameters, tags; parameters: it is called input_schema; tags"),
        ({"colour": "red"}, "A tool has no option colour$"),
    ],
)
def test_an_option_of_another_library_is_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        Server("s").tool(nothing, **options)


def test_an_option_for_http_of_another_library_is_explained() -> None:
    with pytest.raises(LocalError, match="has no option stateless_http; say sessions=False"):
        Server("s").asgi(stateless_http=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_duplicate_tools": "error"}, "A server has no option on_duplicate_tools; a name that is in use is always"),
        ({"port": 1, "host": "h"}, r'no option host, port; host: it is an option of server\.run\("http", …\)'),
        ({"mask_error_details": True}, r"write server\.use\(MaskErrors\(\)\), from dovetail\.middleware"),
        ({"instuctions": "x"}, r"A server has no option instuctions; did you mean instructions\?"),
        ({"debg": True}, "A server has no option debg; if you mean debug: set the level of the logger 'dovetail'"),
        ({"stateless_http": True}, r"say sessions=False, in server\.run and server\.asgi"),
    ],
)
def test_an_option_of_the_constructor_of_another_library_is_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        Server("s", **options)


def test_an_unknown_option_of_the_constructor_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Server("s", colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_options_of_mount_of_another_library_are_explained() -> None:
    options: dict[str, Any] = {"namespace": "db"}
    with pytest.raises(LocalError, match=r"server\.mount has no option namespace; it is called prefix"):
        Server("s").mount(Server("t"), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda ctx: ctx.elicit("When?", response_type=int),
            "ctx.elicit has no option response_type; it is called form",
        ),
        (lambda ctx: ctx.elicit(message="When?", schema=int), "ctx.elicit has no option schema; it is called form"),
        (lambda ctx: ctx.sample(messages="hi"), "ctx.sample has no option messages; it is called prompt"),
        (lambda ctx: ctx.sample("hi", max_tokens=1, colour="red"), "ctx.sample has no option colour"),
    ],
)
async def test_options_of_questions_of_another_library_are_explained(call: Any, message: str) -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        with pytest.raises(LocalError) as caught:
            await call(ctx)
        return str(caught.value)

    async with Client(server, on_sample=lambda _: "no") as client:
        assert (await client.call("ask")).data == message


def test_streams_of_another_library_are_answered_with_the_way_to_run() -> None:
    streams: Any = object()
    with pytest.raises(LocalError, match=r"takes the name of a transport, not streams: write server\.run\(\)"):
        Server("s").run(streams)


async def test_a_server_lists_its_own_tools_through_a_client() -> None:
    """In place of `await server.list_tools()`: the lists that clients see, from inside a handler too."""
    server = Server("s")

    @server.tool
    async def names() -> list[str]:
        async with Client(server) as client:
            return [tool.name for tool in await client.tools()]

    async with Client(server) as client:
        assert (await client.call("names")).data == ["names"]


def test_a_method_of_another_library_is_explained() -> None:
    server: Any = Server("s")
    with pytest.raises(AttributeError, match=r"'Server' object has no attribute 'add_tool'; write server\.tool"):
        server.add_tool(nothing)
    with pytest.raises(AttributeError, match=r"has no attribute 'colour'$"):
        _ = server.colour
    assert not hasattr(server, "run_stdio_async")


async def test_a_method_of_another_context_is_explained() -> None:
    server = Server("s")

    @server.tool
    async def report(ctx: Context) -> str:
        context: Any = ctx
        try:
            await context.report_progress(1, 2)
        except AttributeError as problem:
            return str(problem)
        return "reported"

    async with Client(server) as client:
        assert "write await ctx.progress(done, total, message)" in (await client.call("report")).data


@pytest.mark.parametrize(
    ("table", "own"),
    [
        (other_names.TOOL_OPTIONS, ToolOptions.__annotations__),
        (other_names.PROMPT_OPTIONS, PromptOptions.__annotations__),
        (other_names.RESOURCE_OPTIONS, ResourceOptions.__annotations__),
        (other_names.HTTP_OPTIONS, AsgiOptions.__annotations__),
        (other_names.CONSTRUCTOR_OPTIONS, signature(Server).parameters),
        (other_names.MOUNT_OPTIONS, signature(Server.mount).parameters),
        (other_names.ELICIT_OPTIONS, signature(Context.elicit).parameters),
        (other_names.SAMPLE_OPTIONS, SampleOptions.__annotations__),
        (other_names.SERVER_MEMBERS, vars(Server)),
        (other_names.CONTEXT_MEMBERS, vars(Context)),
    ],
)
def test_names_that_exist_here_are_not_listed_as_foreign(table: Mapping[str, str], own: Mapping[str, Any]) -> None:
    assert not table.keys() & own.keys()
