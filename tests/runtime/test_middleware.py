"""The contract of middleware: order, what it may change, and what it sees, both ways on both sides."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Context, ProtocolError, RemoteError, Server, ToolError
from dovetail.middleware import Exchange, Middleware, Proceed
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, LocalError, NotFound
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, REVISIONS
from dovetail.runtime.middleware import Chain
from dovetail.storage.memory import MemoryStore
from tests.support.scripted import modern
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)
EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)


class Seen:
    """Notes what passes."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        self.exchanges.append(exchange)
        try:
            result = await proceed(exchange)
        except Exception as problem:
            exchange.notes["outcome"] = problem
            raise
        exchange.notes["outcome"] = result
        return result

    @property
    def methods(self) -> list[str]:
        return [exchange.method for exchange in self.exchanges]

    def last(self, method: str) -> tuple[Exchange, Any]:
        found = [exchange for exchange in self.exchanges if exchange.method == method][-1]
        return found, found.notes["outcome"]


def exchange(method: str = "tools/call", **params: Any) -> Exchange:
    return Exchange("server", "in", method, params, NEWEST)


def calculator(*middleware: Middleware) -> Server:
    server = Server("s", middleware=middleware)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def crash() -> str:
        raise RuntimeError("inside")

    @server.tool
    async def refuse() -> str:
        raise ToolError("on purpose")

    @server.tool
    async def ask(ctx: Context) -> Any:
        return await ctx.request("ping")

    @server.resource("x://crash")
    async def broken() -> str:
        raise RuntimeError("inside")

    return server


class TestExchange:
    def test_meta_comes_into_being_when_it_is_asked_for(self):
        params: dict[str, Any] = {"name": "t"}
        passing = Exchange("client", "out", "tools/call", params, NEWEST)
        passing.meta["traceparent"] = "00-1"
        assert passing.params == {"name": "t", "_meta": {"traceparent": "00-1"}}
        assert params == {"name": "t"}
        assert exchange(_meta={"k": 1}).meta == {"k": 1}
        assert exchange(_meta="nonsense").meta == {}

    def test_what_a_request_is_about(self):
        assert exchange(name="add").target == "add"
        assert exchange("resources/read", uri="x://y").target == "x://y"
        assert exchange("tools/list").target is None
        assert exchange(name=5).target is None


class TestChain:
    async def test_the_first_is_outermost(self):
        heard: list[str] = []

        def named(name: str) -> Middleware:
            async def one(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
                heard.append(f"{name} in")
                result = await proceed(passing)
                heard.append(f"{name} out")
                return {**result, "by": [*result["by"], name]}

            return one

        async def last(passing: Exchange) -> dict[str, Any]:
            heard.append("served")
            return {"by": []}

        assert await Chain([named("a"), named("b")]).run(exchange(), last) == {"by": ["b", "a"]}
        assert heard == ["a in", "b in", "served", "b out", "a out"]

    async def test_one_that_is_added_as_the_outermost_changes_no_name_in_a_store(self):
        order: list[str] = []
        stores: dict[str, str] = {}

        class Named:
            def __init__(self, name: str) -> None:
                self.name = name

            def use_store(self, store: Any, name: str) -> None:
                stores[self.name] = name

            async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
                order.append(self.name)
                return await proceed(exchange)

        server = Server("s", middleware=[Named("first"), Named("second")])
        server.use(Named("outer"), outermost=True)
        server.tool(lambda: 1, name="one", input_schema={"type": "object"})
        async with Client(server) as client:
            order.clear()
            await client.tools()
        assert order == ["outer", "first", "second"]
        chain = Chain([Named("first"), Named("second")])
        chain.add(Named("outer"), outermost=True)
        chain.use_store(MemoryStore(), "s")
        assert stores == {"first": "s:0", "second": "s:1", "outer": "s:2"}

    async def test_it_may_answer_itself_or_ask_twice(self):
        async def once(passing: Exchange) -> dict[str, Any]:
            asked.append(passing.method)
            return {}

        async def itself(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            return {"mine": True}

        async def twice(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            await proceed(passing)
            return await proceed(passing)

        asked: list[str] = []
        assert await Chain([itself]).run(exchange(), once) == {"mine": True}
        await Chain([twice, twice]).run(exchange(), once)
        assert len(asked) == 4

    async def test_some_methods_only(self):
        seen = Seen()
        chain = Chain()
        assert not chain
        chain.add(seen, ["tools/list"])
        assert chain
        assert chain.wraps("tools/list")
        assert not chain.wraps("tools/call")

    def test_names_that_a_peer_makes_up_are_not_remembered_without_end(self):
        chain = Chain([Seen()])
        for number in range(1000):
            assert chain.wraps(f"made/up{number}")
        assert len(chain._by_method) <= 256


class TestServer:
    @EVERY
    async def test_every_request_that_comes_in(self, name: str):
        seen = Seen()
        async with Client(calculator(seen), revision=name) as client:
            await client.tools()
            assert (await client.call("add", a=1, b=2)).data == 3
            with pytest.raises(NotFound):
                await client.request("no/such")
        first = "initialize" if name in HANDSHAKE else "server/discover"
        assert seen.methods == [first, "tools/list", "tools/call", "no/such"]
        passing, result = seen.last("tools/call")
        assert (passing.role, passing.way, passing.target, passing.revision.name) == ("server", "in", "add", name)
        assert passing.peer is not None and passing.peer.name == "dovetail"
        assert passing.principal is None and passing.problem is None and passing.id is not None
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert isinstance(seen.last("no/such")[1], ProtocolError)

    @EVERY
    async def test_params_and_results_may_be_changed(self, name: str):
        async def double(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            passing.params = {**passing.params, "arguments": {"a": 20, "b": 1}}
            result = await proceed(passing)
            return {**result, "_meta": {**result.get("_meta", {}), "com.example/k": 1}}

        server = calculator()
        server.use(double, methods=["tools/call"])
        async with Client(server, revision=name) as client:
            result = await client.call("add", a=1, b=2)
            assert result.text == "21"
            assert result.meta is not None and result.meta["com.example/k"] == 1

    async def test_params_of_one_request_do_not_leak_into_another(self):
        async def mark(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            assert "mark" not in passing.params
            passing.params["mark"] = 1
            return await proceed(passing)

        async with served(calculator(mark), HANDSHAKE[-1]) as caller:
            for _ in range(2):
                await caller.result("ping")

    async def test_it_cannot_make_another_request_of_it(self, caplog: pytest.LogCaptureFixture):
        async def other(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            passing.method = "tools/list"
            return await proceed(passing)

        server = calculator()
        server.use(other, methods=["tools/call"])
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="Internal error"):
                await client.call("add", a=1, b=2)
        assert "it may change only the params" in caplog.text

    @EVERY
    async def test_it_may_refuse(self, name: str):
        async def never(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            raise ProtocolError(4711, "No", {"why": "because"})

        server = calculator()
        server.use(never, methods=["tools/call"])
        async with Client(server, revision=name) as client:
            with pytest.raises(RemoteError) as error:
                await client.call("add", a=1, b=2)
            assert (error.value.code, error.value.data) == (4711, {"why": "because"})

    @EVERY
    async def test_what_a_handler_raised_is_known_to_it(self, name: str):
        seen = Seen()
        async with Client(calculator(seen), revision=name) as client:
            for tool, kind in (("crash", RuntimeError), ("refuse", type(None))):
                await client.call(tool, check=False)
                assert isinstance(seen.last("tools/call")[0].problem, kind)
            with pytest.raises(RemoteError):
                await client.read("x://crash")
            passing, outcome = seen.last("resources/read")
            assert isinstance(passing.problem, RuntimeError) and isinstance(outcome, ProtocolError)

    @EACH_HANDSHAKE
    async def test_requests_that_go_out(self, name: str):
        seen = Seen()
        async with Client(calculator(seen), revision=name) as client:
            await client.call("ask")
        passing, result = seen.last("ping")
        assert (passing.role, passing.way, result) == ("server", "out", {})
        assert passing.id is not None

    @EACH_HANDSHAKE
    async def test_requests_right_behind_initialize_find_it_done(self, name: str):
        async with served(calculator(Seen()), name, opened=False) as caller:
            hello = {"protocolVersion": name, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            first = caller.begin("initialize", **hello)
            second = caller.begin("tools/list")
            assert "result" in await caller.answer_to(first)
            assert "result" in await caller.answer_to(second)

    async def test_a_call_that_is_cancelled_is_cancelled_inside(self):
        stopped = asyncio.Event()

        async def watch(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            try:
                return await proceed(passing)
            except asyncio.CancelledError:
                stopped.set()
                raise

        server = Server("s", middleware=[watch])
        began = asyncio.Event()

        @server.tool
        async def wait() -> None:
            began.set()
            await asyncio.Event().wait()

        async with Client(server) as client:
            call = asyncio.create_task(client.call("wait"))
            await began.wait()
            call.cancel()
            await stopped.wait()


class TestClient:
    @EVERY
    async def test_every_request_after_first_contact(self, name: str):
        seen = Seen()
        async with Client(calculator(), revision=name, middleware=[seen]) as client:
            assert (await client.call("add", a=1, b=2)).data == 3
            assert seen.methods[0] == "tools/call"
            passing, result = seen.last("tools/call")
            assert (passing.role, passing.way, passing.target) == ("client", "out", "add")
            assert passing.peer is not None and passing.peer.name == "s"
            assert isinstance(passing.id, int)
            assert result["content"] == [{"type": "text", "text": "3"}]

    @EVERY
    async def test_what_it_writes_into_meta_reaches_the_server(self, name: str):
        async def trace(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            passing.meta["traceparent"] = "00-1"
            return await proceed(passing)

        server = Server("s")

        @server.tool
        async def tell(ctx: Context) -> Any:
            return [ctx.meta.get("traceparent"), "progressToken" in ctx.meta]

        async with Client(server, revision=name, middleware=[trace]) as client:
            assert (await client.call("tell")).data == ["00-1", False]
            assert (await client.call("tell", progress=lambda *_: None)).data == ["00-1", True]

    @EACH_HANDSHAKE
    async def test_requests_of_the_server(self, name: str):
        seen = Seen()
        client = Client(calculator(), revision=name)
        client.use(seen, methods=["ping"])
        async with client:
            await client.call("ask")
        passing, result = seen.last("ping")
        assert (passing.role, passing.way, result) == ("client", "in", {})
        assert passing.peer is not None and passing.peer.name == "s"

    async def test_what_it_sees_when_the_server_is_gone(self):
        seen = Seen()
        async with Client(calculator(), middleware=[seen]) as client:
            await client._connected().connection.close()
            with pytest.raises(ConnectionLost):
                await client.call("add", a=1, b=2)
            assert isinstance(seen.last("tools/call")[1], ConnectionLost)

    async def test_a_result_that_is_no_object_is_an_invalid_answer(self):
        async def odd(message: dict[str, Any]) -> Any:
            return [1]

        async with Client(modern(com_odd=odd), middleware=[Seen()]) as client:
            with pytest.raises(InvalidAnswer, match="not an object"):
                await client.request("com/odd")

    async def test_it_cannot_make_another_request_of_it(self):
        async def other(passing: Exchange, proceed: Proceed) -> dict[str, Any]:
            passing.method = "tools/list"
            return await proceed(passing)

        async with Client(calculator(), middleware=[other]) as client:
            with pytest.raises(LocalError, match="it may change only the params"):
                await client.call("add", a=1, b=2)
