"""Which era and revision a POST belongs to, and every way in which it is refused, status and code."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from dovetail import Context, Param, Server
from dovetail.protocol.errors import ProtocolError
from tests.support.http import serving
from tests.support.raw_http import (
    ENVELOPE,
    SESSIONS,
    Site,
    initialize,
    modern,
    modern_headers,
    modern_meta,
    notification,
    request,
    serving_aside,
    text_of,
)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def make_server(**options: Any) -> Server:
    server = Server("exchange", **options)

    @server.tool
    def echo(text: str) -> str:
        return text

    @server.tool
    def forecast(
        city: Annotated[str, Param(header="City")],
        days: Annotated[int, Param(header="Days")] = 3,
        sure: Annotated[bool, Param(header="Sure")] = False,
    ) -> str:
        return f"{city} {days} {sure}"

    @server.tool(name="größe")
    def size() -> str:
        return "XL"

    @server.tool
    async def revision(ctx: Context) -> str:
        return ctx.revision

    @server.tool
    def broken() -> str:
        raise ProtocolError(-32000, "made by hand")

    @server.resource("config://app")
    def config() -> str:
        return "on"

    @server.prompt
    def review(code: str) -> str:
        return code

    return server


@asynccontextmanager
async def at(server: Server | None = None, **options: Any) -> AsyncIterator[Site]:
    endpoint = (server or make_server()).asgi(**options)
    async with serving(endpoint) as url, Site(url) as site:
        yield site
    await endpoint.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """One server for all who leave it as it was."""
    with serving_aside(lambda: make_server().asgi()) as url:
        yield url


@pytest.fixture(scope="module")
def shared_modern() -> Iterator[str]:
    """One that speaks no handshake revision."""
    with serving_aside(lambda: make_server(revisions=[ENVELOPE]).asgi()) as url:
        yield url


@pytest.fixture(scope="module")
def shared_strict() -> Iterator[str]:
    with serving_aside(lambda: make_server().asgi(strict_headers=True)) as url:
        yield url


def sentinel(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    return f"=?base64?{base64.b64encode(raw).decode()}?="


LIST = modern("tools/list")
CALL = modern("tools/call", name="echo", arguments={"text": "hi"})
READ = modern("resources/read", uri="config://app")
PROMPT = modern("prompts/get", name="review", arguments={"code": "x"})
FORECAST = modern("tools/call", name="forecast", arguments={"city": "Lima"})


def lacking(key: str) -> dict[str, Any]:
    meta = modern_meta()
    del meta[key]
    return request("tools/list", _meta=meta)


class TestTheEnvelopeEra:
    """2026-07-28: every request stands alone."""

    async def test_it_is_chosen_by_a_version_in_meta(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.call("revision")
            assert answer.status == 200
            assert text_of(await answer.answer()) == ENVELOPE

    async def test_no_session_is_begun_and_an_id_that_comes_is_ignored(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.call("echo", {"Mcp-Session-Id": "nobody's"}, text="hi")
            assert answer.status == 200
            assert "mcp-session-id" not in answer.headers
            assert text_of(await answer.json()) == "hi"
            resumed = await site.call("echo", {"Last-Event-ID": "0_1"}, text="hi")
            assert text_of(await resumed.json()) == "hi", "streams are not resumable, so the header means nothing"

    @pytest.mark.parametrize(
        ("message", "changed", "code"),
        [
            pytest.param(LIST, {"MCP-Protocol-Version": None}, -32020, id="no version header"),
            pytest.param(LIST, {"MCP-Protocol-Version": "2025-11-25"}, -32020, id="another version in the header"),
            pytest.param(LIST, {"MCP-Protocol-Version": "1900-01-01"}, -32020, id="an unknown version in the header"),
            pytest.param(LIST, {"MCP-Protocol-Version": ""}, -32020, id="an empty version header"),
            pytest.param(modern("tools/list", meta={VERSION: "1900-01-01"}), {}, -32020, id="another version in _meta"),
            pytest.param(
                modern("tools/list", meta={VERSION: "1900-01-01"}),
                {"MCP-Protocol-Version": "1900-01-01"},
                -32022,
                id="an unknown version in both",
            ),
            pytest.param(
                modern("tools/list", meta={VERSION: "2025-11-25"}),
                {"MCP-Protocol-Version": "2025-11-25"},
                -32022,
                id="a handshake revision in _meta",
            ),
            pytest.param(request("tools/list"), {}, -32602, id="no _meta"),
            pytest.param(request("tools/list", _meta={}), {}, -32602, id="an empty _meta"),
            pytest.param(request("tools/list", _meta=7), {}, -32602, id="_meta that is no object"),
            pytest.param(lacking(CAPABILITIES), {}, -32602, id="_meta without capabilities"),
            pytest.param(modern("tools/list", meta={CAPABILITIES: 7}), {}, -32602, id="capabilities that are none"),
            pytest.param(modern("tools/list", meta={VERSION: 7}), {}, -32602, id="a version that is no text"),
            pytest.param(LIST, {"Mcp-Method": None}, -32020, id="no method header"),
            pytest.param(LIST, {"Mcp-Method": "tools/call"}, -32020, id="another method"),
            pytest.param(LIST, {"Mcp-Method": "Tools/List"}, -32020, id="values are case-sensitive"),
            pytest.param(LIST, {"Mcp-Method": sentinel("tools/list")}, -32020, id="methods are never base64"),
            pytest.param(CALL, {"Mcp-Name": None}, -32020, id="no name header for a tool"),
            pytest.param(CALL, {"Mcp-Name": "other"}, -32020, id="another tool"),
            pytest.param(CALL, {"Mcp-Name": "Echo"}, -32020, id="names are case-sensitive"),
            pytest.param(READ, {"Mcp-Name": None}, -32020, id="no name header for a resource"),
            pytest.param(READ, {"Mcp-Name": "config://other"}, -32020, id="another resource"),
            pytest.param(PROMPT, {"Mcp-Name": None}, -32020, id="no name header for a prompt"),
            pytest.param(PROMPT, {"Mcp-Name": "other"}, -32020, id="another prompt"),
            pytest.param(CALL, {"Mcp-Name": "=?base64?####?="}, -32020, id="no base64"),
            pytest.param(CALL, {"Mcp-Name": "=?base64?ZWNobw?="}, -32020, id="base64 without its padding"),
            pytest.param(CALL, {"Mcp-Name": sentinel("other")}, -32020, id="another tool in base64"),
            pytest.param(CALL, {"Mcp-Name": sentinel(b"\xff\xfe")}, -32020, id="base64 of no UTF-8"),
            pytest.param(CALL, {"Mcp-Name": "=?BASE64?ZWNobw==?="}, -32020, id="the marks are lower case"),
            pytest.param(CALL, {"Mcp-Name": b"ech\xc3\xb6"}, -32020, id="bytes beyond ASCII"),
            pytest.param(FORECAST, {}, -32020, id="no header for a mirrored argument"),
            pytest.param(FORECAST, {"Mcp-Param-City": "Rome"}, -32020, id="another argument"),
            pytest.param(FORECAST, {"Mcp-Param-City": "=?base64?!?="}, -32020, id="a malformed argument"),
            pytest.param(
                FORECAST, {"Mcp-Param-City": "Lima", "Mcp-Param-Days": "3"}, -32020, id="a header without an argument"
            ),
        ],
    )
    async def test_what_does_not_fit_is_refused_with_400(
        self, shared: str, message: dict[str, Any], changed: dict[str, Any], code: int
    ) -> None:
        async with Site(shared) as site:
            usual = {"MCP-Protocol-Version": ENVELOPE} if "_meta" not in message["params"] else modern_headers(message)
            answer = await site.post(message, {**usual, **changed})
            body = await answer.json()
            assert (answer.status, body["error"]["code"]) == (400, code), body
            assert body["id"] == message["id"], "whoever can be told which request it was is told"

    async def test_an_unknown_version_is_told_the_ones_that_are_served(self, shared: str) -> None:
        async with Site(shared) as site:
            message = modern("tools/list", meta={VERSION: "1900-01-01"})
            answer = await site.post(message, {**modern_headers(message), "MCP-Protocol-Version": "1900-01-01"})
            error = await answer.error()
            assert error["data"] == {
                "requested": "1900-01-01",
                "supported": [ENVELOPE, *SESSIONS[::-1], "2024-11-05"],
            }

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "echo"),
            ("MCP-Protocol-Version", ENVELOPE),
            ("mcp-NAME", "echo"),
        ],
    )
    async def test_a_standard_header_that_comes_twice_is_refused_even_if_both_say_the_same(
        self, shared: str, name: str, value: str
    ) -> None:
        async with Site(shared) as site:
            answer = await site.post(CALL, [*modern_headers(CALL).items(), (name, value)])
            assert (answer.status, (await answer.error())["code"]) == (400, -32020)

    @pytest.mark.parametrize(
        ("arguments", "headers"),
        [
            ({"city": "Lima"}, {"Mcp-Param-City": "Lima"}),
            ({"city": "Lima"}, {"mcp-param-CITY": "Lima"}),
            ({"city": "Lima"}, {"Mcp-Param-City": sentinel("Lima")}),
            ({"city": "São Paulo"}, {"Mcp-Param-City": sentinel("São Paulo")}),
            ({"city": " padded "}, {"Mcp-Param-City": sentinel(" padded ")}),
            ({"city": "a\r\nX: y"}, {"Mcp-Param-City": sentinel("a\r\nX: y")}),
            ({"city": "=?base64?x?="}, {"Mcp-Param-City": sentinel("=?base64?x?=")}),
            ({"city": "=?utf-8?x?="}, {"Mcp-Param-City": "=?utf-8?x?="}),
            ({"city": "Lima", "days": 7}, {"Mcp-Param-City": "Lima", "Mcp-Param-Days": "7"}),
            ({"city": "Lima", "days": 7}, {"Mcp-Param-City": "Lima", "Mcp-Param-Days": "7.0"}),
            ({"city": "Lima", "sure": True}, {"Mcp-Param-City": "Lima", "Mcp-Param-Sure": "true"}),
            ({"city": "Lima"}, {"Mcp-Param-City": "Lima", "Mcp-Param-Nobodys": "ignored"}),
        ],
    )
    async def test_mirrored_arguments_are_compared_as_what_they_stand_for(
        self, shared: str, arguments: dict[str, Any], headers: dict[str, str]
    ) -> None:
        async with Site(shared) as site:
            answer = await site.call("forecast", headers, **arguments)
            body = await answer.json()
            assert answer.status == 200, body
            assert text_of(body).startswith(arguments["city"])

    async def test_a_name_that_no_header_can_carry_comes_in_base64(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.call("größe", {"Mcp-Name": sentinel("größe")})
            assert text_of(await answer.json()) == "XL"

    async def test_blanks_around_a_value_are_no_part_of_it(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.call("echo", {"Mcp-Name": "  echo \t"}, text="hi")
            assert text_of(await answer.json()) == "hi"

    @pytest.mark.parametrize(
        ("method", "params", "status", "code"),
        [
            ("no/such/method", {}, 404, -32601),
            ("initialize", {}, 404, -32601),
            ("ping", {}, 404, -32601),
            ("logging/setLevel", {"level": "info"}, 404, -32601),
            ("resources/subscribe", {"uri": "config://app"}, 404, -32601),
            ("tools/call", {"name": "nobody", "arguments": {}}, 200, -32602),
            ("tools/call", {"name": "echo", "arguments": 7}, 200, -32602),
            ("resources/read", {"uri": "config://none"}, 200, -32602),
            ("prompts/get", {"name": "nobody"}, 200, -32602),
            ("tools/list", {"cursor": "forged"}, 200, -32602),
        ],
    )
    async def test_errors_after_admission_are_200_except_for_methods_that_there_are_not(
        self, shared: str, method: str, params: dict[str, Any], status: int, code: int
    ) -> None:
        async with Site(shared) as site:
            answer = await site.modern(method, **params)
            body = await answer.json()
            assert (answer.status, body["error"]["code"]) == (status, code), body
            assert body["id"] is not None

    async def test_a_capability_that_the_client_lacks_is_400(self) -> None:
        server = Server("asks")

        @server.tool
        async def ask(ctx: Context) -> str:
            return str(await ctx.elicit("Sure?", bool))

        async with at(server) as site:
            answer = await site.call("ask")
            error = await answer.error()
            assert (answer.status, error["code"]) == (400, -32021), error
            assert "elicitation" in error["data"]["requiredCapabilities"]

    async def test_a_failing_tool_is_no_error_of_the_protocol(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.call("broken")
            assert answer.status == 200

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b'"x"', b"\xff", b"{}", b'{"jsonrpc":"2.0"}'])
    @pytest.mark.parametrize("version", [ENVELOPE, "2025-11-25", None])
    async def test_what_is_no_message_is_400(self, shared: str, body: bytes, version: str | None) -> None:
        async with Site(shared) as site:
            answer = await site.post(body, {"MCP-Protocol-Version": version})
            told = await answer.json()
            assert answer.status == 400
            assert told["error"]["code"] in (-32700, -32600)

    async def test_an_id_that_can_be_read_in_what_is_no_message_is_told(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.post({"id": 77, "method": "tools/list"})
            assert answer.status == 400
            assert (await answer.json())["id"] == 77

    async def test_responses_and_batches_are_not_for_this_era(self, shared: str) -> None:
        async with Site(shared) as site:
            for message in ({"jsonrpc": "2.0", "id": 1, "result": {}}, [LIST], [LIST, LIST]):
                answer = await site.post(message, {"MCP-Protocol-Version": ENVELOPE})
                assert (answer.status, (await answer.error())["code"]) == (400, -32600)

    async def test_a_notification_is_202_without_a_body(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.post(notification("notifications/cancelled"), {"MCP-Protocol-Version": ENVELOPE})
            assert (answer.status, await answer.body()) == (202, b"")

    async def test_discovery_names_every_revision_that_is_served(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.modern("server/discover")
            result = (await answer.json())["result"]
            assert result["supportedVersions"] == [ENVELOPE, *SESSIONS[::-1], "2024-11-05"]


class TestOnlyTheEnvelopeEra:
    """A server that speaks no handshake revision has neither streams to GET nor sessions to DELETE."""

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
    async def test_post_is_all_there_is(self, shared_modern: str, method: str) -> None:
        async with Site(shared_modern) as site:
            answer = await site.ask(method, {"Accept": "text/event-stream"})
            assert (answer.status, answer.headers["allow"]) == (405, "POST")

    async def test_a_request_without_a_version_header_is_refused(self, shared_modern: str) -> None:
        async with Site(shared_modern) as site:
            answer = await site.post(request("tools/list"))
            assert (answer.status, (await answer.error())["code"]) == (400, -32020)

    async def test_initialize_is_told_which_versions_there_are(self, shared_modern: str) -> None:
        """Old clients have nothing but this text to show to their user (versioning, "Backward Compatibility")."""
        async with Site(shared_modern) as site:
            answer = await site.post(initialize("2025-06-18"))
            error = await answer.error()
            assert (answer.status, error["code"]) == (400, -32022)
            assert ENVELOPE in error["message"] or ENVELOPE in error["data"]["supported"]

    @pytest.mark.parametrize("path", ["/sse", "/messages"])
    async def test_the_endpoints_of_http_sse_are_not_there(self, shared_modern: str, path: str) -> None:
        async with Site(shared_modern) as site:
            assert (await site.ask("GET", {"Accept": "text/event-stream"}, path=path)).status == 404


class TestTheHandshakeEra:
    """Without a version in `_meta`: the session's revision, else the header's, else 2025-03-26."""

    @pytest.mark.parametrize("revision", SESSIONS)
    async def test_a_session_keeps_the_revision_of_its_handshake(self, shared: str, revision: str) -> None:
        async with Site(shared) as site:
            session = await site.session(revision)
            assert session.result["protocolVersion"] == revision
            answer = await session.call("revision")
            assert text_of(await answer.json()) == revision
            unnamed = await site.post(
                request("tools/call", name="revision", arguments={}), {"Mcp-Session-Id": session.id}
            )
            assert text_of(await unnamed.json()) == revision, "the header is not needed where the session knows"

    async def test_without_session_and_header_it_is_2025_03_26(self) -> None:
        async with at(sessions=False) as site:
            answer = await site.post(request("tools/call", name="revision", arguments={}))
            assert text_of(await answer.json()) == "2025-03-26"

    @pytest.mark.parametrize("revision", [*SESSIONS, "2024-11-05"])
    async def test_without_a_session_the_header_decides(self, revision: str) -> None:
        async with at(sessions=False) as site:
            answer = await site.post(
                request("tools/call", name="revision", arguments={}), {"MCP-Protocol-Version": revision}
            )
            assert text_of(await answer.json()) == revision

    @pytest.mark.parametrize("named", ["1900-01-01", "2025-11-26", "garbage", "2025-06-18, 2025-06-18"])
    async def test_an_unsupported_header_is_400(self, shared: str, named: str) -> None:
        async with Site(shared) as site:
            session = await site.session("2025-06-18")
            for headers in ({"MCP-Protocol-Version": named}, {**session.headers, "MCP-Protocol-Version": named}):
                answer = await site.post(request("tools/list"), headers)
                assert answer.status == 400
            assert (await session.get(MCP_Protocol_Version=named)).status == 400
            deleted = await site.ask("DELETE", {**session.headers, "MCP-Protocol-Version": named})
            assert deleted.status == 400
            assert (await session.ask("ping")).status == 200, "the session is still there"

    @pytest.mark.parametrize("revision", SESSIONS)
    @pytest.mark.parametrize(
        ("method", "params", "code"),
        [
            ("no/such/method", {}, -32601),
            ("server/discover", {}, -32601),
            ("tools/call", {"name": "nobody", "arguments": {}}, -32602),
            ("resources/read", {"uri": "config://none"}, -32002),
            ("prompts/get", {"name": "nobody"}, -32602),
        ],
    )
    async def test_errors_after_admission_are_200(
        self, shared: str, revision: str, method: str, params: dict[str, Any], code: int
    ) -> None:
        async with Site(shared) as site:
            session = await site.session(revision)
            answer = await session.ask(method, **params)
            body = await answer.json()
            assert (answer.status, body["error"]["code"]) == (200, code), body

    @pytest.mark.parametrize("revision", SESSIONS)
    @pytest.mark.parametrize(
        "wrong",
        [
            {"Mcp-Method": "tools/list"},
            {"Mcp-Name": "other"},
            {"Mcp-Name": "=?base64?####?="},
            {"Mcp-Param-City": "Rome"},
        ],
    )
    async def test_a_standard_header_that_is_there_must_fit(
        self, shared: str, revision: str, wrong: dict[str, str]
    ) -> None:
        """A draft between the eras had them, and this code for a mismatch (SEP-2243)."""
        async with Site(shared) as site:
            session = await site.session(revision)
            message = request("tools/call", name="forecast", arguments={"city": "Lima"})
            answer = await site.post(message, {**session.headers, **wrong})
            body = await answer.json()
            assert (answer.status, body["error"]["code"], body["id"]) == (400, -32001, message["id"])

    @pytest.mark.parametrize("revision", SESSIONS)
    async def test_standard_headers_may_be_left_out(self, shared: str, revision: str) -> None:
        async with Site(shared) as site:
            session = await site.session(revision)
            answer = await session.call("forecast", city="Lima")
            assert text_of(await answer.json()) == "Lima 3 False"


class TestStrictHeaders:
    """`strict_headers=True` makes the standard headers required on handshake revisions too."""

    async def test_initialize_needs_them_as_well(self, shared_strict: str) -> None:
        async with Site(shared_strict) as site:
            assert (await site.post(initialize("2025-11-25"))).status == 400
            answer = await site.post(initialize("2025-11-25"), {"Mcp-Method": "initialize"})
            assert answer.status == 200

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Mcp-Method": "tools/call", "Mcp-Name": "forecast", "Mcp-Param-City": "Lima"}, 200),
            ({"Mcp-Method": "tools/call", "Mcp-Name": "forecast"}, 400),
            ({"Mcp-Method": "tools/call", "Mcp-Param-City": "Lima"}, 400),
            ({"Mcp-Name": "forecast", "Mcp-Param-City": "Lima"}, 400),
            ({}, 400),
        ],
    )
    async def test_a_call_needs_all_of_them(self, shared_strict: str, headers: dict[str, str], status: int) -> None:
        async with Site(shared_strict) as site:
            opened = await site.post(initialize("2025-11-25"), {"Mcp-Method": "initialize"})
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
            message = request("tools/call", name="forecast", arguments={"city": "Lima"})
            answer = await site.post(message, {**session, **headers})
            body = await answer.json()
            assert answer.status == status, body
            if status == 400:
                assert body["error"]["code"] == -32001

    @pytest.mark.attack("M4")
    async def test_batches_are_refused(self, shared_strict: str) -> None:
        async with Site(shared_strict) as site:
            opened = await site.post(initialize("2025-03-26"), {"Mcp-Method": "initialize"})
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            for disguise in ({}, {"Mcp-Method": "ping", "Mcp-Name": "harmless"}):
                answer = await site.post([request("ping"), request("ping")], {**session, **disguise})
                assert answer.status == 400
                assert (await answer.json())["error"]["code"] == -32001
