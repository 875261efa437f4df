"""What a handler can do besides returning: know who asks, report progress, ask back."""

from typing import Any

import pytest

from dovetail import Client, Context, Extension, Implementation, Server
from dovetail.protocol.errors import LocalError, NotFound, RemoteError, Timeout
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, REVISIONS
from dovetail.types.capabilities import ClientCapabilities, RootsCapability
from tests.support.peer import notification
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)


def answering(function: Any) -> Server:
    server = Server("s")
    server.tool(function, name="t")
    return server


class TestKnowing:
    @EVERY
    async def test_who_asks_and_on_which_terms(self, name: str):
        async def tell(ctx: Context) -> list[Any]:
            assert ctx.client is not None
            return [ctx.revision, ctx.client.name, ctx.client_capabilities.roots is not None, ctx.server.info.name]

        capabilities = ClientCapabilities(roots=RootsCapability())
        async with served(answering(tell), name, capabilities=capabilities) as caller:
            result = await caller.call("t")
            assert result["content"][0]["text"] == f'["{name}","by hand",true,"s"]'

    @EVERY
    async def test_the_id_and_the_meta_of_the_request(self, name: str):
        async def tell(ctx: Context) -> list[Any]:
            return [ctx.request_id, ctx.meta.get("com.example/k")]

        async with served(answering(tell), name) as caller:
            params = {"name": "t", "arguments": {}, "_meta": {"com.example/k": 1}}
            caller.request("id of mine", "tools/call", **caller.params(params))
            answer = await caller.next()
            assert answer["id"] == "id of mine"
            assert answer["result"]["content"][0]["text"] == '["id of mine",1]'

    async def test_without_a_lifespan_there_is_nothing_of_it(self):
        async def tell(ctx: Context) -> bool:
            return ctx.lifespan is None

        async with Client(answering(tell)) as client:
            assert (await client.call("t")).data is True

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_a_handler_without_meta_sees_an_empty_one(self, name: str):
        async def tell(ctx: Context) -> dict[str, Any]:
            return ctx.meta

        async with Client(answering(tell), revision=name) as client:
            assert (await client.call("t")).data == {}

    async def test_the_parameter_may_have_any_name_and_is_no_argument(self):
        async def tell(n: int, whatever: Context) -> str:
            return f"{n} {whatever.revision[:2]}"

        server = answering(tell)
        (tool,) = server._core.tools
        assert list(tool.definition.input_schema["properties"]) == ["n"]
        async with Client(server) as client:
            assert (await client.call("t", n=1)).data == "1 20"

    async def test_plain_functions_get_one_too(self):
        def tell(ctx: Context) -> str:
            assert isinstance(ctx.client, Implementation)
            return ctx.client.name

        async with Client(answering(tell)) as client:
            assert (await client.call("t")).data == "dovetail"


class TestProgress:
    @EVERY
    async def test_it_goes_to_whoever_asked_for_it(self, name: str):
        async def work(ctx: Context) -> None:
            await ctx.progress(1)
            await ctx.progress(2, 3)
            await ctx.progress(3, 3, "done")

        async with served(answering(work), name) as caller:
            await caller.call("t")
            assert caller.heard == []
            await caller.result("tools/call", name="t", arguments={}, _meta={"progressToken": "mine"})
            expected = [{"progress": 1}, {"progress": 2, "total": 3}, {"progress": 3, "total": 3, "message": "done"}]
            if name == HANDSHAKE[0]:
                del expected[2]["message"]
            assert caller.heard == [
                notification("notifications/progress", progressToken="mine", **report) for report in expected
            ]


class TestAskingBack:
    def doubling(self) -> Extension:
        async def double(params: dict[str, Any], client: Any) -> dict[str, Any]:
            return {"doubled": params["n"] * 2}

        return Extension(id="com.example/math", requests={"math/double": double})

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_a_server_may_ask_its_client_where_the_revision_allows_it(self, name: str):
        async def ask(ctx: Context) -> Any:
            await ctx.request("ping")
            return (await ctx.request("math/double", {"n": 21}))["doubled"]

        async with Client(answering(ask), revision=name, extensions=[self.doubling()]) as client:
            assert (await client.call("t")).data == 42

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_what_the_client_does_not_know_is_an_error_here(self, name: str):
        caught: list[Exception] = []

        async def ask(ctx: Context) -> None:
            try:
                await ctx.request("no/such")
            except RemoteError as problem:
                caught.append(problem)

        async with Client(answering(ask), revision=name) as client:
            await client.call("t")
        assert isinstance(caught[0], NotFound)

    @pytest.mark.parametrize("name", ENVELOPE)
    async def test_elsewhere_it_is_refused_at_once(self, name: str):
        caught: list[str] = []

        async def ask(ctx: Context) -> None:
            try:
                await ctx.request("ping")
            except LocalError as problem:
                caught.append(str(problem))

        async with served(answering(ask), name) as caller:
            await caller.call("t")
            assert caller.heard == []
        assert caught == [f"On revision {name} a server cannot send ping to its client"]

    async def test_a_client_that_does_not_answer_is_a_timeout(self):
        async def ask(ctx: Context) -> str:
            try:
                await ctx.request("ping", timeout=0.01)
            except Timeout:
                return "no answer"
            return "answer"

        async with served(answering(ask), HANDSHAKE[-1]) as caller:
            assert (await caller.call("t"))["content"][0]["text"] == "no answer"
            assert [message["method"] for message in caller.heard] == ["ping", "notifications/cancelled"]

    async def test_the_clients_progress_reaches_the_handler(self):
        heard: list[Any] = []

        async def ask(ctx: Context) -> None:
            await ctx.request("slow/thing", {"n": 1}, progress=lambda *report: heard.append(report))

        async with served(answering(ask), HANDSHAKE[-1]) as caller:
            id = caller.begin("tools/call", name="t", arguments={})
            asked = await caller.next()
            token = asked["params"]["_meta"]["progressToken"]
            assert asked["params"]["n"] == 1
            caller.send(notification("notifications/progress", progressToken=token, progress=1))
            caller.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
            await caller.answer_to(id)
        assert heard == [(1, None, None)]

    @EVERY
    async def test_a_notification_goes_out_until_the_answer_does(self, name: str):
        kept: list[Context] = []

        async def tell(ctx: Context) -> None:
            kept.append(ctx)
            ctx.notify("notifications/x", {"n": 1})
            ctx.notify("notifications/y")

        async with served(answering(tell), name) as caller:
            await caller.call("t")
            kept[0].notify("notifications/late")
            await caller.result("tools/list")
            assert caller.heard == [
                notification("notifications/x", n=1),
                {"jsonrpc": "2.0", "method": "notifications/y"},
            ]
