"""`ctx.headers`: those of the request that is served, on each revision over HTTP, without credentials."""

from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.revisions import REVISIONS
from dovetail.server.request_headers import RequestHeaders
from dovetail.transports.http.server.event_stream import EventStream
from tests.support.http import serving

SENT = {
    "X-Api-Key": "k1",
    "X-Tenant": "shop",
    "Authorization": "Bearer secret",
    "Cookie": "session=secret",
    "Proxy-Authorization": "Basic secret",
}


def inn() -> Server:
    server = Server("inn")

    @server.tool
    async def seen(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers)

    @server.tool
    def key(ctx: Context) -> str | None:
        return ctx.headers.get("X-API-Key")

    @server.tool
    async def asked(ctx: Context) -> list[str]:
        before = ctx.headers["x-api-key"]
        await ctx.elicit("Sure?")
        return [before, ctx.headers["x-api-key"]]

    return server


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_handler_sees_the_headers_of_its_request_without_credentials(revision: str) -> None:
    async with serving(inn().asgi()) as url, Client(f"{url}/mcp", revision=revision, headers=SENT) as client:
        seen = (await client.call("seen")).data
        assert (seen["x-api-key"], seen["x-tenant"]) == ("k1", "shop")
        assert "secret" not in str(seen)
        assert (await client.call("key")).data == "k1"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_call_that_asks_the_client_sees_them_before_and_after(revision: str) -> None:
    options: dict[str, Any] = {"revision": revision, "headers": SENT, "on_elicit": lambda *_: {}}
    async with serving(inn().asgi()) as url, Client(f"{url}/mcp", **options) as client:
        assert (await client.call("asked")).data == ["k1", "k1"]


async def test_two_clients_see_their_own_headers_only() -> None:
    async with (
        serving(inn().asgi()) as url,
        Client(f"{url}/mcp", headers={"x-api-key": "one"}) as one,
        Client(f"{url}/mcp", headers={"x-api-key": "two"}) as other,
    ):
        assert ((await one.call("key")).data, (await other.call("key")).data) == ("one", "two")


async def test_there_are_no_headers_without_http() -> None:
    async with Client(inn()) as client:
        assert (await client.call("seen")).data == {}


def test_a_stream_forgets_the_headers_when_the_request_is_answered() -> None:
    stream = EventStream()
    stream.request_headers = {b"x-api-key": b"k1"}
    stream.finish(b"{}")
    assert stream.request_headers is None


def test_headers_are_read_only_and_their_values_stay_out_of_logs() -> None:
    headers = RequestHeaders({b"x-api-key": b"k1", b"authorization": b"Bearer secret"})
    assert (dict(headers), len(headers), headers["X-Api-Key"]) == ({"x-api-key": "k1"}, 1, "k1")
    assert "k1" not in repr(headers)
    with pytest.raises(TypeError):
        headers["x"] = "y"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
