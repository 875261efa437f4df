"""Suspended calls: states that are checked before anything runs, calls that wait, and calls that run again."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import Client, Context, InputRequired, RemoteError, Server
from dovetail.protocol.errors import INVALID_PARAMS
from dovetail.protocol.mrtr import MAX_ROUNDS
from dovetail.protocol.seal import KeyRing
from dovetail.protocol.terms import Terms
from dovetail.server.mrtr import suspended_calls as module
from dovetail.server.mrtr.suspended_calls import SuspendedCalls
from dovetail.server.mrtr.used_states import UsedStates
from dovetail.server.session import Session
from dovetail.wire.jsonrpc import Request
from tests.support import plans
from tests.support.asking import KEYS, Rounds, accept, asked
from tests.support.clock import Clock
from tests.support.raw import script
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled, until


class Shop:
    """A server with a tool that asks twice and takes a step in between, and a record of what ran."""

    def __init__(self, keys: list[bytes] = KEYS) -> None:
        self.ran: list[str] = []
        self.server = Server("shop", state_keys=keys)
        self.server.tool(self.book)
        self.server.tool(self.book, name="book_too")
        self.server.prompt(self.book, name="book")

    async def book(self, ctx: Context, city: str = "Lima") -> str:
        self.ran.append("body")
        try:
            days = await ctx.elicit(f"How long in {city}?", int)
            price = await ctx.step("price", self.price, days.data)
            sure = await ctx.elicit(f"{price} in all. Sure?", bool)
            await ctx.step("book", self.ran.append, "book")
            return f"{city} {days.data} {price} {sure.data}"
        except asyncio.CancelledError:
            self.ran.append("stopped")
            raise

    def price(self, days: int) -> int:
        self.ran.append("price")
        return days * 10


def with_options(shop: Shop, **options: Any) -> Shop:
    shop.server._core._suspended_calls = SuspendedCalls(KeyRing(KEYS), **options)
    return shop


async def test_the_body_runs_once_where_the_call_waits() -> None:
    shop = Shop()
    async with asked(shop.server) as client:
        call = await Rounds.call(client, "book", city="Oslo")
        assert call.messages == ["How long in Oslo?"]
        await call.answer(3)
        assert call.messages == ["30 in all. Sure?"]
        assert len(shop.server._core.suspended_calls) == 1
        await call.answer(True)
        assert call.text == "Oslo 3 30 True"
        assert shop.ran == ["body", "price", "book"]
        assert len(shop.server._core.suspended_calls) == 0


async def test_a_replica_runs_the_body_again_but_no_step() -> None:
    one, two, three = Shop(), Shop(), Shop()
    async with asked(one.server) as a, asked(two.server) as b, asked(three.server) as c:
        call = await Rounds.call(a, "book")
        await call.answer(3, b)
        await call.answer(True, c)
        assert call.text == "Lima 3 30 True"
        assert [shop.ran for shop in (one, two, three)] == [["body"], ["body", "price"], ["body", "book"]]


async def test_real_processes_share_a_key(tmp_path: Path) -> None:
    """What was asked in one process is answered in another, and taken up there."""
    notes = tmp_path / "notes"
    plan = [["ask", "first", None], ["step", "s", "mark 0"], ["ask", "second", None], ["step", "s", "mark 1"]]
    command = script(plans.__file__, str(notes), KEYS[0].decode())
    async with asked(command) as a, asked(command) as b:
        call = await Rounds.call(a, "carry_out", plan=plan)
        state = call.state
        for client, taken in ((b, "mark 0"), (a, "mark 1")):
            answers = {key: plans.answer(one["method"], one["params"]) for key, one in call.questions.items()}
            await call.send(client, requestState=call.state, inputResponses=answers)
            assert notes.read_text().splitlines()[-1] == taken
        assert call.result["structuredContent"] == plans.Teller().tell(plan)
        assert notes.read_text().splitlines() == ["run", "run", "mark 0", "run", "mark 1"]
        assert (await call.refused(b, requestState=state)).code == INVALID_PARAMS


async def test_one_state_shown_to_two_processes_takes_each_step_once_in_each() -> None:
    one, two, three = Shop(), Shop(), Shop()
    async with asked(one.server) as a, asked(two.server) as b, asked(three.server) as c:
        first = await Rounds.call(a, "book")
        state, answers = first.state, first.accepted(3)
        for client, shop in ((b, two), (c, three)):
            call = Rounds(client, first.method, first.params)
            await call.send(requestState=state, inputResponses=answers)
            await call.answer(True)
            assert shop.ran == ["body", "price", "book"]
        assert one.ran == ["body"]


def flip(state: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))
    raw[-1] ^= 1
    return base64.urlsafe_b64encode(raw).decode()


@pytest.mark.parametrize(
    ("method", "params", "change"),
    [
        ("tools/call", {"name": "book", "arguments": {"city": "Oslo"}}, flip),
        ("tools/call", {"name": "book", "arguments": {"city": "Oslo"}}, lambda state: state[:-8]),
        ("tools/call", {"name": "book", "arguments": {"city": "Oslo"}}, lambda _: ""),
        ("tools/call", {"name": "book", "arguments": {"city": "Oslo"}}, lambda _: "nonsense ✓"),
        ("tools/call", {"name": "book", "arguments": {"city": "Rome"}}, str),
        ("tools/call", {"name": "book"}, str),
        ("tools/call", {"name": "book_too", "arguments": {"city": "Oslo"}}, str),
        ("prompts/get", {"name": "book", "arguments": {"city": "Oslo"}}, str),
    ],
    ids=["tampered", "cut", "empty", "nonsense", "other arguments", "no arguments", "other tool", "other method"],
)
async def test_a_state_that_does_not_fit_runs_nothing(
    method: str, params: dict[str, Any], change: Callable[[str], str]
) -> None:
    shop, replica = Shop(), Shop()
    async with asked(shop.server) as client, asked(replica.server) as other:
        call = await Rounds.call(client, "book", city="Oslo")
        wrong = Rounds(client, method, params)
        more = {"requestState": change(call.state), "inputResponses": call.accepted(3)}
        for where in (client, other):
            problem = await wrong.refused(where, **more)
            assert problem.code == INVALID_PARAMS
            assert "request state is not valid" in problem.message
        assert shop.ran == ["body"] and replica.ran == []
        await call.answer(3)  # the true state is as good as before
        assert call.messages == ["30 in all. Sure?"]


async def test_a_foreign_key_opens_nothing() -> None:
    shop, stranger = Shop(), Shop([b"a key that nobody else knows"])
    async with asked(shop.server) as a, asked(stranger.server) as b:
        call = await Rounds.call(a, "book")
        problem = await call.refused(b, requestState=call.state, inputResponses=call.accepted(3))
        assert problem.code == INVALID_PARAMS
        assert stranger.ran == []


async def test_without_keys_a_state_is_good_for_its_process_only() -> None:
    one, two = Shop([]), Shop([])
    async with asked(one.server) as a, asked(two.server) as b:
        call = await Rounds.call(a, "book")
        assert (await call.refused(b, requestState=call.state)).code == INVALID_PARAMS
        await call.answer(3)
        await call.answer(True)
        assert call.text == "Lima 3 30 True"


async def test_a_foreign_principal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    terms_for = Session.terms_for

    def known(session: Session, request: Request) -> Terms:
        who = request.params.get("_meta", {}).get("com.example/who")
        return msgspec.structs.replace(terms_for(session, request), principal=who)

    monkeypatch.setattr(Session, "terms_for", known)
    shop = Shop()

    async def send(client: Client, who: str, **more: Any) -> Any:
        params = {"name": "book", "arguments": {}, **more}
        return await client.request("tools/call", params, meta={"com.example/who": who})

    async with asked(shop.server) as client:
        call = Rounds(client, "tools/call", {"name": "book", "arguments": {}})
        call.result = await send(client, "ann")
        retry = {"requestState": call.state, "inputResponses": call.accepted(3)}
        with pytest.raises(Exception, match="request state is not valid"):
            await send(client, "bob", **retry)
        assert shop.ran == ["body"]
        call.result = await send(client, "ann", **retry)
        assert call.messages == ["30 in all. Sure?"]


async def test_a_state_is_used_once() -> None:
    shop = Shop()
    async with asked(shop.server) as client:
        call = await Rounds.call(client, "book")
        retry = {"requestState": call.state, "inputResponses": call.accepted(3)}
        outcomes = await asyncio.gather(
            *(client.request(call.method, {**call.params, **retry}) for _ in range(5)), return_exceptions=True
        )
        assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
        assert (await call.refused(**retry)).code == INVALID_PARAMS
        assert shop.ran == ["body", "price"]


async def test_keys_rotate() -> None:
    old, new = b"the key of yesterday", b"the key of tomorrow"
    before, during, after = Shop([old]), Shop([new, old]), Shop([new])
    async with asked(before.server) as a, asked(during.server) as b, asked(after.server) as c:
        call = await Rounds.call(a, "book")
        assert (await call.refused(c, requestState=call.state)).code == INVALID_PARAMS
        await call.answer(3, b)
        assert (await call.refused(a, requestState=call.state)).code == INVALID_PARAMS
        await call.answer(True, c)
        assert call.text == "Lima 3 30 True"


async def test_a_state_expires() -> None:
    now = 1000.0
    shop, replica = with_options(Shop(), clock=lambda: now), with_options(Shop(), clock=lambda: now)
    async with asked(shop.server) as client, asked(replica.server) as other:
        call = await Rounds.call(client, "book")
        now += 601
        for where in (client, other):
            problem = await call.refused(where, requestState=call.state, inputResponses=call.accepted(3))
            assert problem.code == INVALID_PARAMS
        assert shop.ran == ["body"] and replica.ran == []


async def test_a_call_waits_no_longer_than_its_state_is_good_for() -> None:
    shop = with_options(Shop(), seconds=5)
    async with asked(shop.server, timeout=None) as client:
        clock = Clock()
        await Rounds.call(client, "book")
        await clock.advance(4.9)
        assert shop.ran == ["body"]
        await clock.advance(0.2)
        assert shop.ran == ["body", "stopped"]
        assert len(shop.server._core.suspended_calls) == 0


async def test_calls_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SUSPENDED", 2)
    shop = Shop()
    async with asked(shop.server) as client:
        calls = [await Rounds.call(client, "book", city=city) for city in ("Oslo", "Rome", "Lima")]
        await settled()
        assert shop.ran == ["body", "body", "body", "stopped"]
        assert len(shop.server._core.suspended_calls) == 2
        for call in calls:  # those that were stopped run again
            await call.answer(2)
            await call.answer(True)
        assert [call.text for call in calls] == ["Oslo 2 20 True", "Rome 2 20 True", "Lima 2 20 True"]
        assert shop.ran.count("price") == shop.ran.count("book") == 3


async def test_used_states_are_remembered_within_a_bound() -> None:
    """Of what is forgotten nobody knows any more whether it was used, so that it is refused."""
    now = 1000.0
    shop = with_options(Shop(), clock=lambda: now, used=UsedStates(600, now, max_used=2))
    async with asked(shop.server) as client:
        calls: list[Rounds] = []
        for city in ("a", "b", "c", "d"):
            now += 1
            calls.append(await Rounds.call(client, "book", city=city))
        states = [call.state for call in calls]
        for call in calls[1:]:
            now += 1
            await call.answer(1)
        for call, state in zip(calls[:3], states, strict=False):
            problem = await call.refused(requestState=state, inputResponses={})
            assert problem.code == INVALID_PARAMS
        assert shop.ran.count("price") == 3
        await calls[3].answer(True)
        assert calls[3].text == "d 1 10 True"


async def test_rounds_are_bounded() -> None:
    server = Server("endless", state_keys=KEYS)
    ended: list[str] = []

    @server.tool
    async def endless(ctx: Context) -> None:
        try:
            while True:
                await ctx.elicit("More?", bool)
        finally:
            ended.append("ended")

    async with asked(server) as client:
        call = await Rounds.call(client, "endless")
        for _ in range(MAX_ROUNDS - 1):
            await call.answer(True)
        problem = await call.refused(requestState=call.state, inputResponses=call.accepted(True))
        assert problem.code == INVALID_PARAMS
        assert "more than 32 times" in problem.message
        await until(lambda: ended)


async def test_calls_that_wait_end_with_the_last_client() -> None:
    shop = Shop()
    cleaned = asyncio.Event()

    @shop.server.tool
    async def slow_to_stop(ctx: Context) -> None:
        try:
            await ctx.elicit("?", bool)
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    async with nothing_left_on_the_loop():
        async with asked(shop.server) as other:
            async with asked(shop.server) as client:
                await Rounds.call(client, "book")
                await Rounds.call(client, "slow_to_stop")
            assert shop.ran == ["body"]  # its client may come back on another connection
            assert len(shop.server._core.suspended_calls) == 2
            assert await other.tools()
        await until(cleaned.is_set)
        assert shop.ran == ["body", "stopped"]


async def test_calls_that_wait_end_before_the_lifespan_does() -> None:
    log: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        yield
        log.append("closed")

    server = Server("lasting", lifespan=lifespan)

    @server.tool
    async def waits(ctx: Context) -> None:
        try:
            await ctx.elicit("?", bool)
        finally:
            await asyncio.sleep(0)
            log.append("stopped")

    async with asked(server) as client:
        await Rounds.call(client, "waits")
    await until(lambda: len(log) == 2)
    assert log == ["stopped", "closed"]


async def test_answers_that_are_missing_are_asked_for_again() -> None:
    server = Server("pair", state_keys=KEYS)

    @server.tool
    async def pair(ctx: Context) -> list[int]:
        return [answer.data for answer in await asyncio.gather(ctx.elicit("a?", int), ctx.elicit("b?", int))]

    async with asked(server) as client:
        for elsewhere in (None, client):
            call = await Rounds.call(client, "pair")
            assert call.messages == ["a?", "b?"]
            first = next(key for key, one in call.questions.items() if one["params"]["message"] == "a?")
            if elsewhere is not None:
                await server._core.suspended_calls.close()
            await call.send(requestState=call.state, inputResponses={first: accept(1)})
            assert call.messages == ["b?"]
            await call.send(requestState=call.state)
            assert call.messages == ["b?"]
            await call.answer(2)
            assert call.result["structuredContent"] == [1, 2]


@pytest.mark.sends_wrong("answers of the wrong kind")
async def test_answers_that_nobody_asked_for_are_ignored() -> None:
    one, two = Shop(), Shop()
    async with asked(one.server) as a, asked(two.server) as b:
        probe = await Rounds.call(a, "book", city="Oslo")
        await probe.answer(3)
        [later] = probe.questions  # the key of a question is no secret
        for client in (a, b):
            call = await Rounds.call(a, "book", city="Oslo")
            answers = {**call.accepted(3), later: accept(True), "other": {"roots": []}, "wrong": 5}
            await call.send(client, requestState=call.state, inputResponses=answers)
            assert call.messages == ["30 in all. Sure?"]


@pytest.mark.sends_wrong("answers of the wrong kind")
async def test_an_answer_that_cannot_be_read_leaves_the_state_good() -> None:
    shop, replica = Shop(), Shop()
    async with asked(shop.server) as client, asked(replica.server) as other:
        call = await Rounds.call(client, "book")
        [key] = call.questions
        for wrong in (5, {"action": "perhaps"}, {}, None):
            for where in (client, other):
                problem = await call.refused(where, requestState=call.state, inputResponses={key: wrong})
                assert problem.code == INVALID_PARAMS
                assert "cannot be read" in problem.message
        assert shop.ran == ["body"] and replica.ran == []
        await call.answer(3)
        assert call.messages == ["30 in all. Sure?"]


async def test_what_does_not_fit_the_form_fails_the_call_in_words() -> None:
    shop = Shop()
    async with asked(shop.server) as client:
        call = await Rounds.call(client, "book")
        await call.answer("three")
        assert call.result["isError"] is True
        assert "does not fit the form" in call.text


async def test_a_state_that_would_be_too_large_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SEALED", 300)
    shop = Shop()
    async with asked(shop.server) as client:
        call = Rounds(client, "tools/call", {"name": "book", "arguments": {}})
        assert "too large" in (await call.refused()).message
        await until(lambda: shop.ran == ["body", "stopped"])


@pytest.mark.parametrize("options", [{"timeout": 5.0}, {"concurrency": 1}])
async def test_a_call_that_counts_against_a_limit_is_not_kept(options: dict[str, Any]) -> None:
    """Who thinks for long neither runs out of the tool's time nor takes the turns of others."""
    shop = Shop()
    shop.server.tool(shop.book, name="limited", **options)
    async with asked(shop.server, timeout=None) as client:
        first = await Rounds.call(client, "limited", city="Oslo")
        second = await Rounds.call(client, "limited", city="Rome")
        await settled()
        assert shop.ran == ["body", "stopped"] * 2
        await Clock().advance(30)
        for call in (first, second):
            await call.answer(3)
            await call.answer(True)
        assert [first.text, second.text] == ["Oslo 3 30 True", "Rome 3 30 True"]
        assert shop.ran.count("price") == 2


async def test_a_call_that_waits_on_another_loop_runs_again_here() -> None:
    shop = Shop()

    def elsewhere(call: Rounds) -> str:
        async def go_on() -> str:
            async with asked(shop.server) as client:
                await call.answer(3, client)
                await call.answer(True, client)
                return call.text

        return asyncio.run(go_on())

    async with asked(shop.server) as client:
        call = await Rounds.call(client, "book")
        assert await asyncio.to_thread(elsewhere, call) == "Lima 3 30 True"
        await until(lambda: "stopped" in shop.ran)
        assert shop.ran.count("body") == 2


def test_keys_are_looked_at_when_the_server_is_made() -> None:
    with pytest.raises(Exception, match="16 bytes"):
        Server("weak", state_keys=[b"weak"])


@pytest.mark.sends_wrong("answers of the wrong kind")
class TestAnswersWithoutAState:
    """2026-07-28 mrtr: `requestState` is optional, so a handler that keeps none takes answers from who brings none."""

    def server(self) -> tuple[Server, list[str]]:
        server, taken = Server("guests", state_keys=KEYS), []

        @server.tool
        async def greet(ctx: Context) -> str | InputRequired:
            number = await ctx.step("number", lambda: taken.append("step") or len(taken))
            if "name" not in ctx.answers:
                return InputRequired({"name": ctx.ask.elicit("Name?", str)})
            return f"{ctx.answers['name'].content['value']} {number}"

        @server.tool
        async def pay(ctx: Context) -> str | InputRequired:
            if "sure" not in ctx.answers:
                return InputRequired({"sure": ctx.ask.elicit("Sure?", bool)}, state="a price")
            taken.append("paid")
            return "paid"

        return server, taken

    async def test_a_handler_that_keeps_none_takes_them(self) -> None:
        server, taken = self.server()
        async with asked(server) as client:
            answers = {"name": accept("Ann"), "other": accept(1), "wrong": 5}
            result = await client.request("tools/call", {"name": "greet", "inputResponses": answers})
        assert result["structuredContent"] == "Ann 1"
        assert taken == ["step"], "also when it runs twice for that"

    async def test_one_that_cannot_be_read_is_refused(self) -> None:
        server, _ = self.server()
        async with asked(server) as client:
            with pytest.raises(RemoteError) as caught:
                await client.request("tools/call", {"name": "greet", "inputResponses": {"name": 12345}})
        assert caught.value.code == INVALID_PARAMS

    async def test_others_are_asked_for_again(self) -> None:
        server, _ = self.server()
        async with asked(server) as client:
            result = await client.request("tools/call", {"name": "greet", "inputResponses": {"other": accept("x")}})
        assert list(result["inputRequests"]) == ["name"]

    async def test_a_handler_that_keeps_one_does_not_take_them(self) -> None:
        server, taken = self.server()
        async with asked(server) as client:
            result = await client.request("tools/call", {"name": "pay", "inputResponses": {"sure": accept(True)}})
        assert list(result["inputRequests"]) == ["sure"] and taken == []

    async def test_nor_does_one_that_asks_in_straight_line_code(self) -> None:
        shop = Shop()
        async with asked(shop.server) as client:
            call = await Rounds.call(client, "book")
            result = await client.request("tools/call", {"name": "book", "inputResponses": call.accepted(3)})
        assert list(result["inputRequests"]) == list(call.questions)
