"""Source written for FastMCP or the official SDK, before and after `dovetail migrate`; the rest is reported."""

import ast
from textwrap import dedent

import pytest

from dovetail.cli.migrate import Note, migrate_source, server_names


def migrated(text: str) -> str:
    """The new text, which parses, and which a second run leaves as it is."""
    migration = migrate_source(dedent(text))
    ast.parse(migration.text)
    assert migrate_source(migration.text).text == migration.text
    return migration.text


def notes(text: str) -> list[Note]:
    return list(migrate_source(dedent(text)).notes)


def body(text: str, head: str = "from fastmcp import Context, FastMCP\nmcp = FastMCP('s')\n") -> str:
    """What a statement below a server becomes."""
    result = migrated(head + dedent(text))
    lines = result.splitlines()
    start = next(index for index, line in enumerate(lines) if "= Server(" in line)
    return "\n".join(lines[start + 1 :])


class TestImports:
    @pytest.mark.parametrize(
        "statement",
        [
            "from fastmcp import FastMCP",
            "from fastmcp.server import FastMCP",
            "from mcp.server.fastmcp import FastMCP",
            "from mcp.server import FastMCP",
            "from mcp.server.fastmcp.server import FastMCP",
        ],
    )
    def test_a_server_of_any_library_is_imported_from_dovetail(self, statement: str) -> None:
        assert migrated(f"{statement}\nmcp = FastMCP('s')\n") == "from dovetail import Server\nmcp = Server('s')\n"

    def test_the_class_of_the_second_major_version_is_known(self) -> None:
        text = "from mcp.server.mcpserver import MCPServer as Base\nmcp = Base('s')\n"
        assert migrated(text) == "from dovetail import Server\nmcp = Server('s')\n"

    def test_names_of_a_module_are_imported_one_by_one(self) -> None:
        before = """\
            import fastmcp
            import mcp.types as types

            mcp = fastmcp.FastMCP("s")


            def text() -> types.TextContent:
                return types.TextContent(type="text", text="x")
            """
        assert migrated(before) == dedent("""\
            from dovetail import Server, Text

            mcp = Server("s")


            def text() -> Text:
                return Text(text="x")
            """)

    def test_several_imports_become_one(self) -> None:
        before = """\
            import os  # first
            from fastmcp import FastMCP, Context
            from fastmcp.exceptions import ToolError
            import sys

            mcp = FastMCP("s")
            async def tool(ctx: Context): raise ToolError("no")
            """
        assert migrated(before) == dedent("""\
            import os  # first
            from dovetail import Context, Server, ToolError
            import sys

            mcp = Server("s")
            async def tool(ctx: Context): raise ToolError("no")
            """)

    def test_what_has_no_counterpart_stays_and_is_reported(self) -> None:
        before = """\
            from fastmcp import FastMCP
            from fastmcp.server.dependencies import get_http_headers
            mcp = FastMCP("s")
            def key(): return get_http_headers()["x-key"]
            """
        assert "from fastmcp.server.dependencies import get_http_headers\n" in migrated(before)
        assert notes(before) == [
            Note(
                4,
                "fastmcp.server.dependencies.get_http_headers is left as it is",
                "a handler has ctx.headers",
            )
        ]

    def test_a_name_that_means_something_else_in_the_module_is_not_taken(self) -> None:
        before = """\
            from PIL import Image
            from mcp.server.fastmcp import FastMCP, Image as Picture
            mcp = FastMCP("s")
            def show() -> Picture: return Picture(data=Image.new().tobytes(), format="png")
            """
        after = migrated(before)
        assert "from dovetail import Image as DovetailImage, Server\n" in after
        assert 'DovetailImage(data=Image.new().tobytes(), mime_type="image/png")' in after

    def test_an_import_in_a_block_of_its_own_leaves_the_block_whole(self) -> None:
        before = """\
            from fastmcp import FastMCP
            try:
                from fastmcp.exceptions import ToolError
            except ImportError:
                raise
            mcp = FastMCP("s")
            def f(): raise ToolError("x")
            """
        assert "try:\n    pass\nexcept" in migrated(before)

    def test_type_hints_in_quotes_are_renamed(self) -> None:
        before = "from fastmcp import FastMCP\ndef add(mcp: 'FastMCP') -> \"FastMCP\": return mcp\n"
        assert migrated(before) == 'from dovetail import Server\ndef add(mcp: "Server") -> "Server": return mcp\n'


class TestConstructors:
    def test_instructions_by_position_get_their_name(self) -> None:
        assert migrated("from fastmcp import FastMCP\nm = FastMCP('s', 'Be kind.')\n").endswith(
            "m = Server('s', instructions='Be kind.')\n"
        )

    def test_options_for_http_move_to_where_the_server_runs(self) -> None:
        before = """\
            from mcp.server.fastmcp import FastMCP
            mcp = FastMCP("s", host="0.0.0.0", port=PORT, stateless_http=True, json_response=True)
            mcp.run(transport="streamable-http")
            """
        assert migrated(before) == dedent("""\
            from dovetail import Server
            mcp = Server("s")
            mcp.run(transport="http", host="0.0.0.0", port=PORT, sessions=False, json_response=True)
            """)

    def test_options_for_http_are_left_out_over_stdio(self) -> None:
        before = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('s', port=1)\nmcp.run()\n"
        assert migrated(before) == "from dovetail import Server\nmcp = Server('s')\nmcp.run()\n"

    @pytest.mark.parametrize(
        "use",
        [
            "mcp.run(transport=sys.argv[1])",
            "mcp.run(**options)",
            "app = mcp.streamable_http_app()",
            "def main(PORT): mcp.run('sse')",
        ],
    )
    def test_options_for_http_stay_where_it_is_not_known_that_they_can_move(self, use: str) -> None:
        before = f"from mcp.server.fastmcp import FastMCP\nPORT = 1\nmcp = FastMCP('s', port=PORT)\n{use}\n"
        assert "mcp = Server('s', port=PORT)" in migrated(before)
        assert "a server has no option port" in [note.reason for note in notes(before)]

    def test_an_option_that_is_gone_is_reported(self) -> None:
        before = "from fastmcp import FastMCP\nmcp = FastMCP('s', on_duplicate_tools='warn', mask_error_details=True)\n"
        assert migrated(before).endswith("mcp = Server('s', mask_error_details=True)\n")
        assert [note.reason for note in notes(before)] == [
            "a server has no option mask_error_details",
            "on_duplicate_tools= is gone from the server",
        ]

    def test_a_server_without_a_name_gets_one(self) -> None:
        assert 'mcp = Server("server")' in migrated("from fastmcp import FastMCP\nmcp = FastMCP()\n")

    def test_a_subclass_keeps_its_own_constructor(self) -> None:
        before = """\
            from fastmcp import FastMCP
            class Shop(FastMCP):
                def __init__(self, size: int) -> None:
                    super().__init__("shop")
                    self.size = size
                    self.tool(self.buy, annotations={"readOnlyHint": True})
            """
        after = migrated(before)
        assert "class Shop(Server):" in after
        assert "self.tool(self.buy, read_only=True)" in after


class TestTools:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("@mcp.tool\ndef f(): ...", "@mcp.tool\ndef f(): ..."),
            ("@mcp.tool()\ndef f(): ...", "@mcp.tool()\ndef f(): ..."),
            ("@mcp.tool('n')\ndef f(): ...", "@mcp.tool(name='n')\ndef f(): ..."),
            ("@mcp.tool(annotations={'readOnlyHint': x})\ndef f(): ...", "@mcp.tool(read_only=x)\ndef f(): ..."),
            ("@mcp.tool(tags={'a'}, title='T')\ndef f(): ...", "@mcp.tool(title='T')\ndef f(): ..."),
            ("@mcp.tool(structured_output=False)\ndef f(): ...", "@mcp.tool(structured=False)\ndef f(): ..."),
            ("@mcp.tool(structured_output=True)\ndef f(): ...", "@mcp.tool()\ndef f(): ..."),
            ("@mcp.tool(task=True)\nasync def f(): ...", '@mcp.tool(task="optional")\nasync def f(): ...'),
            ("@mcp.tool(task=False)\nasync def f(): ...", "@mcp.tool()\nasync def f(): ..."),
            ("@mcp.tool(output_schema=None)\ndef f(): ...", "@mcp.tool(output_schema=None)\ndef f(): ..."),
            ("mcp.tool(g, name='n')", "mcp.tool(g, name='n')"),
        ],
    )
    def test_a_decorator_keeps_what_means_the_same(self, before: str, after: str) -> None:
        assert body(before) == after

    def test_annotations_become_options(self) -> None:
        before = """\
            from mcp.server.fastmcp import FastMCP
            from mcp.types import ToolAnnotations
            mcp = FastMCP("s")
            @mcp.tool(
                annotations=ToolAnnotations(title="Read", readOnlyHint=True, openWorldHint=False),  # hints
                description="d",
            )
            def f(): ...
            """
        assert migrated(before) == dedent("""\
            from dovetail import Server
            mcp = Server("s")
            @mcp.tool(
                description="d", title="Read", read_only=True, open_world=False,
            )
            def f(): ...
            """)

    def test_annotations_that_tools_share_become_a_dict_of_options(self) -> None:
        before = """\
            from fastmcp import FastMCP
            from mcp.types import ToolAnnotations
            READS = ToolAnnotations(
                readOnlyHint=True,  # nothing is written
            )
            mcp = FastMCP("s")
            @mcp.tool(annotations=READS)
            def f(): ...
            """
        assert migrated(before) == dedent("""\
            from dovetail import Server
            READS = {
                "read_only": True,  # nothing is written
            }
            mcp = Server("s")
            @mcp.tool(**READS)
            def f(): ...
            """)

    def test_annotations_that_are_used_for_more_are_reported(self) -> None:
        before = """\
            from fastmcp import FastMCP
            from mcp.types import ToolAnnotations
            READS = ToolAnnotations(readOnlyHint=True)
            print(READS)
            mcp = FastMCP("s")
            @mcp.tool(annotations=READS)
            def f(): ...
            """
        assert "@mcp.tool(annotations=READS)" in migrated(before)
        assert notes(before)[0].reason == "a tool has no option annotations"

    def test_tools_that_are_added_are_registered(self) -> None:
        assert body("def f(): ...\nmcp.add_tool(f)") == "def f(): ...\nmcp.tool(f)"
        head = "from fastmcp import FastMCP\nfrom fastmcp.tools import Tool\nmcp = FastMCP('s')\n"
        assert body("mcp.add_tool(Tool.from_function(f, name='n', tags={'a'}))", head) == "mcp.tool(f, name='n')"

    def test_a_tool_object_is_reported(self) -> None:
        assert notes("from fastmcp import FastMCP\nm = FastMCP('s')\nm.add_tool(make())\n")[0].advice == (
            "write server.tool(function, …)"
        )


class TestResourcesAndPrompts:
    def test_resources_keep_their_options(self) -> None:
        text = "@mcp.resource('a://{b}', name='n', mime_type='text/plain', tags={'t'})\ndef f(b: str): ..."
        assert body(text) == text.replace(", tags={'t'}", "")

    def test_messages_of_prompts_become_values(self) -> None:
        before = """\
            from mcp.server.fastmcp import FastMCP
            from mcp.server.fastmcp.prompts import base
            mcp = FastMCP("s")
            @mcp.prompt("ask")
            def ask(code: str):
                one = [base.UserMessage(f"Review {code}"), base.AssistantMessage(content=code)]
                return [*one, base.UserMessage(other())]
            """
        after = migrated(before)
        assert 'PromptMessage("user", Text(f"Review {code}")), PromptMessage("assistant", Text(code))' in after
        assert "base.UserMessage(other())" in after
        assert '@mcp.prompt(name="ask")' in after
        assert "from mcp.server.fastmcp.prompts import base\n" in after
        assert notes(before)[0].reason.startswith("mcp.server.fastmcp.prompts.base.UserMessage is left")

    def test_a_message_of_fastmcp_keeps_its_role(self) -> None:
        before = "from fastmcp.prompts import Message\ndef f(): return Message('hi', role='assistant')\n"
        assert migrated(before).endswith("def f(): return PromptMessage('assistant', Text('hi'))\n")


class TestContext:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("await ctx.info('x')", "await ctx.log.info('x')"),
            ("await ctx.error(message=f'{x}')", "await ctx.log.error(f'{x}')"),
            ("await ctx.debug('x', logger_name='n')", "await ctx.log.named('n').debug('x')"),
            ("await ctx.warning('x', extra={'a': 1})", "await ctx.log.warning('x', **{'a': 1})"),
            ("await ctx.report_progress(1, total=2)", "await ctx.progress(1, total=2)"),
            ("await ctx.elicit('q', response_type=Form)", "await ctx.elicit('q', form=Form)"),
            ("await ctx.elicit('q', schema=Form)", "await ctx.elicit('q', form=Form)"),
            ("await ctx.elicit('q', response_type=None)", "await ctx.elicit('q')"),
            ("await ctx.sample('q')", "await ctx.sample('q', max_tokens=512)"),
            (
                "await ctx.sample(messages='q', system_prompt='s', max_tokens=9, model_preferences='m')",
                "await ctx.sample(prompt='q', system='s', max_tokens=9, models=['m'])",
            ),
            ("db = ctx.request_context.lifespan_context.db", "db = ctx.lifespan.db"),
            ("key = ctx.request_context.request.headers['k']", "key = ctx.headers['k']"),
            ("name = ctx.fastmcp.name", "name = ctx.server.info.name"),
            ("await ctx.session.send_tool_list_changed()", "ctx.server.notify_tools_changed()"),
            (
                "await ctx.session.send_resource_updated(AnyUrl('a://b'))",
                "ctx.server.notify_resource_updated('a://b')",
            ),
            ("roots = (await ctx.session.list_roots()).roots", "roots = (await ctx.roots())"),
            (
                "await ctx.session.create_message(messages=[m], max_tokens=5)",
                "await ctx.sample(prompt=[m], max_tokens=5)",
            ),
        ],
    )
    def test_a_call_has_its_name_here(self, before: str, after: str) -> None:
        assert body(f"async def f(ctx: Context): {before}") == f"async def f(ctx: Context): {after}"

    @pytest.mark.parametrize("hint", ["Context[A, B]", "Context | None", "Optional[Context]", '"Context"'])
    def test_every_form_of_the_hint_is_known(self, hint: str) -> None:
        assert "ctx.log.info('x')" in body(f"async def f(ctx: {hint}): await ctx.info('x')")

    def test_type_arguments_of_the_context_are_dropped(self) -> None:
        before = """\
            from mcp.server.fastmcp import Context, FastMCP
            from mcp.server.session import ServerSession
            mcp = FastMCP("s")
            async def f(ctx: Context[ServerSession, None]): ...
            """
        after = migrated(before)
        assert "ctx: Context)" in after
        assert "ServerSession" not in after

    @pytest.mark.parametrize(
        ("use", "advice"),
        [
            ("ctx.read_resource('a://b')", "call the function that makes it"),
            ("ctx.get_state('a')", "keep it in ctx.lifespan"),
            ("ctx.session.send_log_message('x')", "reach the client"),
            ("ctx.elicit('q', response_type=['a', 'b'])", "write a form"),
        ],
    )
    def test_what_has_no_counterpart_is_reported(self, use: str, advice: str) -> None:
        text = f"from fastmcp import Context\nasync def f(ctx: Context): await {use}\n"
        assert use in migrated(text)
        assert advice in notes(text)[0].advice

    def test_another_object_with_such_a_method_is_left_alone(self) -> None:
        text = "import logging\nfrom fastmcp import Context\nctx = logging.getLogger()\nctx.info('x')\n"
        assert "ctx.info('x')" in migrated(text)


class TestRunning:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("mcp.run()", "mcp.run()"),
            ("mcp.run(transport='stdio')", "mcp.run(transport='stdio')"),
            ("mcp.run('sse')", "mcp.run('sse')"),
            ("mcp.run(transport=args.transport)", "mcp.run(transport=args.transport)"),
            ("mcp.run('http', stateless_http=flag)", "mcp.run('http', sessions=not flag)"),
            ("mcp.run('http', show_banner=False, port=1)", "mcp.run('http', port=1)"),
            ("await mcp.run_stdio_async()", "await mcp.run_async()"),
            ("await mcp.run_http_async(port=1)", 'await mcp.run_async("http", port=1)'),
            ("await mcp.run_streamable_http_async()", 'await mcp.run_async("http")'),
            ("app = mcp.http_app(path='/x')", "app = mcp.asgi(path='/x')"),
            ("app = mcp.streamable_http_app()", "app = mcp.asgi()"),
            ("mcp.mount(other, 'db')", "mcp.mount(other, prefix='db')"),
            ("mcp.mount(other, namespace='db')", "mcp.mount(other, prefix='db')"),
            ("print(mcp.name)", "print(mcp.info.name)"),
        ],
    )
    def test_a_call_has_its_name_here(self, before: str, after: str) -> None:
        assert body(f"async def main(): {before}") == f"async def main(): {after}"

    @pytest.mark.parametrize(
        "use", ["mcp.custom_route('/x')", "mcp.add_middleware(x)", "mcp.get_tools()", "mcp.settings"]
    )
    def test_what_has_no_counterpart_is_reported(self, use: str) -> None:
        text = f"from fastmcp import FastMCP\nmcp = FastMCP('s')\n{use}\n"
        assert use in migrated(text)
        assert notes(text)[0].line == 3


class TestValues:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("t.TextContent(type='text', text=x)", "Text(text=x)"),
            (
                "t.ImageContent(type='image', data=base64.b64encode(d).decode(), mimeType='image/png')",
                "Image(data=d, mime_type='image/png')",
            ),
            ("t.Tool(name='n', inputSchema={})", "Tool(name='n', input_schema={})"),
            ("t.CallToolResult(content=[], isError=True)", "CallToolResult(content=[], is_error=True)"),
            ("tool.inputSchema, t.Tool", "tool.input_schema, Tool"),
            ("t.Icon(src='s', mimeType='m')", "Icon(src='s', mime_type='m')"),
            (
                "t.EmbeddedResource(type='resource', resource=t.TextResourceContents(uri=AnyUrl('a:b'), text=''))",
                "Embedded(resource=TextContents(uri='a:b', text=''))",
            ),
        ],
    )
    def test_a_value_has_its_name_here(self, before: str, after: str) -> None:
        assert migrated(f"from mcp import types as t\nx = {before}\n").splitlines()[-1] == f"x = {after}"

    def test_images_of_other_libraries_have_a_media_type(self) -> None:
        head = "from fastmcp.utilities.types import Image\n"
        assert migrated(head + "i = Image(data=d, format='jpeg')\n").endswith(
            'i = Image(data=d, mime_type="image/jpeg")\n'
        )
        assert migrated(head + "i = Image(path=p)\n").endswith("i = Image(path=p)\n")
        assert migrated(head + "i = Image('a.png')\nj = i.to_data_uri()\n").endswith(
            "i = Image(path='a.png')\nj = i.data_uri\n"
        )

    def test_base64_that_comes_from_elsewhere_is_reported(self) -> None:
        text = "from mcp.types import ImageContent\ni = ImageContent(type='image', data=x, mimeType='image/png')\n"
        assert notes(text) == [Note(2, "data= is bytes here, not base64 text", "pass the bytes themselves")]

    def test_errors_of_the_protocol_are_raised_with_code_and_message(self) -> None:
        before = """\
            from mcp.shared.exceptions import McpError
            from mcp.types import INVALID_PARAMS, ErrorData
            def f(): raise McpError(ErrorData(code=INVALID_PARAMS, message="no"))
            """
        assert migrated(before) == dedent("""\
            from dovetail import ProtocolError
            def f(): raise ProtocolError(-32602, "no")
            """)


LOW_LEVEL = """\
import asyncio
import mcp.types as types
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server

server = Server("draft")


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    \"\"\"The tools.\"\"\"
    return [types.Tool(name="echo", description="Echo.", inputSchema={"type": "object"})]


@server.call_tool()
async def call_tool(name: str, arguments: dict) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=str(arguments))]


async def main():
    async with stdio_server() as (read, write):
        print("running")
        await server.run(
            read,
            write,
            InitializationOptions(
                server_name="echo",
                server_version="1.0",
                capabilities=server.get_capabilities(NotificationOptions(), {}),
            ),
        )


asyncio.run(main())
"""


class TestLowLevelServers:
    def test_what_is_listed_is_registered_with_the_function_that_serves_it(self) -> None:
        assert notes(LOW_LEVEL) == []
        assert migrated(LOW_LEVEL) == dedent("""\
            import asyncio
            import functools
            from dovetail import Server, Text, Tool

            server = Server("echo", version="1.0")


            def list_tools() -> list[Tool]:
                \"\"\"The tools.\"\"\"
                return [Tool(name="echo", description="Echo.", input_schema={"type": "object"})]


            async def call_tool(name: str, arguments: dict) -> list[Text]:
                return [Text(text=str(arguments))]


            for tool in list_tools():
                server.tool(
                    functools.partial(call_tool, tool.name),
                    name=tool.name,
                    description=tool.description or "",
                    input_schema=tool.input_schema,
                    output_schema=tool.output_schema,
                )


            async def main():
                print("running")
                await server.run_async()


            asyncio.run(main())
            """)

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            (
                "    return [types.Tool(",
                "    await asyncio.sleep(0)\n    return [types.Tool(",
                "does more than return a list",
            ),
            ("    return [types.Tool(", "    return tools() or [types.Tool(", "does more than return a list"),
            ("asyncio.run(main())", "print(list_tools)", "list_tools is called elsewhere too"),
            ("@server.call_tool()", "@server.call_tool()\n@traced", "has further decorators"),
            ("(name: str, arguments: dict)", "(name: str)", "has other parameters than usual"),
        ],
    )
    def test_a_pair_that_does_more_is_reported_and_left(self, old: str, new: str, reason: str) -> None:
        text = LOW_LEVEL.replace(old, new)
        assert reason in "; ".join(note.reason for note in notes(text))
        assert "@server.list_tools()" in migrated(text)

    def test_streams_that_are_used_for_more_are_reported(self) -> None:
        text = LOW_LEVEL.replace('print("running")', "print(read)")
        assert "async with stdio_server()" in migrated(text)
        assert any("has more in it" in note.reason for note in notes(text))

    def test_handlers_of_the_second_major_version_are_reported(self) -> None:
        text = "from mcp.server.lowlevel import Server\nserver = Server('s', on_list_tools=f, on_call_tool=g)\n"
        assert [note.reason for note in notes(text)] == [
            "a server has no option on_call_tool",
            "a server has no option on_list_tools",
        ]


class TestSource:
    def test_comments_line_ends_and_characters_beyond_ascii_are_kept(self) -> None:
        before = (
            "# größer\r\nfrom fastmcp import FastMCP  # ←\r\nname = 'Übung'; mcp = FastMCP(name)  # →\r\nmcp.run()\r\n"
        )
        assert migrated(before) == (
            "# größer\r\nfrom dovetail import Server  # ←\r\nname = 'Übung'; mcp = Server(name)  # →\r\nmcp.run()\r\n"
        )

    def test_a_module_of_something_else_is_not_touched(self) -> None:
        text = "import logging\nmcp = logging.getLogger()\nmcp.info('x')\n"
        assert migrate_source(text) == (text, (), 0, 0)

    def test_a_module_that_does_not_parse_is_an_error(self) -> None:
        with pytest.raises(SyntaxError):
            migrate_source("from fastmcp import (\n")

    def test_what_an_earlier_run_left_is_reported_again(self) -> None:
        text = "from dovetail import Server\nmcp = Server('s')\nmcp.custom_route('/x')\n"
        assert [note.line for note in notes(text)] == [3]

    def test_servers_of_other_modules_are_known_by_name(self) -> None:
        assert server_names("from fastmcp import FastMCP\nmcp = FastMCP('s')\ndef make() -> FastMCP: ...\n") == {
            "mcp",
            "make",
        }
        text = "from .app import mcp, make\nmcp.tool('n')\nother = make()\nother.run('http', stateless_http=True)\n"
        assert migrate_source(text, {"mcp", "make"}).text == (
            "from .app import mcp, make\nmcp.tool(name='n')\nother = make()\nother.run('http', sessions=False)\n"
        )
