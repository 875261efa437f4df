"""Handles: state that outlives a call, kept for its principal and for a limited time."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from dovetail import Client, Context, Handles, LocalError, NotFound, Server, SyncContext, TextContents
from dovetail.protocol.revisions import REVISIONS
from dovetail.server.features import handles as module
from dovetail.server.startup_checks import check_before_start
from dovetail.storage import MemoryStore, Store
from tests.support.http import serving

EVERY = pytest.mark.parametrize("revision", REVISIONS)
MISSING = "There is no basket with this id, or it has expired; create one with new_basket"


@dataclass
class Basket:
    items: list[str] = field(default_factory=list[str])


class Shop:
    """A server with baskets, and the means to stop a call while it changes one."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("shop", auth=options.pop("auth", None))
        self.baskets: Handles[Basket] = self.server.handles(Basket, created_by="new_basket", **options)
        self.opened = asyncio.Event()
        self.go_on = asyncio.Event()
        for function in (self.new_basket, self.add, self.show, self.pay, self.add_slowly, self.fail, self.spoil):
            self.server.tool(function)

    async def new_basket(self, ctx: Context) -> str:
        """Create a basket."""
        return await self.baskets.create(ctx, Basket())

    async def add(self, basket_id: str, item: str, ctx: Context) -> int:
        async with self.baskets.open(ctx, basket_id) as basket:
            basket.items.append(item)
        return len(basket.items)

    async def show(self, basket_id: str, ctx: Context) -> list[str]:
        return (await self.baskets.get(ctx, basket_id)).items

    async def pay(self, basket_id: str, ctx: Context) -> None:
        await self.baskets.delete(ctx, basket_id)

    async def add_slowly(self, basket_id: str, item: str, ctx: Context) -> None:
        async with self.baskets.open(ctx, basket_id) as basket:
            basket.items.append(item)
            self.opened.set()
            await self.go_on.wait()

    async def fail(self, basket_id: str, ctx: Context) -> None:
        async with self.baskets.open(ctx, basket_id) as basket:
            basket.items.append("never")
            raise ValueError("no")

    async def spoil(self, basket_id: str, ctx: Context) -> None:
        async with self.baskets.open(ctx, basket_id) as basket:
            basket.items.append(7)  # pyright: ignore[reportArgumentType]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def over_http(
    server: Server, store: Store | str | None = None, token: str | None = None
) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        serving(server.asgi(store=store) if store is not None else server.asgi()) as url,
        Client(f"{url}/mcp", headers=headers) as client,
    ):
        yield client


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, **arguments, check=False)
    assert result.is_error
    return result.text


class TestUse:
    @EVERY
    async def test_state_outlives_calls_and_connections(self, revision: str) -> None:
        shop = Shop()
        async with Client(shop.server, revision=revision) as client:
            id = (await client.call("new_basket")).text
            assert (await client.call("add", basket_id=id, item="tea")).data == 1
        async with Client(shop.server, revision=revision) as client:
            assert (await client.call("show", basket_id=id)).data == ["tea"]

    async def test_ids_are_opaque_and_begin_with_the_name(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            ids = {(await client.call("new_basket")).text for _ in range(50)}
        assert len(ids) == 50
        assert all(id.startswith("basket_") and len(id) == len("basket_") + 22 for id in ids)

    async def test_a_deleted_state_is_gone(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            await client.call("pay", basket_id=id)
            assert [await refusal(client, tool, basket_id=id) for tool in ("show", "pay")] == [MISSING, MISSING]

    async def test_a_block_that_fails_changes_nothing(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            assert "no" in await refusal(client, "fail", basket_id=id)
            await client.call("add", basket_id=id, item="tea")
            assert (await client.call("show", basket_id=id)).data == ["tea"]

    async def test_a_state_that_is_not_of_the_type_is_not_stored(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            assert "The basket cannot be stored as Basket: items[0]" in await refusal(client, "spoil", basket_id=id)
            assert (await client.call("show", basket_id=id)).data == []

    async def test_a_state_that_fits_no_longer_is_explained(self) -> None:
        store = MemoryStore()
        async with over_http(Shop().server, store) as client:
            id = (await client.call("new_basket")).text
        server = Server("shop")

        @dataclass
        class Changed:
            owner: str

        baskets = server.handles(Changed, name="basket")

        @server.tool
        async def show(basket_id: str, ctx: Context) -> str:
            return (await baskets.get(ctx, basket_id)).owner

        async with over_http(server, store) as client:
            text = await refusal(client, "show", basket_id=id)
        assert text == "This basket cannot be read any more, because the server has changed; create a new one"

    async def test_a_resource_can_use_handles(self) -> None:
        shop = Shop()

        @shop.server.resource("basket://{id}")
        async def basket(id: str, ctx: Context) -> list[str]:
            return (await shop.baskets.get(ctx, id)).items

        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            (contents,) = (await client.read(f"basket://{id}")).contents
            assert isinstance(contents, TextContents) and contents.text == "[]"
            with pytest.raises(NotFound, match="There is no basket with this id"):
                await client.read("basket://other")

    async def test_a_state_created_in_a_step_is_created_once(self) -> None:
        server = Server("shop")
        baskets = server.handles(Basket)
        seen: list[str] = []

        @server.tool
        async def start(ctx: Context) -> str:
            id = await ctx.step("create", baskets.create, ctx, Basket())
            seen.append(id)
            await ctx.elicit("Go on?")
            return id

        async with Client(server, on_elicit=lambda _: {}) as client:
            id = (await client.call("start")).text
        assert set(seen) == {id}


@dataclass
class Data:
    name: str
    tags: set[str] = field(default_factory=set[str])


class Typed(TypedDict):
    name: str


class Struct(msgspec.Struct):
    name: str


@attrs.define
class Attrs:
    name: str


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="full name")


VALUES: list[Any] = [Data("a", {"x"}), Typed(name="a"), Struct("a"), Attrs("a"), Model(**{"full name": "a"})]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_state_has_any_type_that_a_tool_can_take(value: Any) -> None:
    server = Server("s")
    kind = Typed if isinstance(value, dict) else type(value)
    things: Handles[Any] = server.handles(kind)
    seen: list[Any] = []

    @server.tool
    async def create(ctx: Context) -> str:
        return await things.create(ctx, value)

    @server.tool
    async def get(id: str, ctx: Context) -> None:
        seen.append(await things.get(ctx, id))

    async with Client(server) as client:
        await client.call("get", id=(await client.call("create")).text)
    assert seen == [value]


class TestPlainFunctions:
    async def test_a_plain_function_uses_handles_without_await(self) -> None:
        server = Server("shop")
        baskets = server.handles(Basket)
        threads: set[int] = set()

        @server.tool
        def new(ctx: SyncContext) -> str:
            return baskets.create(ctx, Basket(["tea"]))

        @server.tool
        def add(id: str, item: str, ctx: SyncContext) -> list[str]:
            threads.add(threading.get_ident())
            with baskets.open(ctx, id) as basket:
                basket.items.append(item)
            return baskets.get(ctx, id).items

        @server.tool
        def pay(id: str, ctx: SyncContext) -> None:
            baskets.delete(ctx, id)

        async with Client(server) as client:
            id = (await client.call("new")).text
            await asyncio.gather(*(client.call("add", id=id, item=str(n)) for n in range(8)))
            assert len((await client.call("add", id=id, item="cup")).data) == 10
            await client.call("pay", id=id)
            assert "There is no basket with this id" in await refusal(client, "add", id=id, item="x")
        assert threading.get_ident() not in threads

    async def test_a_plain_function_with_an_async_context_is_told_what_to_declare(self) -> None:
        server = Server("shop")
        baskets = server.handles(Basket)

        @server.tool
        def new(ctx: Context) -> Any:
            return baskets.create(ctx, Basket())

        async with Client(server) as client:
            assert "declare ctx: SyncContext" in await refusal(client, "new")


class TestOwner:
    async def test_unknown_foreign_and_expired_ids_get_one_and_the_same_answer(self) -> None:
        clock = Clock()
        shop = Shop(ttl=60, auth=lambda token: token)
        app = shop.server.asgi(store=MemoryStore(clock=clock))
        other = Server("shop", auth=lambda token: token)
        other.handles(Basket, name="cart")
        async with serving(app) as url, contextlib.AsyncExitStack() as stack:

            async def of(token: str) -> Client:
                headers = {"Authorization": f"Bearer {token}"}
                return await stack.enter_async_context(Client(f"{url}/mcp", headers=headers))

            ann, bob = await of("ann"), await of("bob")
            expired, mine = [(await ann.call("new_basket")).text for _ in range(2)]
            clock.now = 59
            assert (await ann.call("show", basket_id=mine)).data == []
            clock.now = 61
            assert (await ann.call("show", basket_id=mine)).data == []
            answers = {
                await refusal(client, tool, basket_id=id, **more)
                for client, id in ((bob, mine), (ann, expired), (ann, mine[:-1]), (ann, ""), (ann, "x" * 10_000))
                for tool, more in (("show", {}), ("add", {"item": "x"}), ("pay", {}))
            }
            assert answers == {MISSING}

    async def test_without_authentication_whoever_has_the_id_may_use_it(self) -> None:
        shop = Shop()
        async with serving(shop.server.asgi()) as url:
            async with Client(f"{url}/mcp") as one:
                id = (await one.call("new_basket")).text
            async with Client(f"{url}/mcp") as two:
                assert (await two.call("show", basket_id=id)).data == []

    async def test_an_id_of_another_kind_is_unknown(self) -> None:
        shop = Shop()
        carts = shop.server.handles(Basket, name="cart")

        @shop.server.tool
        async def new_cart(ctx: Context) -> str:
            return await carts.create(ctx, Basket())

        async with Client(shop.server) as client:
            assert await refusal(client, "show", basket_id=(await client.call("new_cart")).text) == MISSING


class TestLifetime:
    async def test_each_use_starts_the_time_to_live_again(self) -> None:
        clock, shop = Clock(), Shop(ttl=60)
        async with over_http(shop.server, MemoryStore(clock=clock)) as client:
            id = (await client.call("new_basket")).text
            for tool, arguments in (("show", {}), ("add", {"item": "x"}), ("show", {})):
                clock.now += 59
                await client.call(tool, {"basket_id": id, **arguments})
            clock.now += 61
            assert await refusal(client, "show", basket_id=id) == MISSING

    async def test_the_lifetime_is_in_the_description_of_the_tool_that_creates(self) -> None:
        async with Client(Shop().server) as client:
            described = {tool.name: tool.description for tool in await client.tools()}
        assert described["new_basket"] == "Create a basket.\n\nEach basket is kept for 24 hours after its last use."
        assert not described["add"]

    async def test_the_tool_may_be_registered_before_the_handles(self) -> None:
        server = Server("s")

        async def new(ctx: Context) -> str:
            return await things.create(ctx, Basket())

        server.tool(new)
        things = server.handles(Basket, ttl=1800, created_by="new")
        async with Client(server) as client:
            (tool,) = await client.tools()
            assert tool.description == things.lifetime == "Each basket is kept for 30 minutes after its last use."

    @pytest.mark.parametrize(
        ("ttl", "words"),
        [
            (1, "1 second"), (60, "60 seconds"), (90, "90 seconds"), (600, "10 minutes"), (5400, "90 minutes"),
            (7200, "2 hours"), (10_000, "166 minutes"), (86400, "24 hours"), (7 * 86400, "7 days"),
            (0.5, "0.5 seconds"),
        ],
    )  # fmt: skip
    def test_the_lifetime_is_told_in_a_unit_that_fits(self, ttl: float, words: str) -> None:
        assert Server("s").handles(Basket, ttl=ttl).lifetime == f"Each basket is kept for {words} after its last use."


class TestConcurrency:
    async def test_changes_by_many_calls_at_once_are_all_kept(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            await asyncio.gather(*(client.call("add", basket_id=id, item=str(n)) for n in range(50)))
            assert sorted((await client.call("show", basket_id=id)).data, key=int) == [str(n) for n in range(50)]

    async def test_a_block_that_was_overtaken_is_not_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LOCK_SECONDS", 0.01)
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            slow = asyncio.create_task(refusal(client, "add_slowly", basket_id=id, item="slow"))
            await shop.opened.wait()
            await client.call("add", basket_id=id, item="quick")
            shop.go_on.set()
            text = "Another call changed this basket at the same time, so that this change was not made; try again"
            assert await slow == text
            assert (await client.call("show", basket_id=id)).data == ["quick"]

    async def test_a_call_waits_for_another_only_for_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            slow = asyncio.create_task(client.call("add_slowly", basket_id=id, item="slow"))
            await shop.opened.wait()
            text = await refusal(client, "add", basket_id=id, item="x")
            assert text == "Other calls are changing this basket; try again"
            assert (await client.call("show", basket_id=id)).data == []
            shop.go_on.set()
            await slow
            assert (await client.call("show", basket_id=id)).data == ["slow"]

    async def test_a_state_deleted_during_a_change_stays_deleted(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            slow = asyncio.create_task(refusal(client, "add_slowly", basket_id=id, item="slow"))
            await shop.opened.wait()
            await client.call("pay", basket_id=id)
            shop.go_on.set()
            assert await slow == MISSING

    async def test_a_cancelled_change_lets_the_next_one_go_on(self) -> None:
        shop = Shop()
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            slow = asyncio.create_task(client.call("add_slowly", basket_id=id, item="slow"))
            await shop.opened.wait()
            slow.cancel()
            assert (await client.call("add", basket_id=id, item="next")).data == 1


class TestStore:
    async def test_every_replica_finds_the_state_and_changes_of_several_are_all_kept(self, tmp_path: Path) -> None:
        path = str(tmp_path / "store")
        async with over_http(Shop().server, path) as one, over_http(Shop().server, path) as two:
            id = (await one.call("new_basket")).text
            both = [client.call("add", basket_id=id, item=str(n)) for n, client in enumerate((one, two) * 5)]
            await asyncio.gather(*both)
            assert sorted((await two.call("show", basket_id=id)).data) == [str(n) for n in range(10)]

    async def test_state_in_a_file_survives_a_restart_and_is_encrypted(self, tmp_path: Path) -> None:
        path = tmp_path / "store"
        async with over_http(Shop().server, str(path)) as client:
            id = (await client.call("new_basket")).text
            await client.call("add", basket_id=id, item="a secret wish")
        content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"handle:" in content
        assert (
            b"secret" not in content
            and id.encode() not in content
            and id.removeprefix("basket_").encode() not in content
        )
        async with over_http(Shop().server, str(path)) as client:
            assert (await client.call("show", basket_id=id)).data == ["a secret wish"]

    async def test_a_mounted_server_uses_the_store_of_the_outer_one(self, tmp_path: Path) -> None:
        path, id = str(tmp_path / "store"), ""
        for expected in (1, 2):
            outer = Server("outer")
            outer.mount(Shop().server, prefix="shop")
            async with over_http(outer, path) as client:
                id = id or (await client.call("shop_new_basket")).text
                assert (await client.call("shop_add", basket_id=id, item="x")).data == expected
                text = await refusal(client, "shop_show", basket_id="other")
                assert text == MISSING.replace("new_basket", "shop_new_basket")

    async def test_a_server_whose_store_was_closed_goes_on_in_memory(self, tmp_path: Path) -> None:
        shop = Shop()
        async with over_http(shop.server, str(tmp_path / "store")) as client:
            await client.call("new_basket")
        async with Client(shop.server) as client:
            await client.call("show", basket_id=(await client.call("new_basket")).text)

    async def test_a_store_that_fails_is_no_detail_for_the_caller(self, caplog: pytest.LogCaptureFixture) -> None:
        store, shop = MemoryStore(), Shop()
        async with over_http(shop.server, store) as client:
            id = (await client.call("new_basket")).text
            await store.close()
            text = "The basket cannot be reached at the moment; try again later"
            assert await refusal(client, "show", basket_id=id) == await refusal(client, "new_basket") == text
            assert await refusal(client, "add", basket_id=id, item="x") == text
        assert "A basket cannot be reached: The store is closed" in caplog.text


class TestLimits:
    async def test_a_principal_has_so_many_at_once(self) -> None:
        clock, shop = Clock(), Shop(max_handles=2, ttl=60, auth=lambda token: token)
        store = MemoryStore(clock=clock)
        async with over_http(shop.server, store, "ann") as ann:
            first = (await ann.call("new_basket")).text
            second = (await ann.call("new_basket")).text
            full = await refusal(ann, "new_basket")
            assert full.startswith("There are 2 already, which is the limit for each basket; use one that exists")
            await ann.call("pay", basket_id=first)
            await ann.call("new_basket")
            clock.now = 50
            await ann.call("show", basket_id=second)
            clock.now = 70  # the third has expired, the second was used
            await ann.call("new_basket")
            assert await refusal(ann, "new_basket") == full
        async with over_http(shop.server, store, "bob") as bob:
            await bob.call("new_basket")

    async def test_a_state_has_a_size_limit(self) -> None:
        shop = Shop(max_bytes=1000)
        async with Client(shop.server) as client:
            id = (await client.call("new_basket")).text
            text = await refusal(client, "add", basket_id=id, item="x" * 1000)
            assert "and 1,000 is the most; keep less in it" in text
            assert (await client.call("show", basket_id=id)).data == []


class TestMistakes:
    def test_a_tool_that_does_not_exist_is_reported_at_the_start(self) -> None:
        server = Server("s")
        server.handles(Basket, created_by="new_baskt")
        server.tool(lambda: None, name="new_basket", description="x")
        with pytest.raises(LocalError, match="created_by='new_baskt', but there is no such tool; did you mean"):
            check_before_start(server._core)

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            (Basket, {"ttl": 0}, "The ttl of a basket is a positive number of seconds, not 0"),
            (Basket, {"ttl": float("inf")}, "positive number"),
            (Basket, {"max_bytes": 10**9}, "max_bytes of a basket is a number from 1 to 2,097,152"),
            (Basket, {"name": ""}, "is no name for a handle"),
            (dict[str, int], {}, "Handles of dict.* need a name"),
            (threading.Lock, {"name": "lock"}, "cannot be converted"),
        ],
    )
    def test_wrong_options_are_refused(self, kind: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(LocalError, match=message):
            Server("s").handles(kind, **options)

    def test_a_name_is_used_once(self) -> None:
        server = Server("s")
        server.handles(Basket)
        with pytest.raises(LocalError, match="There are handles of the name 'basket' already"):
            server.handles(Basket)

    def test_a_type_with_several_words_has_a_readable_name(self) -> None:
        class HTTPSearchQuery2(msgspec.Struct):
            pass

        assert Server("s").handles(HTTPSearchQuery2).name == "http search query2"
