"""Attacks on a gateway by its callers and by the servers behind it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, NotFound, Policy, RemoteError, Rule, Server
from dovetail.middleware import RateLimit
from tests.gateway.served import served, tokens
from tests.support.http import serving
from tests.support.raw_http import SESSIONS, Site, modern_headers, modern_meta, request, text_of

ERAS = ["2025-11-25", "2026-07-28"]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HEADER_MISMATCH = -32020


def site(url: str, caller: str) -> Site:
    """Requests by hand, with the token of a caller."""
    return Site(url, Authorization=f"Bearer token-of-{caller}")


def make_server(revision: str | None = None) -> Server:
    server = Server("files", revisions=None if revision is None else [revision])

    @server.tool
    async def read() -> str:
        return "read"

    @server.tool
    async def delete() -> str:
        return "deleted"

    @server.tool
    async def sign(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", FORM)
        return f"signed by {answer.data['name']}" if answer.accepted else "not signed"

    return server


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_session_of_another_principal_is_not_there(revision: str) -> None:
    gateway = Gateway({"files": make_server()}, auth=tokens(ann=[], bob=[]))
    async with served(gateway) as at, site(at.url, "ann") as ann, site(at.url, "bob") as bob:
        session = await ann.session(revision)
        assert text_of(await (await session.call("files__read")).answer()) == "read"
        for message in (request("tools/list"), request("tools/call", name="files__read")):
            assert (await bob.post(message, session.headers)).status == 404
        assert (await bob.ask("GET", {**session.headers, "Accept": "text/event-stream"})).status == 404
        assert (await bob.ask("DELETE", session.headers)).status == 404
        assert text_of(await (await session.call("files__read")).answer()) == "read"


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("approval", [False, True])
async def test_a_question_of_another_principal_cannot_be_answered(back: str, approval: bool) -> None:
    policy = Policy([Rule("ask" if approval else "allow", tool="sign")])
    gateway = Gateway({"files": make_server(back)}, auth=tokens(ann=[], bob=[]), policy=policy)
    meta = modern_meta(elicitation={})
    call: dict[str, Any] = {"name": "files__sign", "arguments": {}}
    async with served(gateway) as at, site(at.url, "ann") as ann, site(at.url, "bob") as bob:
        asked = (await (await ann.modern("tools/call", meta=meta, **call)).answer())["result"]
        assert asked["resultType"] == "input_required"
        given = {"approve": True} if approval else {"name": "Ann"}
        answers = {key: {"action": "accept", "content": given} for key in asked["inputRequests"]}
        retry = {**call, "requestState": asked["requestState"], "inputResponses": answers}
        stolen = await (await bob.modern("tools/call", meta=meta, **retry)).answer()
        assert "error" in stolen
        forged = {**call, "inputResponses": answers}
        again = (await (await bob.modern("tools/call", meta=meta, **forged)).answer())["result"]
        assert again["resultType"] == "input_required"  # he is asked himself
        # The theft has used nothing up.
        went_on = (await (await ann.modern("tools/call", meta=meta, **retry)).answer())["result"]
        if approval:
            assert went_on["resultType"] == "input_required"
        else:
            assert went_on["content"][0]["text"] == "signed by Ann"


async def test_an_approval_is_for_the_arguments_that_were_shown() -> None:
    gateway = Gateway({"files": make_server()}, auth=tokens(ann=[]), policy=Policy([Rule("ask", tool="*")]))
    meta = modern_meta(elicitation={})
    async with served(gateway) as at, site(at.url, "ann") as ann:
        first = await (await ann.modern("tools/call", meta=meta, name="files__read", arguments={})).answer()
        asked = first["result"]
        answers = {key: {"action": "accept", "content": {"approve": True}} for key in asked["inputRequests"]}
        retry = {"requestState": asked["requestState"], "inputResponses": answers, "arguments": {}}
        assert "error" in await (await ann.modern("tools/call", meta=meta, name="files__delete", **retry)).answer()
        done = await (await ann.modern("tools/call", meta=meta, name="files__read", **retry)).answer()
        assert text_of(done) == "read"
        # It was used up: the same approval does not allow a second call.
        assert "error" in await (await ann.modern("tools/call", meta=meta, name="files__read", **retry)).answer()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_list_that_is_kept_for_one_principal_is_not_shown_to_another(revision: str) -> None:
    policy = Policy([Rule("deny", tool="delete", principal="bob"), Rule("allow", tool="*")])
    gateway = Gateway({"files": make_server()}, auth=tokens(ann=[], bob=[]), policy=policy)
    async with served(gateway) as at:
        for _ in range(2):
            async with at.client("ann", revision=revision) as ann, at.client("bob", revision=revision) as bob:
                assert "files__delete" in {tool.name for tool in await ann.tools()}
                assert "files__delete" not in {tool.name for tool in await bob.tools()}
                with pytest.raises(NotFound) as told:
                    await bob.call("files__delet")
                assert "did you mean" not in str(told.value)


@pytest.mark.parametrize("middleware", [(), (RateLimit(1000),)], ids=["plain", "middleware"])
@pytest.mark.parametrize("revision", ERAS)
async def test_a_caller_who_may_use_nothing_of_a_server_does_not_hear_of_it(
    revision: str, middleware: tuple[Any, ...]
) -> None:
    servers: dict[str, Any] = {key: Server(key, instructions=f"Of {key}.") for key in ("open", "secret")}
    gateway = Gateway(
        {**servers, "secret-broken": [sys.executable, "-c", "raise SystemExit(1)"]},
        auth=tokens(ann=[], eve=["guests"]),
        policy=Policy([Rule("deny", server="secret*", group="guests"), Rule("allow", tool="*")]),
        middleware=middleware,
        instructions="Of the gateway.",
    )
    of_open = "Of the gateway.\n\n# Server open\n\nOf open."
    async with served(gateway) as at:
        for name, told in (("ann", f"{of_open}\n\n# Server secret\n\nOf secret."), ("eve", of_open)) * 2:
            async with at.client(name, revision=revision) as client:
                await client.tools()
                # Also the first client hears of servers that were never connected to.
                assert client.instructions == told
                notices = (await client.request("tools/list")).get("_meta", {}).get("dovetail/servers", {})
                assert list(notices) == (["secret-broken"] if name == "ann" else [])
    await gateway.close()


async def test_clients_that_connect_at_once_get_the_instructions_that_are_for_each() -> None:
    servers: dict[str, Any] = {key: Server(key, instructions=f"Of {key}.") for key in ("open", "secret")}
    policy = Policy([Rule("deny", server="secret", principal="eve"), Rule("allow", tool="*")])
    gateway = Gateway(servers, auth=tokens(ann=[], eve=[]), policy=policy, middleware=[RateLimit(1000)])

    async def told(at: Any, name: str) -> str | None:
        async with at.client(name, revision=ERAS[0]) as client:
            return client.instructions

    async with served(gateway) as at:
        heard = await asyncio.gather(*(told(at, name) for name in ("ann", "eve") * 5))
        assert ["Of secret." in (one or "") for one in heard] == [True, False] * 5


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
async def test_the_token_of_a_caller_is_in_nothing_that_a_server_gets(front: str, back: str) -> None:
    server, got = make_server(back), []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        got.append(repr(scope.get("headers")))

        async def reading() -> Any:
            message = await receive()
            got.append(repr(message))
            return message

        await app(scope, reading, send)

    app = server.asgi()
    async with serving(noting) as url:
        gateway = Gateway({"files": f"{url}/mcp"}, auth=tokens(ann=[]))
        async with served(gateway) as at, at.client("ann", revision=front) as ann:
            assert (await ann.call("files__read")).text == "read"
            await ann.resources()
    assert any("tools/call" in one for one in got)
    assert not [one for one in got if "token-of-ann" in one or "authorization" in one.lower()]


async def test_names_that_look_the_same_lead_to_their_own_servers() -> None:
    one, other = Server("one"), Server("other")

    @one.tool(name="c")
    async def of_one() -> str:
        return "a__b and c"

    @other.tool(name="b__c")
    async def of_other() -> str:
        return "a and b__c"

    policy = Policy([Rule("deny", server="a__b"), Rule("allow", tool="*")])
    for servers in ({"a__b": one, "a": other}, {"a": other, "a__b": one}):
        async with Client(Gateway(dict(servers)), timeout=10) as client:
            names = [tool.name for tool in await client.tools()]
            assert len(set(names)) == 2
            assert {(await client.call(name)).text for name in names} == {"a__b and c", "a and b__c"}
        async with Client(Gateway(dict(servers), policy=policy), timeout=10) as client:
            (left,) = await client.tools()
            assert (await client.call(left.name)).text == "a and b__c"
            for name in {*names} - {left.name}:
                with pytest.raises(RemoteError, match="does not allow"):
                    await client.call(name)


async def test_a_server_that_takes_the_name_of_another_gets_none_of_its_rights() -> None:
    bank, shop = Server("bank", instructions="of the bank"), Server("bank", title="Bank", instructions="of the shop")

    @bank.tool(name="pay")
    async def pay_at_bank() -> str:
        return "paid at the bank"

    @shop.tool(name="pay")
    async def pay_at_shop() -> str:
        return "paid at the shop"

    policy = Policy([Rule("allow", server="bank"), Rule("deny", server="shop")])
    gateway = Gateway({"bank": bank, "shop": shop}, policy=policy)
    async with Client(gateway, timeout=10) as client:
        assert [tool.name for tool in await client.tools()] == ["bank__pay"]
        assert (await client.call("bank__pay")).text == "paid at the bank"
        with pytest.raises(RemoteError, match="deny everything of shop"):
            await client.call("shop__pay")
        assert client.instructions == "# Server bank\n\nof the bank"


async def test_a_header_that_names_another_tool_than_the_body_is_refused() -> None:
    policy = Policy([Rule("deny", tool="delete"), Rule("allow", tool="*")])
    gateway = Gateway({"files": make_server()}, auth=tokens(ann=[]), policy=policy)
    async with served(gateway) as at, site(at.url, "ann") as ann:
        for header, body in (("files__read", "files__delete"), ("files__delete", "files__read")):
            answer = await ann.modern("tools/call", {"Mcp-Name": header}, name=body, arguments={})
            assert answer.status == 400
            assert (await answer.error())["code"] == HEADER_MISMATCH
        answer = await ann.modern("tools/call", {"Mcp-Method": "tools/list"}, name="files__delete", arguments={})
        assert answer.status == 400
        denied = await (await ann.modern("tools/call", name="files__delete", arguments={})).answer()
        assert "deny tool delete" in denied["error"]["message"]


async def test_a_server_cannot_make_the_gateway_fetch_the_metadata_that_it_names() -> None:
    """Nobody is there to log in, so that a challenge of a server is no reason to visit an address that it chooses."""
    asked: list[str] = []

    async def secret(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

    async with serving(secret) as inner:

        async def hostile(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                challenge = f'Bearer resource_metadata="{inner}/latest/meta-data"'.encode()
                headers = [(b"www-authenticate", challenge), (b"location", inner.encode())]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})

        async with serving(hostile) as outer:
            gateway = Gateway({"hostile": f"{outer}/mcp", "files": make_server()})
            async with served(gateway) as at, at.client() as client:
                assert {tool.name for tool in await client.tools()} == {"files__read", "files__delete", "files__sign"}
                with pytest.raises(RemoteError, match="'hostile' is not available"):
                    await client.call("hostile__x")
    assert asked == []


async def test_a_server_cannot_put_anything_into_a_cache_that_clients_share() -> None:
    server = Server("files", list_ttl=3600)

    @server.resource("file:///a", ttl=3600, public=True)
    def a() -> str:
        return "a"

    async with served(Gateway({"files": server})) as at, Site(at.url) as raw:
        requests: list[tuple[str, dict[str, Any]]] = [
            ("server/discover", {}),
            ("resources/list", {}),
            ("tools/list", {}),
            ("resources/read", {"uri": "file:///a"}),
        ]
        for method, params in requests:
            message = request(method, **params, _meta=modern_meta())
            result = (await (await raw.post(message, modern_headers(message))).json())["result"]
            assert result["cacheScope"] == "private", method
