"""A client has one connection to a server that keeps state, whichever of several gateways its requests reach."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import Context
from typing import Any, cast

import pytest

from dovetail import Client, Gateway, JWTVerifier, OutcomeUnknown, RemoteError
from dovetail.gateway import Credentials, ServerSettings
from dovetail.policy import Policy, Rule
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.storage import Store
from tests.gateway.exchanging_auth import SECRET
from tests.gateway.replica_gateways import KEEPING, Start, WatchedStore
from tests.gateway.served import tokens
from tests.gateway.test_credentials import one_server
from tests.support.asking import Rounds, asked
from tests.support.http import serving
from tests.support.raw_http import Answer, notification, request
from tests.support.replica_clients import OpenStore

REVISION = "2025-11-25"


async def text(answer: Answer) -> str:
    """The text of the result of a call."""
    body = await answer.answer()
    assert "result" in body, body
    return body["result"]["content"][0]["text"]


async def data(answer: Answer) -> Any:
    """The structured result of a call."""
    body = await answer.answer()
    assert "result" in body, body
    return body["result"]["structuredContent"]["result"]


async def test_a_session_reaches_one_process_of_the_server_through_any_gateway(gateways: Start) -> None:
    async with gateways() as at:
        session = await at.sites[0].session(REVISION)
        for number in range(6):
            await (await at.at(number % 3, session).call("keep__keep", what=str(number))).answer()
        everything = await data(await at.at(1, session).call("keep__keep", what="6"))
        assert everything == [str(number) for number in range(7)]
        assert sorted(at.connections()) == [0, 0, 1]


async def test_two_sessions_have_processes_of_their_own(gateways: Start) -> None:
    async with gateways(2) as at:
        one, other = [await at.sites[number].session(REVISION) for number in (0, 1)]
        for number in (0, 1):
            await (await at.at(number, one).call("keep__keep", what="mine")).answer()
        assert await data(await at.at(0, other).call("keep__keep", what="yours")) == ["yours"]
        assert sum(at.connections()) == 2


async def test_every_method_reaches_the_process_of_the_session(gateways: Start) -> None:
    async with gateways(2) as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="this")).answer()
        there = at.at(1, session)
        read = await (await there.ask("resources/read", uri="kept://all")).answer()
        assert read["result"]["contents"][0]["text"] == "this"
        prompt = await (await there.ask("prompts/get", name="keep__recall", arguments={"start": "and"})).answer()
        assert prompt["result"]["messages"][0]["content"]["text"] == "and this"
        reference, argument = {"type": "ref/prompt", "name": "keep__recall"}, {"name": "start", "value": "th"}
        completed = await (await there.ask("completion/complete", ref=reference, argument=argument)).answer()
        assert completed["result"]["completion"]["values"] == ["this"]
        for method, field in (("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")):
            listed = await (await there.ask(method)).answer()
            assert listed["result"][field], method
        assert at.connections()[1] == 0


async def test_a_question_is_asked_and_answered_through_other_gateways(gateways: Start) -> None:
    async with gateways() as at:
        session = await at.sites[0].session(REVISION, elicitation={})
        await (await session.call("keep__keep", what="first")).answer()
        stream = await at.at(1, session).call("keep__ask")
        question = await stream.message()
        assert question["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"value": "second"}}
        accepted = await at.at(2, session).post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert accepted.status == 202
        assert await text(stream) == "accept second"
        assert await data(await session.call("keep__keep", what="third")) == ["first", "accept second", "third"]


async def test_progress_log_and_cancellation_pass_between_gateways(gateways: Start) -> None:
    async with gateways() as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="first")).answer()
        there = at.at(1, session)
        reported = await (await there.call("keep__report", token="t")).messages()
        assert [one["params"]["progress"] for one in reported if one.get("method") == "notifications/progress"] == [
            1,
            2,
            3,
        ]
        assert [one["params"]["data"] for one in reported if one.get("method") == "notifications/message"]
        message = request("tools/call", name="keep__wait", arguments={}, _meta={"progressToken": "w"})
        waiting = await there.post(message)
        await waiting.message()
        await at.at(2, session).post(notification("notifications/cancelled", requestId=message["id"]))
        async with asyncio.timeout(10):
            while "cancelled" not in await data(await session.call("keep__keep", what="…")):
                pass


async def test_a_principal_without_a_session_reaches_one_process(gateways: Start) -> None:
    """On 2026-07-28 there are no sessions: the principal tells which requests are of one client."""
    async with gateways(2, auth=tokens(ann=[], bob=[])) as at, contextlib.AsyncExitStack() as stack:
        ann = [await stack.enter_async_context(at.client(number, "token-of-ann")) for number in (0, 1)]
        bob = await stack.enter_async_context(at.client(1, "token-of-bob"))
        processes = [(await client.call("keep__process")).data for client in (*ann, *ann)]
        assert len(set(processes)) == 1
        assert (await bob.call("keep__process")).data not in processes
        assert (await ann[1].call("keep__keep", what="mine")).data == ["mine"]
        assert (await bob.call("keep__keep", what="yours")).data == ["yours"]


async def test_the_token_of_a_caller_is_not_written_to_the_store(gateways: Start) -> None:
    async with gateways(2, auth=tokens(ann=["editors"])) as at:
        for number in (0, 1):
            async with at.client(number, "token-of-ann") as ann:
                await ann.call("keep__keep", what="milk")
        assert any(b"milk" in value for value in at.stored), "nothing was passed on"
        assert not any(b"token-of-ann" in value for value in at.stored)


async def test_a_question_in_rounds_is_answered_through_other_gateways(gateways: Start) -> None:
    """The call waits at the home replica, with the connection of the principal."""
    async with gateways(3, auth=tokens(ann=[])) as at, contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(asked(f"{at.sites[number].url}/mcp", auth="token-of-ann"))
            for number in range(3)
        ]
        await clients[0].call("keep__keep", what="first")
        rounds = await Rounds.call(clients[1], "keep__ask")
        await rounds.answer("second", clients[2])
        assert rounds.text == "accept second"
        # While one call waits, further ones have other connections; now all of them use the first again.
        assert (await clients[1].call("keep__keep", what="third")).data == ["first", "accept second", "third"]


async def test_a_task_runs_over_the_connection_of_its_session(gateways: Start) -> None:
    async with gateways() as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="now")).answer()
        called = await at.at(1, session).ask("tools/call", name="keep__later", arguments={"what": "later"}, task={})
        task = (await called.answer())["result"]["task"]
        result = await (await at.at(2, session).ask("tasks/result", taskId=task["taskId"])).answer()
        assert result["result"]["structuredContent"] == {"result": ["now", "later"]}


async def test_a_server_with_token_exchange_has_a_connection_at_each_gateway(store: OpenStore) -> None:
    """The exchange needs the token of the request, which is not passed on."""
    async with one_server("2025-11-25") as (auth, address, recorder), contextlib.AsyncExitStack() as stack:
        issuer, token = auth.dev.issuer, auth.dev.token("ann", "unused")
        credentials = Credentials(type="token-exchange", client_id="gateway", client_secret=SECRET, issuer=issuer)
        seen: list[bytes] = []
        gateways: list[Gateway] = []
        for _ in range(2):
            opened = store()
            stack.push_async_callback(opened.close)
            gateway = Gateway(
                {"notes": address},
                auth=JWTVerifier(issuer=issuer, audience="unused"),
                settings={"notes": ServerSettings(credentials=credentials)},
            )
            stack.push_async_callback(gateway.close)
            app = gateway.asgi(store=cast(Store, WatchedStore(opened, seen)))
            url = await stack.enter_async_context(serving(app))
            client = await stack.enter_async_context(Client(f"{url}/mcp", auth=token, timeout=10))
            assert (await client.call("notes__whoami")).text == "ann"
            gateways.append(gateway)
        assert [gateway.status["servers"]["notes"]["connections"] for gateway in gateways] == [1, 1]
        assert recorder.tokens <= auth.issued
        assert not any(one.encode() in value for one in (token, *auth.issued) for value in seen)


async def test_the_groups_of_a_caller_count_where_its_request_is_served(gateways: Start) -> None:
    rules = Policy([Rule("deny", tool="keep", not_group="editors"), Rule("allow", tool="*")])
    async with (
        gateways(2, auth=tokens(ann=["editors"], bob=[]), policy=rules) as at,
        contextlib.AsyncExitStack() as stack,
    ):
        ann = [await stack.enter_async_context(at.client(number, "token-of-ann")) for number in (0, 1)]
        bob = [await stack.enter_async_context(at.client(number, "token-of-bob")) for number in (0, 1)]
        for client in ann:
            assert "keep__keep" in [tool.name for tool in await client.tools()]
            await client.call("keep__keep", what="x")
        for client in bob:
            assert "keep__keep" not in [tool.name for tool in await client.tools()]
            with pytest.raises(Exception, match="policy"):
                await client.call("keep__keep", what="x")


async def test_lists_with_a_server_with_token_exchange_are_answered_where_they_arrive(store: OpenStore) -> None:
    """Such a server keeps no state here, and another one does: the token would be missing at the home replica."""
    async with one_server("2026-07-28") as (auth, address, _), contextlib.AsyncExitStack() as stack:
        issuer = auth.dev.issuer
        credentials = Credentials(type="token-exchange", client_id="gateway", client_secret=SECRET, issuer=issuer)
        urls: list[str] = []
        for _ in range(2):
            opened = store()
            stack.push_async_callback(opened.close)
            gateway = Gateway(
                {"notes": address, "keep": KEEPING},
                auth=JWTVerifier(issuer=issuer, audience="unused"),
                settings={"notes": ServerSettings(credentials=credentials)},
            )
            stack.push_async_callback(gateway.close)
            urls.append(await stack.enter_async_context(serving(gateway.asgi(store=opened))))
        for scopes, order in (([], urls), (["more"], urls[::-1])):
            token = auth.dev.token("ann", "unused", scopes=scopes)
            for url in (*order, *order):
                async with Client(f"{url}/mcp", auth=token, timeout=20) as ann:
                    assert {"notes__whoami", "keep__keep"} <= {tool.name for tool in await ann.tools()}
                    assert (await ann.call("notes__whoami")).text == "ann"


@pytest.mark.parametrize("group", ["contractors", "editors"])
async def test_a_rule_about_a_group_decides_the_same_at_each_gateway(gateways: Start, group: str) -> None:
    rules = Policy([Rule("deny", tool="keep", group="contractors"), Rule("allow", tool="*")])
    async with gateways(2, auth=tokens(ann=[group]), policy=rules) as at:
        for number in (0, 1):
            async with at.client(number, "token-of-ann") as ann:
                assert ("keep__keep" in [tool.name for tool in await ann.tools()]) == (group == "editors")
                if group == "editors":
                    await ann.call("keep__keep", what="x")
                else:
                    with pytest.raises(RemoteError, match="policy of the gateway does not allow"):
                        await ann.call("keep__keep", what="x")
        assert sorted(at.connections()) == [0, 1]


async def elsewhere(exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
    """Middleware that goes on in a context of its own, in which the caller of the request is not known."""

    async def go_on() -> dict[str, Any]:
        return await proceed(exchange)

    return await asyncio.get_running_loop().create_task(go_on(), context=Context())


async def test_a_request_that_has_lost_its_caller_is_not_passed_on_as_one_without_groups(gateways: Start) -> None:
    rules = Policy([Rule("deny", tool="keep", group="contractors"), Rule("allow", tool="*")])
    async with gateways(2, auth=tokens(ann=["contractors"]), policy=rules, middleware=[elsewhere]) as at:
        for number in (0, 1):
            async with at.client(number, "token-of-ann") as ann:
                with pytest.raises(RemoteError, match="groups of the caller are not known"):
                    await ann.call("keep__keep", what="x")


async def test_another_gateway_becomes_the_home_when_it_ends(gateways: Start) -> None:
    async with gateways() as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="lost")).answer()
        await at.end(0)
        assert await data(await at.at(1, session).call("keep__keep", what="new")) == ["new"]
        assert await data(await at.at(2, session).call("keep__keep", what="newer")) == ["new", "newer"]


async def test_a_call_at_a_gateway_that_ends_is_not_sent_again(gateways: Start) -> None:
    async with gateways(2) as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="x")).answer()
        stream = await at.at(1, session).call("keep__wait", token="t")
        await stream.message()
        await at.end(0)
        answer = await stream.message()
        assert answer["error"]["data"] == {"dovetail/outcomeUnknown": True}


async def test_a_session_that_ends_at_one_gateway_is_disconnected_at_another(gateways: Start) -> None:
    async with gateways(2) as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="x")).answer()
        assert at.connections() == [1, 0]
        await at.at(1, session).delete()
        async with asyncio.timeout(10):
            while at.connections() != [0, 0]:
                await asyncio.sleep(0.01)


async def test_a_session_keeps_its_connection_when_its_stream_moves(gateways: Start) -> None:
    async with gateways(2) as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="before")).answer()
        stream = await session.get()
        stream.line.abort()
        await at.at(1, session).get()
        assert await data(await session.call("keep__keep", what="after")) == ["before", "after"]


async def test_a_session_is_notified_by_the_process_that_it_uses(gateways: Start) -> None:
    """It subscribes through one gateway, its stream is at another, and its connection at a third."""
    async with gateways() as at:
        session = await at.sites[0].session(REVISION)
        await (await session.call("keep__keep", what="x")).answer()
        subscribed = await (await at.at(1, session).ask("resources/subscribe", uri="kept://all")).answer()
        assert "result" in subscribed, subscribed
        stream = await at.at(2, session).get()
        await (await at.at(1, session).call("keep__keep", what="y")).answer()
        async with asyncio.timeout(10):
            assert (await stream.message())["params"] == {"uri": "kept://all"}
        assert at.connections() == [1, 0, 0]
        await at.end(0)
        async with asyncio.timeout(20):
            # The gateway with the stream subscribes again; what happened meanwhile is not known.
            assert (await stream.message())["params"] == {"uri": "kept://all"}


async def test_the_roots_of_a_client_reach_its_connection(gateways: Start) -> None:
    async with gateways(2) as at:
        session = await at.sites[0].session(REVISION, roots={"listChanged": True})
        await (await session.call("keep__keep", what="x")).answer()
        stream = await at.at(1, session).call("keep__roots")
        question = await stream.message()
        assert question["method"] == "roots/list"
        roots = {"roots": [{"uri": "file:///a"}]}
        await session.post({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        assert await data(stream) == ["file:///a"]


async def test_a_shared_server_is_used_where_requests_arrive(gateways: Start) -> None:
    async with gateways(2, settings={"keep": ServerSettings(shared=True)}) as at:
        session = await at.sites[0].session(REVISION)
        processes = {await data(await at.at(number, session).call("keep__process")) for number in (0, 1)}
        assert len(processes) == 2


async def test_an_unknown_outcome_reaches_our_client_as_such(gateways: Start) -> None:
    async with gateways(2, auth=tokens(ann=[])) as at:
        async with at.client(0, "token-of-ann") as here:
            await here.call("keep__keep", what="x")
        async with at.client(1, "token-of-ann") as there:
            began = asyncio.Event()
            calling = asyncio.create_task(there.call("keep__wait", progress=lambda *_: began.set()))
            await began.wait()
            await at.end(0)
            with pytest.raises(OutcomeUnknown):
                await calling
