"""Arguments that HTTP requests of 2026-07-28 mirror into headers (`Mcp-Param-*`), on both sides of a gateway."""

from __future__ import annotations

from typing import Annotated, Any

from dovetail import Gateway, Param, Server
from dovetail.protocol.errors import HEADER_MISMATCH
from tests.gateway.served import served
from tests.support.http import serving
from tests.support.raw_http import Site

City = Annotated[str, Param(header="City")]


def plain(city: str) -> str:
    """The weather in a city."""
    return city


def mirrored(city: City) -> str:
    """The weather in a city, which the header has too."""
    return city


def weather(tool: Any) -> Server:
    server = Server("weather")
    server.tool(tool, name="now")
    return server


async def test_the_gateway_writes_the_headers_for_the_server_from_the_arguments() -> None:
    app, got = weather(mirrored).asgi(), list[dict[str, str]]()

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            got.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    async with serving(recorded) as url, served(Gateway({"w": f"{url}/mcp"})) as at, at.client() as client:
        assert (await client.call("w__now", city="Łódź")).text == "Łódź"
    (call,) = [headers for headers in got if headers.get("mcp-method") == "tools/call"]
    assert call["mcp-name"] == "now"
    assert call["mcp-param-city"] == "=?base64?xYHDs2TFug==?="


async def test_a_header_that_differs_from_the_argument_is_refused_and_the_call_not_sent() -> None:
    async with served(Gateway({"w": weather(mirrored)})) as at, at.client() as client, Site(at.url) as raw:
        await client.tools()
        for headers in ({"Mcp-Param-City": "Lima"}, {}):
            answer = await raw.modern("tools/call", headers, name="w__now", arguments={"city": "Oslo"})
            assert answer.status == 400
            assert (await answer.error())["code"] == HEADER_MISMATCH
        answer = await raw.modern("tools/call", {"Mcp-Param-City": "Oslo"}, name="w__now", arguments={"city": "Oslo"})
        assert (await answer.answer())["result"]["content"][0]["text"] == "Oslo"


async def test_a_tool_that_no_longer_mirrors_an_argument_needs_no_header() -> None:
    server = weather(mirrored)
    async with served(Gateway({"w": server})) as at, at.client() as client, Site(at.url) as raw:
        await client.tools()
        server.remove_tool("now")
        server.tool(plain, name="now")
        assert "x-mcp-header" not in str((await client.tools())[0].input_schema)
        answer = await raw.modern("tools/call", name="w__now", arguments={"city": "Oslo"})
        assert (await answer.answer())["result"]["content"][0]["text"] == "Oslo"
