"""`Client`: calling one server, the same on every revision."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Extension, Implementation, Server, ToolError
from dovetail.client.listing import ListLimits
from dovetail.protocol.errors import (
    ConnectionLost,
    InvalidAnswer,
    LocalError,
    NotFound,
    RemoteError,
    Timeout,
    ToolFailed,
)
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, REVISIONS
from tests.support.clock import Clock
from tests.support.peer import nothing_left
from tests.support.scripted import SILENCE, Error, Scripted, legacy, modern
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)


def example() -> Server:
    server = Server("example", version="1.2", title="Example", instructions="Ask for anything.")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> str:
        raise ToolError("It will not work.")

    @server.tool
    async def count(to: int, ctx: Context) -> int:
        for n in range(1, to + 1):
            await ctx.progress(n, to, f"step {n}")
        return to

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def meta(ctx: Context) -> dict[str, Any]:
        return ctx.meta

    @server.resource("config://app")
    def config() -> dict[str, int]:
        return {"a": 1}

    @server.resource("greet://{name}")
    def greet(name: str) -> str:
        return f"Hello {name}"

    @server.prompt
    def review(code: str, language: str = "python") -> str:
        return f"Review this {language}: {code}"

    return server


class TestOpening:
    @EVERY
    async def test_what_was_agreed_can_be_asked(self, name: str):
        async with Client(example(), revision=name) as client:
            assert client.revision == name
            assert client.server is not None
            assert (client.server.name, client.server.version) == ("example", "1.2")
            assert client.instructions == "Ask for anything."
            assert client.capabilities.tools is not None

    async def test_without_a_revision_the_newest_is_found(self):
        async with Client(example()) as client:
            assert client.revision == NEWEST.name

    async def test_the_server_learns_who_calls_and_what_it_can_do(self):
        server = Server("s")

        @server.tool
        async def who(ctx: Context) -> list[Any]:
            assert ctx.client is not None
            return [ctx.client.name, ctx.client_capabilities.experimental, ctx.client_capabilities.extensions]

        for name in REVISIONS:
            client = Client(
                server,
                revision=name,
                info=Implementation("caller", "9"),
                experimental={"x": {"y": 1}},
                extensions=[Extension(id="com.example/z")],
            )
            async with client:
                caller, experimental, extensions = (await client.call("who")).data
            assert (caller, experimental, extensions["com.example/z"]) == ("caller", {"x": {"y": 1}}, {})

    async def test_opened_twice_it_complains(self):
        async with Client(example()) as client:
            with pytest.raises(LocalError, match="open already"):
                await client.open()
            assert (await client.call("add", a=1, b=2)).data == 3

    async def test_closed_it_can_be_opened_again(self):
        client = Client(example())
        for _ in range(2):
            async with client:
                assert (await client.call("add", a=1, b=2)).data == 3

    async def test_also_when_the_server_speaks_another_era_by_then(self):
        server = modern(tools_list={"tools": [], "resultType": "complete"})
        client = Client(server)
        async with client:
            await client.tools()
        server.answers = legacy(tools_list={"tools": []}).answers
        async with client:
            await client.tools()
        assert "_meta" in server.asked[1]["params"]
        assert "params" not in server.asked[-1]

    async def test_not_open_it_says_how_to_open_it(self):
        client = Client(example())
        for use in (client.tools, client.ping, lambda: client.call("add")):
            with pytest.raises(LocalError, match="This client is not open: use `async with Client"):
                await use()
        for ask in (lambda: client.revision, lambda: client.server, lambda: client.capabilities):
            with pytest.raises(LocalError, match="not open"):
                ask()

    async def test_closing_what_is_not_open_is_nothing(self):
        await Client(example()).close()

    async def test_opened_in_one_task_and_closed_in_another(self):
        client = Client(example())
        await asyncio.create_task(client.open())
        assert (await asyncio.create_task(client.call("add", a=1, b=2))).data == 3
        await asyncio.create_task(client.close())

    async def test_nothing_is_left_behind(self):
        before = asyncio.all_tasks()
        async with Client(example()) as client:
            await client.call("add", a=1, b=2)
        await nothing_left(before)

    def test_a_revision_that_does_not_exist_is_named_with_those_that_do(self):
        with pytest.raises(LocalError, match=r"There is no protocol revision '1900-01-01'; there are 2024"):
            Client(example(), revision="1900-01-01")


class TestLists:
    @EVERY
    async def test_all_that_there_is(self, name: str):
        async with Client(example(), revision=name) as client:
            assert [tool.name for tool in await client.tools()] == ["add", "fail", "count", "wait", "meta"]
            assert [resource.uri for resource in await client.resources()] == ["config://app"]
            assert [template.uri_template for template in await client.resource_templates()] == ["greet://{name}"]
            assert [prompt.name for prompt in await client.prompts()] == ["review"]

    @EVERY
    async def test_over_all_pages(self, name: str):
        server = Server("s", page_size=3)
        for n in range(10):
            server.tool(lambda: None, name=f"t{n}")
        asked: list[bytes] = []
        client = Client(server, revision=name, trace=lambda way, line: asked.append(line) if way == "sent" else None)
        async with client:
            assert [tool.name for tool in await client.tools()] == [f"t{n}" for n in range(10)]
        assert sum(b"tools/list" in line for line in asked) == 4

    async def test_a_list_that_leads_in_a_circle_is_an_invalid_answer(self):
        server = legacy(tools_list={"tools": [], "nextCursor": "again"})
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer, match="tools/list led in a circle: the cursor 'again' came twice"):
                await client.tools()

    async def test_a_list_without_end_is_an_invalid_answer(self):
        server = legacy(tools_list=lambda message: {"tools": [], "nextCursor": str(message["id"])})
        async with Client(server) as client:
            client._list_limits = ListLimits(max_pages=5)  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(InvalidAnswer, match="tools/list has more than 5 pages"):
                await client.tools()


class TestCalls:
    @EVERY
    async def test_arguments_go_as_keywords_or_as_a_mapping(self, name: str):
        async with Client(example(), revision=name) as client:
            for result in (
                await client.call("add", a=1, b=2),
                await client.call("add", {"a": 1, "b": 2}),
                await client.call("add", {"a": 1}, b=2),
            ):
                assert (result.data, result.text, result.is_error) == (3, "3", False)

    @EVERY
    async def test_a_tool_that_fails_raises_what_it_said(self, name: str):
        async with Client(example(), revision=name) as client:
            with pytest.raises(ToolFailed, match="Tool 'fail' failed: It will not work") as caught:
                await client.call("fail")
            assert caught.value.result.is_error
            result = await client.call("fail", check=False)
            assert (result.is_error, result.text) == (True, "It will not work.")

    @EVERY
    async def test_a_tool_that_does_not_exist_is_a_remote_error(self, name: str):
        async with Client(example(), revision=name) as client:
            with pytest.raises(RemoteError, match=r"Unknown tool: ad \(did you mean 'add'\?\)") as caught:
                await client.call("ad")
            assert caught.value.code == -32602

    @EVERY
    async def test_progress_reaches_the_caller(self, name: str):
        heard: list[Any] = []
        async with Client(example(), revision=name) as client:
            await client.call("count", to=3, progress=lambda *report: heard.append(report))
        words = [None] * 3 if name == HANDSHAKE[0] else [f"step {n}" for n in (1, 2, 3)]
        assert heard == [(n, 3, word) for n, word in zip((1, 2, 3), words, strict=True)]

    @EVERY
    async def test_meta_reaches_the_handler(self, name: str):
        async with Client(example(), revision=name) as client:
            assert (await client.call("meta", meta={"com.example/x": 1})).data["com.example/x"] == 1

    @EVERY
    async def test_many_at_once(self, name: str):
        async with Client(example(), revision=name) as client:
            results = await asyncio.gather(*(client.call("add", a=n, b=n) for n in range(200)))
        assert [result.data for result in results] == [2 * n for n in range(200)]

    async def test_what_cannot_be_written_as_json_is_the_callers_error(self):
        async with Client(example()) as client:
            with pytest.raises(LocalError, match="The params of tools/call cannot be written as JSON"):
                await client.call("add", a=object(), b=2)
            assert (await client.call("add", a=1, b=2)).data == 3

    @pytest.mark.parametrize("answer", [5, None, [], {"content": 5}, {"content": [{"type": "text"}]}])
    async def test_an_answer_that_is_no_result_is_an_invalid_answer(self, answer: Any):
        async with Client(legacy(tools_call=answer)) as client:
            with pytest.raises(InvalidAnswer, match="Invalid result of tools/call"):
                await client.call("x")

    async def test_a_kind_of_result_that_nobody_announced_is_an_invalid_answer(self):
        async with Client(modern(tools_call={"resultType": "mystery", "content": []})) as client:
            with pytest.raises(InvalidAnswer, match="resultType 'mystery' is unknown"):
                await client.call("x")

    async def test_a_kind_of_result_that_this_client_cannot_take_is_named(self):
        answer = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
        async with Client(modern(tools_list=answer)) as client:
            with pytest.raises(InvalidAnswer, match="which this client cannot take"):
                await client.tools()


ECHO = """
from dovetail import Server
server = Server("s")

@server.tool
async def echo(text: str) -> str:
    return text

server.run()
"""


class TestMuchAtOnce:
    """Both sides write more than the other reads at a time; neither may wait for the other to read first."""

    COUNT, TEXT = 24, "x" * 500_000

    async def echo(self, client: Client) -> None:
        async with client:
            calls = (client.call("echo", text=self.TEXT) for _ in range(self.COUNT))
            results = await asyncio.gather(*calls)
        assert all(result.data == self.TEXT for result in results)

    @pytest.mark.parametrize("name", [HANDSHAKE[-1], NEWEST.name])
    async def test_in_memory(self, name: str):
        server = Server("s")

        @server.tool
        async def echo(text: str) -> str:
            return text

        await self.echo(Client(server, revision=name))

    @pytest.mark.parametrize("name", [HANDSHAKE[-1], NEWEST.name])
    async def test_over_stdio(self, name: str, tmp_path: Path):
        program = tmp_path / "echo.py"
        program.write_text(ECHO)
        await self.echo(Client([sys.executable, str(program)], revision=name))


class TestTimeouts:
    async def test_a_call_has_the_clients_patience_or_its_own(self):
        clock = Clock()
        server = legacy(tools_call=SILENCE)
        async with Client(server, timeout=10) as client:
            for own, waits in ((None, 10), (2, 2)):
                asked = asyncio.create_task(client.call("x", timeout=own))
                await settled()
                await clock.advance(waits - 0.1)
                assert not asked.done()
                await clock.advance(0.2)
                with pytest.raises(Timeout, match=f"No answer to tools/call within {waits} s"):
                    await asked
                assert server.methods[-1] == "notifications/cancelled"

    async def test_a_hard_maximum_ends_what_progress_keeps_alive(self):
        clock = Clock()
        server = legacy(tools_call=SILENCE)
        async with Client(server, timeout=3, max_timeout=5) as client:
            asked = asyncio.create_task(client.call("x", progress=lambda *_: None))
            await settled()
            token = server.asked[-1]["params"]["_meta"]["progressToken"]
            for n in range(2):
                await clock.advance(2)
                report = {"progressToken": token, "progress": n}
                server.peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": report})
                await settled()
            await clock.advance(1.1)
            with pytest.raises(Timeout, match="within 5 s"):
                await asked

    @EVERY
    async def test_a_caller_that_is_cancelled_stops_the_tool(self, name: str):
        ended = asyncio.Event()
        server = Server("s")

        @server.tool
        async def wait(ctx: Context) -> None:
            try:
                await ctx.progress(1)
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with Client(server, revision=name) as client:
            begun = asyncio.Event()
            asked = asyncio.create_task(client.call("wait", progress=lambda *_: begun.set()))
            await begun.wait()
            asked.cancel()
            await ended.wait()


class TestReading:
    @EVERY
    async def test_a_resource(self, name: str):
        async with Client(example(), revision=name) as client:
            assert [part.text for part in (await client.read("config://app")).contents] == ['{"a":1}']  # type: ignore[union-attr]
            assert [part.text for part in (await client.read("greet://Ana")).contents] == ["Hello Ana"]  # type: ignore[union-attr]

    @EVERY
    async def test_one_that_does_not_exist(self, name: str):
        async with Client(example(), revision=name) as client:
            with pytest.raises(RemoteError, match="Resource not found: config://nothing") as caught:
                await client.read("config://nothing")
            assert caught.value.code == REVISIONS[name].not_found_code
            assert caught.value.data == {"uri": "config://nothing"}

    @EVERY
    async def test_a_prompt(self, name: str):
        async with Client(example(), revision=name) as client:
            for result in (
                await client.prompt("review", code="x"),
                await client.prompt("review", {"code": "x"}),
            ):
                assert [message.content.text for message in result.messages] == ["Review this python: x"]  # type: ignore[union-attr]
            with pytest.raises(RemoteError, match="code"):
                await client.prompt("review")


class TestAnything:
    @EVERY
    async def test_ping_works_also_where_there_is_none(self, name: str):
        async with Client(example(), revision=name) as client:
            await client.ping()

    async def test_a_server_that_does_not_answer_a_ping_is_a_timeout(self):
        clock = Clock()
        server = legacy()
        async with Client(server) as client:
            server.answers["ping"] = SILENCE
            asked = asyncio.create_task(client.ping(timeout=1))
            await settled()
            await clock.advance(1.1)
            with pytest.raises(Timeout):
                await asked

    @EVERY
    async def test_a_bare_request_gives_the_bare_result(self, name: str):
        async with Client(example(), revision=name) as client:
            result = await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            assert result["content"][0]["text"] == "3"
            with pytest.raises(NotFound):
                await client.request("no/such")

    async def test_a_notification_goes_out_as_it_is(self):
        server = legacy()
        async with Client(server) as client:
            client.notify("notifications/x", {"n": 1})
            client.notify("notifications/y")
            await client.ping()
        assert server.asked[3:5] == [
            {"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": 1}},
            {"jsonrpc": "2.0", "method": "notifications/y"},
        ]


class TestLosing:
    @pytest.mark.parametrize("make", [legacy, modern])
    async def test_a_server_that_goes_fails_what_waits_and_what_comes(self, make: Any):
        server: Scripted = make(tools_call=SILENCE)
        async with Client(server) as client:
            asked = asyncio.create_task(client.call("x"))
            await until(lambda: "tools/call" in server.methods)
            await server.peer.channel.close()
            for call in (asked, client.call("x")):
                with pytest.raises(ConnectionLost, match="the peer closed the connection"):
                    await call
            server.peer.disconnected(None)

    async def test_closing_fails_what_waits(self):
        client = Client(example())
        await client.open()
        asked = asyncio.create_task(client.call("wait"))
        await settled()
        await client.close()
        with pytest.raises(ConnectionLost, match="the connection was closed"):
            await asked

    async def test_an_unreachable_server_is_one_typed_error(self):
        with pytest.raises(ConnectionLost, match="Could not start 'no-such-program-anywhere'"):
            await Client("no-such-program-anywhere").open()

    async def test_a_server_that_refuses_is_one_typed_error(self):
        with pytest.raises(RemoteError, match="not today"):
            await Client(Scripted(initialize=Error(-32000, "not today"))).open()


async def test_more_calls_at_once_than_a_server_takes_wait_for_their_turn() -> None:
    server = Server("s")

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with Client(server) as client:
        results = await asyncio.gather(*(client.call("echo", text=str(number)) for number in range(1500)))
    assert [result.data for result in results] == [str(number) for number in range(1500)]
