"""Sessions hear of changes at servers that keep state, wherever their streams and connections are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from dovetail import Gateway, JWTVerifier, Server
from dovetail.gateway import Credentials, ServerSettings
from dovetail.policy import Policy, Rule
from tests.gateway.account_scene import account_scene
from tests.gateway.exchanging_auth import SECRET
from tests.gateway.replica_gateways import KEEPING, Gateways, Start
from tests.gateway.served import tokens
from tests.gateway.test_credentials import one_server
from tests.gateway.test_home_replica import REVISION
from tests.support.http import serving
from tests.support.raw_http import Answer, Session, Site
from tests.support.replica_clients import OpenStore

ALL = "kept://all"


async def subscribe(session: Session) -> None:
    """Subscribe to the resource of the server."""
    answer = await (await session.ask("resources/subscribe", uri=ALL)).answer()
    assert "result" in answer, answer


async def change(session: Session, name: str) -> None:
    """Change something below the resource of the server."""
    answer = await (await session.call("keep__touch", name=name)).answer()
    assert "result" in answer, answer


async def heard(stream: Answer, seconds: float = 20) -> str:
    """The name of the next thing that the client of a stream is told of."""
    async with asyncio.timeout(seconds):
        message = await stream.message()
    assert message["method"] == "notifications/resources/updated"
    return message["params"]["uri"].removeprefix(ALL).removeprefix("/")


@contextlib.asynccontextmanager
async def sites_of(at: Gateways, name: str) -> AsyncGenerator[list[Site]]:
    """The gateways, as a caller with a token reaches them."""
    async with contextlib.AsyncExitStack() as stack:
        token = f"Bearer token-of-{name}"
        yield [await stack.enter_async_context(Site(site.url, Authorization=token)) for site in at.sites]


@pytest.mark.parametrize("streams", [0, 1], ids=["streams at the home replica", "streams elsewhere"])
async def test_a_session_hears_nothing_of_the_process_of_another(gateways: Start, streams: int) -> None:
    async with gateways(2, auth=tokens(ann=[], eve=[])) as at, sites_of(at, "ann") as ann, sites_of(at, "eve") as eve:
        sessions = [await sites[0].session(REVISION) for sites in (ann, eve)]
        heard_by: list[Answer] = []
        for session, sites in zip(sessions, (ann, eve), strict=True):
            await change(session, "before")
            await subscribe(session)
            heard_by.append(await Session(sites[streams], REVISION, session.id).get())
        for session, stream, name in zip(sessions, heard_by, ("ann", "eve"), strict=True):
            # Changes are announced to all gateways in one order, so that eve would have heard of ann's first.
            await change(session, name)
            assert await heard(stream) == name


async def test_subscriptions_are_made_again_with_the_groups_of_the_caller(gateways: Start) -> None:
    """The gateway with the stream of the session does so, when the home replica has ended."""
    rules = Policy([Rule("deny", kind="resource", not_group="editors"), Rule("allow", tool="*")])
    async with gateways(3, auth=tokens(ann=["editors"]), policy=rules) as at, sites_of(at, "ann") as ann:
        session = await ann[0].session(REVISION)
        await change(session, "before")
        await subscribe(Session(ann[1], REVISION, session.id))
        stream = await Session(ann[2], REVISION, session.id).get()
        await at.end(0)
        assert await heard(stream) == "", "whether it was updated meanwhile is not known"
        await change(Session(ann[1], REVISION, session.id), "after")
        assert await heard(stream) == "after"


async def test_subscriptions_are_made_again_if_another_gateway_is_the_home_already(gateways: Start) -> None:
    async with gateways(3) as at:
        session = await at.sites[0].session(REVISION)
        await change(session, "before")
        await subscribe(at.at(1, session))
        stream = await at.at(2, session).get()
        await at.end(0)
        await change(at.at(1, session), "meanwhile")
        assert await heard(stream) == ""
        await change(at.at(1, session), "after")
        assert await heard(stream) == "after"


def make_server(revision: str, auth: JWTVerifier) -> Server:
    """A server with accounts of users, and a resource that changes."""
    server = Server("behind", auth=auth, revisions=[revision])

    @server.tool
    async def touch(name: str) -> None:
        server.notify_resource_updated(f"{ALL}/{name}")

    @server.resource(ALL)
    async def everything() -> str:
        return ""

    return server


async def test_subscriptions_at_the_account_of_a_user_are_made_again(store: OpenStore) -> None:
    stores = [store(), store()]
    async with contextlib.AsyncExitStack() as closing:
        for one in stores:
            closing.push_async_callback(one.close)
        async with account_scene(make_server, REVISION, stores=stores) as at:
            async with at.connecting_client("ann", revision=REVISION) as ann:
                await ann.call("notes__touch", name="connected")
            token = f"Bearer {at.token('ann')}"
            async with Site(at.urls[0], Authorization=token) as here, Site(at.urls[1], Authorization=token) as there:
                session = await here.session(REVISION)
                await subscribe(session)
                elsewhere = Session(there, REVISION, session.id)
                stream = await elsewhere.get()
                await at.ends[0].aclose()
                assert await heard(stream) == ""
                answer = await (await elsewhere.call("notes__touch", name="after")).answer()
                assert "result" in answer, answer
                assert await heard(stream) == "after"


async def test_a_subscription_that_needs_the_token_of_the_caller_is_not_made_again(
    store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway with the stream has never had a token of the caller for the server."""
    async with one_server("2025-11-25") as (auth, address, _), contextlib.AsyncExitStack() as stack:
        issuer, token = auth.dev.issuer, auth.dev.token("ann", "unused")
        credentials = Credentials(type="token-exchange", client_id="gateway", client_secret=SECRET, issuer=issuer)
        sites: list[Site] = []
        ends: list[contextlib.AsyncExitStack] = []
        for _ in range(2):
            end = await stack.enter_async_context(contextlib.AsyncExitStack())
            opened = store()
            end.push_async_callback(opened.close)
            gateway = Gateway(
                {"notes": address, "keep": KEEPING},
                auth=JWTVerifier(issuer=issuer, audience="unused"),
                settings={"notes": ServerSettings(credentials=credentials)},
            )
            end.push_async_callback(gateway.close)
            url = await end.enter_async_context(serving(gateway.asgi(store=opened)))
            sites.append(await end.enter_async_context(Site(url, Authorization=f"Bearer {token}")))
            ends.append(end)
        session = await sites[0].session(REVISION)
        stream = await Session(sites[1], REVISION, session.id).get()
        for uri in (f"gateway:keep:{ALL}", "me://now"):
            answer = await (await session.ask("resources/subscribe", uri=uri)).answer()
            assert "result" in answer, answer
        await ends[0].aclose()
        async with asyncio.timeout(20):
            assert (await stream.message())["params"]["uri"] == f"gateway:keep:{ALL}"
            while "the token of the caller, which gateways neither store nor pass on" not in caplog.text:
                await asyncio.sleep(0.05)
