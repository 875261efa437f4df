"""One server inside another."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from dovetail import Client, Context, RemoteError, Server
from dovetail.middleware import Timing
from dovetail.protocol.errors import LocalError
from dovetail.protocol.revisions import REVISIONS
from dovetail.types.content import TextContents
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)


def database(lives: list[str] | None = None) -> Server:
    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        if lives is not None:
            lives.append("up")
        yield f"state of {server.info.name}"
        if lives is not None:
            lives.append("down")

    server = Server("database", lifespan=lifespan)

    @server.tool(read_only=True, concurrency=1)
    async def query(sql: str, ctx: Context) -> str:
        """Ask the database."""
        return f"{sql}: {ctx.lifespan}, {ctx.server.info.name}"

    @server.tool
    def plain(number: int) -> int:
        return number

    @server.prompt
    async def explain(table: str, ctx: Context) -> str:
        return f"{table}: {ctx.lifespan}"

    @server.resource("table://{name}")
    async def table(name: str, ctx: Context) -> str:
        return f"{name}: {ctx.lifespan}"

    server.resource("schema://all", ttl=3)(lambda: "schema")
    server.completion("explain", "table")(lambda value, context: ["orders", "users"])
    server.completion("table://{name}", "name")(lambda value: ["rows"])
    return server


class TestMountedServers:
    @EVERY
    async def test_a_mounted_server_is_offered_under_its_prefix_with_its_own_lifespan(self, name: str):
        lives: list[str] = []
        server = Server("outer")
        server.mount(database(lives), prefix="db")
        async with Client(server, revision=name) as client:
            assert [tool.name for tool in await client.tools()] == ["db_query", "db_plain"]
            assert (await client.tools())[0].description == "Ask the database."
            assert (await client.call("db_query", sql="x")).data == "x: state of database, database"
            assert (await client.call("db_plain", number=5)).data == 5
            [message] = (await client.prompt("db_explain", table="t")).messages
            assert getattr(message.content, "text", None) == "t: state of database"
            [contents] = (await client.read("table://users")).contents
            assert isinstance(contents, TextContents) and contents.text == "users: state of database"
            assert (await client.complete("db_explain", "table", "us")).values == ["users", "orders"]
            assert (await client.complete("table://{name}", "name", "")).values == ["rows"]
            assert lives == ["up"]
            with pytest.raises(RemoteError, match="Unknown tool: query"):
                await client.call("query", sql="x")
        assert lives == ["up", "down"]

    async def test_errors_name_the_tool_as_the_client_called_it(self):
        server = Server("outer")
        server.mount(database(), prefix="db")
        async with Client(server) as client:
            result = await client.call("db_plain", number="five", check=False)
            assert "tool 'db_plain'" in result.text

    async def test_names_stay_without_a_prefix(self):
        server = Server("outer")
        server.mount(database())
        async with Client(server) as client:
            assert (await client.call("query", sql="x")).data == "x: state of database, database"
            assert (await client.complete("explain", "table", "")).values == ["orders", "users"]

    async def test_servers_are_mounted_beside_and_within_each_other(self):
        inner, middle, server = database(), Server("middle"), Server("outer")
        middle.mount(inner, prefix="db")
        server.mount(middle, prefix="m")
        other = Server("other")
        other.tool(lambda: 1, name="one")
        server.mount(other, prefix="o")
        async with Client(server) as client:
            assert [tool.name for tool in await client.tools()] == ["m_db_query", "m_db_plain", "o_one"]
            assert (await client.call("m_db_query", sql="x")).data == "x: state of database, database"
            assert (await client.complete("m_db_explain", "table", "")).values == ["orders", "users"]
            inner.tool(lambda: 2, name="two")
            assert (await client.call("m_db_two")).text == "2"

    async def test_items_are_listed_in_the_order_of_adding(self):
        server = Server("outer")
        server.tool(lambda: 1, name="z")
        server.mount(database(), prefix="db")
        server.tool(lambda: 1, name="a")
        async with Client(server) as client:
            for _ in range(2):
                assert [tool.name for tool in await client.tools()] == ["z", "db_query", "db_plain", "a"]


class TestChanges:
    @EVERY
    async def test_changes_of_a_mounted_server_reach_the_outer_clients_once(self, name: str):
        inner, server = database(), Server("outer")
        server.mount(inner, prefix="db")
        heard: list[str] = []

        async def watch() -> None:
            changes = client.watch("schema://all", tools=True, prompts=True)
            while True:
                change = await anext(changes)
                heard.append(change.uri or change.kind)

        async with Client(server, revision=name) as client:
            watching = asyncio.create_task(watch())
            await settled(50)
            inner.tool(lambda: 7, name="seven")
            await until(lambda: heard == ["tools"])
            assert (await client.call("db_seven")).text == "7"
            inner.remove_tool("seven")
            await until(lambda: heard == ["tools", "tools"])
            with pytest.raises(RemoteError):
                await client.call("db_seven")
            inner.notify_resource_updated("schema://all")
            await until(lambda: heard[-1] == "schema://all")
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        assert heard == ["tools", "tools", "schema://all"]

    def test_a_name_that_the_outer_server_has_is_refused_inside(self):
        inner, server = Server("inner"), Server("outer")
        server.tool(lambda: 1, name="db_x")
        server.mount(inner, prefix="db")
        with pytest.raises(LocalError, match="has 'db_x', which is taken already"):
            inner.tool(lambda: 2, name="x")
        assert "x" not in inner._core.tools
        inner.tool(lambda: 2, name="y")
        assert [key for key, _ in server._core.tools.items()] == ["db_x", "db_y"]


class TestRefusedMounts:
    def test_a_name_clash_leaves_nothing_mounted(self):
        server = Server("outer")
        server.tool(lambda: 1, name="plain")
        with pytest.raises(LocalError, match="taken already"):
            server.mount(database())
        assert [key for key, _ in server._core.tools.items()] == ["plain"]
        server.mount(database(), prefix="db")

    def test_a_server_cannot_be_mounted_in_itself(self):
        server, inner = Server("outer"), Server("inner")
        with pytest.raises(LocalError, match="in itself"):
            server.mount(server)
        server.mount(inner)
        with pytest.raises(LocalError, match="in itself"):
            inner.mount(server)

    def test_a_server_with_guards_of_its_own_is_not_mounted(self):
        for guarded in (Server("g", middleware=[Timing()]), Server("g", visible=lambda *_: True)):
            with pytest.raises(LocalError, match="would not hold where it is mounted"):
                Server("outer").mount(guarded)
        inner = Server("inner")
        Server("outer").mount(inner)
        with pytest.raises(LocalError, match="give it to the outer server"):
            inner.use(Timing())

    async def test_a_server_with_clients_mounts_nothing(self):
        server = Server("outer")
        async with Client(server) as client:
            await client.ping()
            with pytest.raises(LocalError, match="before the first client comes"):
                server.mount(Server("inner"))
