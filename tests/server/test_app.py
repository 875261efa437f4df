"""`Server`: every way to offer something, and what clients are told of it."""

import logging
from functools import partial
from typing import Any

import pytest

from dovetail import Client, Context, Extension, Icon, Server
from dovetail.protocol.errors import LocalError
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, NEWEST, REVISIONS
from dovetail.types.content import Annotations
from dovetail.types.messages import SubscriptionFilter
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)


def names(server: Server) -> list[str]:
    return [tool.name for tool in server._core.tools]


class TestTool:
    async def test_bare(self):
        server = Server("s")

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        assert add(1, 2) == 3
        async with Client(server) as client:
            assert (await client.call("add", a=1, b=2)).data == 3

    async def test_with_options(self):
        server = Server("s")

        @server.tool(
            name="forecast",
            title="Forecast",
            description="Tells the weather.",
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=True,
            icons=[Icon("https://example.com/i.png")],
            meta={"com.example/x": 1},
        )
        def predict(city: str) -> str:
            return f"Rain in {city}"

        assert predict("Lima") == "Rain in Lima"
        async with Client(server) as client:
            (tool,) = await client.tools()
            assert (tool.name, tool.title, tool.description) == ("forecast", "Forecast", "Tells the weather.")
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.destructive_hint is False
            assert tool.annotations.idempotent_hint is True
            assert tool.annotations.open_world_hint is True
            assert tool.icons == [Icon("https://example.com/i.png")]
            assert tool.meta == {"com.example/x": 1}

    def test_options_that_were_not_given_are_not_made_up(self):
        server = Server("s")
        server.tool(lambda: None, name="bare")
        (tool,) = server._core.tools
        assert (tool.definition.annotations, tool.definition.title, tool.definition.icons) == (None, None, None)

    def test_called_with_the_function(self):
        server = Server("s")

        def one() -> None: ...

        assert server.tool(one) is one
        assert server.tool(one, name="other") is one
        assert names(server) == ["one", "other"]

    async def test_a_method(self):
        class Shop:
            def __init__(self, price: int) -> None:
                self.price = price

            async def cost(self, count: int) -> int:
                return self.price * count

        server = Server("s")
        server.tool(Shop(3).cost)
        async with Client(server) as client:
            assert (await client.call("cost", count=4)).data == 12

    async def test_a_partial_and_a_callable_object(self):
        class Doubler:
            def __call__(self, n: int) -> int:
                return n * 2

        def scale(factor: int, n: int) -> int:
            return factor * n

        server = Server("s")
        server.tool(Doubler(), name="double")
        server.tool(partial(scale, 3), name="triple")
        async with Client(server) as client:
            assert (await client.call("double", n=2)).data == 4
            assert (await client.call("triple", n=2)).data == 6

    @pytest.mark.parametrize("function", [lambda: None, partial(print)])
    def test_what_has_no_name_needs_one(self, function: Any):
        with pytest.raises(LocalError, match=r"A tool needs a name: give name=…"):
            Server("s").tool(function)

    def test_a_name_stands_once(self):
        server = Server("s")
        server.tool(lambda: None, name="a")
        with pytest.raises(LocalError, match="There is a tool 'a' already"):
            server.tool(lambda: None, name="a")

    @pytest.mark.parametrize("name", ["with space", "ü", "x" * 129, "a/b"])
    def test_an_unusual_name_is_only_warned_about(self, name: str, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.WARNING)
        server = Server("s")
        server.tool(lambda: None, name=name)
        assert "The tool name" in caplog.text
        assert names(server) == [name]

    def test_a_usual_name_is_not(self, caplog: pytest.LogCaptureFixture):
        Server("s").tool(lambda: None, name="a_B-1.c")
        assert caplog.text == ""

    def test_an_option_that_does_not_exist_is_named(self):
        with pytest.raises(LocalError, match="A tool has no option colour"):
            Server("s").tool(colour="red")(lambda: None)  # type: ignore[call-overload]

    def test_a_name_in_the_functions_place_is_explained(self):
        with pytest.raises(LocalError, match=r"@server.tool cannot take 'forecast' there; write @server.tool\("):
            Server("s").tool("forecast")  # type: ignore[call-overload]

    @pytest.mark.parametrize("concurrency", [0, -1])
    def test_a_tool_must_be_able_to_run(self, concurrency: int):
        with pytest.raises(LocalError, match="At least one call"):
            Server("s").tool(lambda: None, name="a", concurrency=concurrency)

    def test_a_signature_that_cannot_be_served_names_function_and_parameter(self):
        def odd(connection: complex) -> None: ...

        with pytest.raises(LocalError, match=r"odd.*connection"):
            Server("s").tool(odd)

    @EVERY
    async def test_schemas_given_by_hand(self, name: str):
        server = Server("s")
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

        @server.tool(input_schema=schema, output_schema={"type": "object", "required": ["m"]})
        async def raw(arguments: dict[str, Any]) -> dict[str, Any]:
            return {"m": arguments["n"] + 1}

        async with Client(server, revision=name) as client:
            (tool,) = await client.tools()
            assert tool.input_schema == schema
            assert (await client.call("raw", n=1)).data == {"m": 2}


class TestResource:
    async def test_with_options(self):
        server = Server("s")

        @server.resource(
            "config://app",
            name="config",
            title="Config",
            description="All of it.",
            mime_type="application/json",
            size=7,
            icons=[Icon("https://example.com/i.png")],
            annotations=Annotations(priority=1),
            meta={"com.example/x": 1},
        )
        def read() -> dict[str, int]:
            return {"a": 1}

        assert read() == {"a": 1}
        async with Client(server) as client:
            (resource,) = await client.resources()
            assert (resource.uri, resource.name, resource.title) == ("config://app", "config", "Config")
            assert (resource.description, resource.mime_type, resource.size) == (
                "All of it.",
                "application/json",
                7,
            )
            assert resource.icons == [Icon("https://example.com/i.png")]
            assert resource.annotations is not None
            assert resource.meta == {"com.example/x": 1}
            assert await client.resource_templates() == []

    async def test_a_uri_with_variables_is_a_template(self):
        server = Server("s")

        @server.resource("repo://{owner}/{name}/{path*}", title="File")
        async def file(owner: str, name: str, path: str, ctx: Context) -> str:
            """One file of a repository."""
            return f"{owner} {name} {path}"

        async with Client(server) as client:
            (template,) = await client.resource_templates()
            assert (template.uri_template, template.name) == ("repo://{owner}/{name}/{path*}", "file")
            assert (template.title, template.description) == ("File", "One file of a repository.")
            assert await client.resources() == []
            contents = (await client.read("repo://ana/x/src/a%20b.py")).contents
            assert [part.text for part in contents] == ["ana x src/a b.py"]  # type: ignore[union-attr]

    async def test_an_exact_uri_goes_before_a_template(self):
        server = Server("s")
        server.resource("x://{a}")(lambda a: "template")
        server.resource("x://y")(lambda: "exact")
        async with Client(server) as client:
            for uri, text in (("x://y", "exact"), ("x://z", "template")):
                assert (await client.read(uri)).contents[0].text == text  # type: ignore[union-attr]

    def test_without_its_uri_it_is_explained(self):
        with pytest.raises(LocalError, match=r"write @server.resource\(\"config://app\"\)"):
            Server("s").resource(lambda: None)  # type: ignore[arg-type]

    def test_a_template_that_is_none_is_explained(self):
        with pytest.raises(LocalError, match=r"x://\{"):
            Server("s").resource("x://{")(lambda: None)

    def test_a_uri_stands_once(self):
        server = Server("s")
        for uri in ("x://y", "x://{z}"):
            server.resource(uri)(lambda z="": z)
            with pytest.raises(LocalError, match="already"):
                server.resource(uri)(lambda z="": z)

    def test_parameters_are_the_variables(self):
        with pytest.raises(LocalError, match="needs b, which is not a variable of the URI"):
            Server("s").resource("x://{a}")(lambda a, b: None)
        with pytest.raises(LocalError, match="has no parameter for the URI's variable a"):
            Server("s").resource("x://{a}")(lambda: None)

    def test_an_option_that_does_not_exist_is_named(self):
        with pytest.raises(LocalError, match="A resource has no option colour"):
            Server("s").resource("x://y", colour="red")(lambda: None)  # type: ignore[call-arg]


class TestPrompt:
    async def test_bare_with_options_and_called(self):
        server = Server("s")

        @server.prompt
        def review(code: str, language: str = "python") -> str:
            """Review some code.

            Args:
                code: what to look at
            """
            return f"{language}: {code}"

        @server.prompt(name="other", title="Other", description="Another.", meta={"com.example/x": 1})
        def unused() -> str:
            return "x"

        server.prompt(unused, name="third")
        assert review("x") == "python: x"
        async with Client(server) as client:
            first, second, third = await client.prompts()
            assert (first.name, first.description) == ("review", "Review some code.")
            assert [(a.name, a.description, a.required) for a in first.arguments or []] == [
                ("code", "what to look at", True),
                ("language", None, False),
            ]
            assert (second.name, second.title, second.description) == ("other", "Other", "Another.")
            assert second.meta == {"com.example/x": 1}
            assert third.name == "third"

    @pytest.mark.parametrize("function", [lambda: "x", partial(str)])
    def test_what_has_no_name_needs_one(self, function: Any):
        with pytest.raises(LocalError, match=r"A prompt needs a name: give name=…"):
            Server("s").prompt(function)

    def test_mistakes_are_explained(self):
        server = Server("s")
        server.prompt(lambda: "x", name="a")
        with pytest.raises(LocalError, match="There is a prompt 'a' already"):
            server.prompt(lambda: "x", name="a")
        with pytest.raises(LocalError, match="A prompt has no option colour"):
            server.prompt(colour="red")(lambda: "x")  # type: ignore[call-overload]
        with pytest.raises(LocalError, match=r"write @server.prompt\("):
            server.prompt("review")  # type: ignore[call-overload]


class TestRemoving:
    async def test_what_was_removed_is_gone(self):
        server = Server("s")
        server.tool(lambda: None, name="t")
        server.prompt(lambda: "x", name="p")
        server.resource("x://y")(lambda: "x")
        server.resource("x://{z}")(lambda z: z)
        async with Client(server) as client:
            server.remove_tool("t")
            server.remove_prompt("p")
            server.remove_resource("x://y")
            server.remove_resource("x://{z}")
            assert await client.tools() == []
            assert await client.prompts() == []
            assert await client.resources() == []
            assert await client.resource_templates() == []

    def test_what_is_not_there_is_an_error_with_a_guess(self):
        server = Server("s")
        server.tool(lambda: None, name="forecast")
        server.prompt(lambda: "x", name="review")
        server.resource("config://app")(lambda: "x")
        with pytest.raises(LocalError, match=r"no tool 'forcast' to remove \(did you mean 'forecast'\?\)"):
            server.remove_tool("forcast")
        with pytest.raises(LocalError, match=r"no prompt 'reviews' to remove \(did you mean 'review'\?\)"):
            server.remove_prompt("reviews")
        with pytest.raises(LocalError, match=r"no resource 'config://ap' to remove \(did you mean"):
            server.remove_resource("config://ap")


async def _takes_context(ctx: Context) -> str:
    return ctx.revision


async def _takes_context_and_z(ctx: Context, z: str) -> str:
    return z


class TestCapabilities:
    @EVERY
    async def test_an_empty_server_has_none(self, name: str):
        async with served(Server("s"), name, opened=False) as caller:
            assert (await caller.open())["capabilities"] == {}

    @EVERY
    @pytest.mark.parametrize(
        ("kind", "offer"),
        [
            ("tools", lambda server: server.tool(lambda: None, name="t")),
            ("prompts", lambda server: server.prompt(lambda: "x", name="p")),
            ("resources", lambda server: server.resource("x://y")(lambda: "x")),
            ("resources", lambda server: server.resource("x://{z}")(lambda z: z)),
        ],
    )
    async def test_exactly_what_is_there(self, name: str, kind: str, offer: Any):
        server = Server("s")
        offer(server)
        async with served(server, name, opened=False) as caller:
            more = {"subscribe": True} if kind == "resources" else {}
            assert (await caller.open())["capabilities"] == {kind: {"listChanged": True, **more}}

    @EVERY
    @pytest.mark.parametrize(
        "offer",
        [
            lambda server: server.tool(_takes_context, name="t"),
            lambda server: server.prompt(_takes_context, name="p"),
            lambda server: server.resource("x://y")(_takes_context),
            lambda server: server.resource("x://{z}")(_takes_context_and_z),
        ],
    )
    async def test_who_may_log_says_so(self, name: str, offer: Any):
        server = Server("s")
        offer(server)
        async with served(server, name, opened=False) as caller:
            assert (await caller.open())["capabilities"]["logging"] == {}

    @EVERY
    async def test_extensions_and_experiments_are_declared_on_every_revision(self, name: str):
        server = Server("s", extensions=[Extension(id="com.example/x", settings={"a": 1})], experimental={"y": {}})
        async with served(server, name, opened=False) as caller:
            assert (await caller.open())["capabilities"] == {
                "extensions": {"com.example/x": {"a": 1}},
                "experimental": {"y": {}},
            }

    def test_only_what_is_there_can_be_subscribed_to(self):
        server = Server("s")
        every = SubscriptionFilter(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)
        assert server._core.accepted_filter(every) == SubscriptionFilter()
        server.tool(lambda: None, name="t")
        server.resource("x://{z}")(lambda z: z)
        assert server._core.accepted_filter(every) == SubscriptionFilter(
            tools_list_changed=True, resources_list_changed=True
        )
        assert server._core.accepted_filter(SubscriptionFilter()) == SubscriptionFilter()


class TestIdentity:
    @EVERY
    async def test_a_server_says_who_it_is(self, name: str):
        server = Server(
            "weather",
            version="1.0",
            title="Weather",
            description="Tells the weather.",
            website_url="https://example.com",
            icons=[Icon("https://example.com/i.png")],
            instructions="Ask for a city.",
        )
        async with Client(server, revision=name) as client:
            assert client.server is not None
            assert (client.server.name, client.server.version) == ("weather", "1.0")
            assert client.instructions == "Ask for a city."

    async def test_on_the_envelope_era_every_result_says_so(self):
        server = Server("weather", version="1.0")
        server.tool(lambda: "x", name="t")
        async with served(server) as caller:
            for result in (await caller.call("t"), await caller.result("tools/list"), await caller.open()):
                info = result["_meta"]["io.modelcontextprotocol/serverInfo"]
                assert info == {"name": "weather", "version": "1.0"}


class TestRevisions:
    async def test_a_server_may_speak_only_some(self):
        server = Server("s", revisions=[HANDSHAKE[1], HANDSHAKE[2]])
        async with Client(server) as client:
            assert client.revision == HANDSHAKE[2]
        server = Server("s", revisions=list(ENVELOPE))
        async with Client(server) as client:
            assert client.revision == NEWEST.name

    @pytest.mark.parametrize("revisions", [[], ["1900-01-01"], [HANDSHAKE[0], "1900-01-01"]])
    def test_those_that_do_not_exist_are_refused(self, revisions: list[str]):
        with pytest.raises(LocalError, match="Unknown protocol revision"):
            Server("s", revisions=revisions)


def test_a_transport_that_does_not_exist_is_named():
    with pytest.raises(LocalError, match="There is no transport 'pigeon'; there are stdio, http, unix and tcp"):
        Server("s").run("pigeon")  # pyright: ignore[reportCallIssue, reportArgumentType]


async def test_handlers_in_threads_may_add_and_remove():
    server = Server("s")

    @server.tool
    def grow(count: int) -> int:
        for n in range(count):
            server.tool(lambda: None, name=f"t{n}")
            server.remove_tool(f"t{n}")
        server.tool(lambda: None, name="last")
        return count

    async with Client(server) as client:
        assert (await client.call("grow", count=50)).data == 50
        assert [tool.name for tool in await client.tools()] == ["grow", "last"]
