"""The edge of the application: who is let in, with which requests, and what the others are told."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Context, Server
from tests.support.http import serving
from tests.support.raw_http import (
    BOTH,
    EVENTS,
    JSON,
    Line,
    Site,
    initialize,
    modern,
    modern_headers,
    request,
    serving_aside,
    text_of,
)
from tests.support.waiting import until

PATHS = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages"),
    ("GET", "/health"),
]
LIST = modern("tools/list")
BROKEN = [
    b"echo\nX-Evil: 1",
    b"echo\rX-Evil: 1",
    b"echo\r\n X-Evil: 1",
    b"echo\r\n\tX-Evil: 1",
    b"echo\0",
    b"a\x7fb",
    b"\x01",
]
"""The first one only for httptools: h11 ends a line there, as RFC 9112, 2.2 allows, and what follows is a header."""


def make_server(**options: Any) -> Server:
    server = Server("edge", **options)

    @server.tool
    def echo(text: str) -> str:
        return text

    return server


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with serving_aside(lambda: make_server().asgi(max_body=10_000, body_seconds=0.3)) as url:
        yield url


@asynccontextmanager
async def at(server: Server | None = None, **options: Any) -> AsyncIterator[Site]:
    async with serving((server or make_server()).asgi(**options)) as url, Site(url) as site:
        yield site


async def touch(site: Site, method: str, path: str, headers: Any = ()) -> Any:
    """A request that is well-formed as far as its path goes."""
    given = [*dict(headers).items()] if isinstance(headers, dict) else list(headers)
    if method == "POST":
        return await site.post(LIST, [*given, *modern_headers(LIST).items()], path=path)
    return await site.ask(method, [*given, ("Accept", EVENTS)], path=path)


async def shake(site: Site, path: str = "/mcp/ws", headers: Any = ()) -> int:
    """Ask for a WebSocket; the status of the answer."""
    given = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "mcp"),
    ]
    return (await site.ask("GET", [*given, *headers], path=path)).status


class TestHost:
    """DNS rebinding: a web page makes its own name point here, and its requests carry that name."""

    @pytest.mark.parametrize(("method", "path"), PATHS)
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", ""]
    )
    async def test_a_foreign_name_is_421_on_every_path(self, shared: str, method: str, path: str, host: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, method, path, {"Host": host})
            assert answer.status in ((421,) if host else (400, 421))

    async def test_the_refusal_names_the_option_that_lets_it_in(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", {"Host": "mcp.example"})
            message = (await answer.error())["message"]
            assert "mcp.example" in message and "allowed_hosts" in message

    @pytest.mark.parametrize(
        "host", ["localhost", "localhost:1234", "127.0.0.1", "127.0.0.1:99", "[::1]", "[::1]:5", "LOCALHOST"]
    )
    async def test_loopback_is_let_in(self, shared: str, host: str) -> None:
        async with Site(shared) as site:
            assert (await touch(site, "POST", "/mcp", {"Host": host})).status == 200

    async def test_a_websocket_is_refused_too(self, shared: str) -> None:
        async with Site(shared) as site:
            assert await shake(site, headers=[("Host", "evil.example")]) == 403
            assert await shake(site) == 101

    async def test_names_can_be_allowed(self) -> None:
        async with at(allowed_hosts=["mcp.example", "*.internal"]) as site:
            for host, status in (
                ("mcp.example", 200),
                ("a.internal:8", 200),
                ("internal", 421),
                ("x.mcp.example", 421),
            ):
                assert (await touch(site, "POST", "/mcp", {"Host": host})).status == status, host
        async with at(allowed_hosts=["*"]) as site:
            assert (await touch(site, "POST", "/mcp", {"Host": "anything.example"})).status == 200

    async def test_the_host_that_is_listened_on_is_let_in(self) -> None:
        endpoint = make_server().asgi()
        endpoint.bind("192.0.2.7")
        async with serving(endpoint) as url, Site(url) as site:
            for path in ("/mcp", "/messages"):
                assert (await touch(site, "POST", path, {"Host": "192.0.2.7:8000"})).status != 421
            assert (await touch(site, "POST", "/mcp", {"Host": "192.0.2.8:8000"})).status == 421


class TestOrigin:
    """Every HTTP-born transport checks where a page comes from."""

    @pytest.mark.parametrize(("method", "path"), PATHS)
    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://"])
    async def test_a_foreign_page_is_403_on_every_path(self, shared: str, method: str, path: str, origin: str) -> None:
        async with Site(shared) as site:
            assert (await touch(site, method, path, {"Origin": origin})).status == 403

    async def test_the_refusal_names_the_option_that_lets_it_in(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", {"Origin": "https://app.example"})
            message = (await answer.error())["message"]
            assert "https://app.example" in message and "allowed_origins" in message

    @pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
    async def test_pages_of_this_machine_are_let_in(self, shared: str, origin: str) -> None:
        async with Site(shared) as site:
            assert (await touch(site, "POST", "/mcp", {"Origin": origin})).status == 200
            assert await shake(site, headers=[("Origin", origin)]) == 101

    async def test_a_websocket_of_a_foreign_page_is_refused(self, shared: str) -> None:
        async with Site(shared) as site:
            assert await shake(site, headers=[("Origin", "https://evil.example")]) == 403

    async def test_two_origins_are_none(self, shared: str) -> None:
        async with Site(shared) as site:
            twice = [("Origin", "http://localhost"), ("Origin", "https://evil.example")]
            assert (await touch(site, "POST", "/mcp", twice)).status == 400

    async def test_origins_can_be_allowed(self) -> None:
        async with at(allowed_origins=["https://app.example"]) as site:
            for origin, status in (
                ("https://app.example", 200),
                ("http://app.example", 403),
                ("https://x.example", 403),
            ):
                assert (await touch(site, "POST", "/mcp", {"Origin": origin})).status == status, origin


class TestCors:
    async def test_it_is_off_unless_asked_for(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", {"Origin": "http://localhost:3000"})
            assert not [name for name in answer.headers if name.startswith("access-control")]
            preflight = await site.ask(
                "OPTIONS", {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
            )
            assert preflight.status == 405
            assert not [name for name in preflight.headers if name.startswith("access-control")]

    async def test_a_page_that_is_allowed_may_ask_and_read(self) -> None:
        async with at(cors=["https://app.example"]) as site:
            preflight = await site.ask(
                "OPTIONS",
                {
                    "Origin": "https://app.example",
                    "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": "content-type, mcp-method, mcp-param-city",
                },
            )
            assert preflight.status == 204
            assert preflight.headers["access-control-allow-origin"] == "https://app.example"
            assert "POST" in preflight.headers["access-control-allow-methods"]
            assert "mcp-param-city" in preflight.headers["access-control-allow-headers"]
            answer = await touch(site, "POST", "/mcp", {"Origin": "https://app.example"})
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
            assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in answer.headers

    async def test_answers_differ_by_origin_so_caches_are_told(self) -> None:
        async with at(cors=["https://app.example"]) as site:
            answer = await touch(site, "POST", "/mcp")
            assert answer.headers["vary"] == "Origin"
            assert "access-control-allow-origin" not in answer.headers

    async def test_a_page_that_is_not_allowed_is_still_403(self) -> None:
        async with at(cors=["https://app.example"]) as site:
            preflight = await site.ask(
                "OPTIONS", {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
            )
            assert preflight.status == 403
            assert "access-control-allow-origin" not in preflight.headers

    async def test_a_refusal_can_be_read_by_the_page_too(self) -> None:
        async with at(cors=["https://app.example"]) as site:
            answer = await site.post(b"{", {"Origin": "https://app.example"})
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (400, "https://app.example")

    async def test_events_can_be_read_by_the_page_too(self) -> None:
        async with at(cors=["https://app.example"]) as site:
            session = await site.session("2025-11-25")
            stream = await session.get(Origin="https://app.example")
            assert stream.headers["access-control-allow-origin"] == "https://app.example"


class TestBodies:
    async def test_one_that_announces_too_much_is_not_read(self, shared: str) -> None:
        async with Site(shared) as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Content-Length", "10001")])
            answer = await line.answer()
            assert (answer.status, "max_body" in (await answer.error())["message"]) == (413, True)

    async def test_one_that_never_ends_is_cut_off_at_the_limit(self, shared: str) -> None:
        async with Site(shared) as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Transfer-Encoding", "chunked")])
            for _ in range(11):
                await line.write(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            answer = await line.answer()
            assert answer.status == 413
            await answer.body()
            assert await line.ended(), "what would still come cannot be told from the next request"

    async def test_one_in_chunks_is_read_whole(self, shared: str) -> None:
        async with Site(shared) as site:
            line = await site.connect()
            given = [*modern_headers(LIST).items(), ("Content-Type", JSON), ("Transfer-Encoding", "chunked")]
            await line.send("POST", "/mcp", given)
            for byte in json.dumps(LIST).encode():
                await line.write(b"1\r\n%c\r\n" % byte)
            await line.write(b"0\r\n\r\n")
            assert "result" in await (await line.answer()).json()

    @pytest.mark.parametrize("size", [9_990, 10_000])
    async def test_one_at_the_limit_is_taken(self, shared: str, size: int) -> None:
        async with Site(shared) as site:
            body = json.dumps(LIST).encode()
            answer = await site.post(body + b" " * (size - len(body)), modern_headers(LIST))
            assert answer.status == 200

    async def test_one_that_is_too_slow_is_408(self, shared: str) -> None:
        async with Site(shared) as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Content-Length", "100")])
            await line.write(b"{")
            answer = await line.answer()
            assert answer.status == 408
            await answer.body()
            assert await line.ended()

    async def test_a_byte_now_and_then_does_not_help(self, shared: str) -> None:
        async with Site(shared) as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Content-Length", "100")])
            answering = asyncio.create_task(line.answer())
            while not answering.done():
                await line.write(b" ")
                await asyncio.sleep(0.02)
            assert (await answering).status == 408

    async def test_a_client_that_goes_in_the_middle_of_its_body_is_no_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with at() as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Content-Length", "100")])
            await line.write(b"{")
            line.abort()
            assert (await touch(site, "POST", "/mcp")).status == 200
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

    @pytest.mark.parametrize(
        "kind",
        [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "",
            "application/json; charset=latin-1",
        ],
    )
    async def test_what_is_not_json_is_415(self, shared: str, kind: str) -> None:
        """The kinds that a page may send without being asked are among them."""
        async with Site(shared) as site:
            assert (await site.post(LIST, {**modern_headers(LIST), "Content-Type": kind})).status == 415
            assert (await site.post(LIST, {"Content-Type": kind}, path="/messages")).status == 415

    @pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON", "application/json;charset=utf-8"])
    async def test_json_is_json_however_it_is_written(self, shared: str, kind: str) -> None:
        async with Site(shared) as site:
            assert (await site.post(LIST, {**modern_headers(LIST), "Content-Type": kind})).status == 200

    async def test_a_compressed_body_is_415(self, shared: str) -> None:
        """A small one can hold a great deal."""
        async with Site(shared) as site:
            answer = await site.post(LIST, {**modern_headers(LIST), "Content-Encoding": "gzip"})
            assert (answer.status, answer.headers["accept-encoding"]) == (415, "identity")

    @pytest.mark.parametrize(
        ("accept", "status"),
        [
            (BOTH, 200),
            (None, 200),
            ("*/*", 200),
            (JSON, 200),
            ("application/*", 200),
            ("application/json;q=0.5, text/event-stream", 200),
            ("text/html", 406),
            ("application/json;q=0", 406),
            ("", 406),
        ],
    )
    async def test_a_client_that_takes_neither_json_nor_events_is_406(
        self, shared: str, accept: str | None, status: int
    ) -> None:
        async with Site(shared) as site:
            answer = await site.post(LIST, {**modern_headers(LIST), "Accept": accept})
            assert answer.status == status

    @pytest.mark.parametrize(("accept", "status"), [(EVENTS, 400), ("*/*", 400), (JSON, 406), ("text/html", 406)])
    async def test_a_stream_must_be_accepted(self, shared: str, accept: str, status: int) -> None:
        async with Site(shared) as site:
            assert (await site.ask("GET", {"Accept": accept})).status == status


class TestHeaders:
    async def test_too_many_are_431(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", [(f"X-{n}", "x") for n in range(150)])
            assert answer.status == 431

    async def test_too_much_in_them_is_431(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", [(f"X-{n}", "x" * 4000) for n in range(10)])
            assert answer.status == 431

    async def test_a_page_cannot_learn_of_the_server_by_too_many(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "GET", "/health", [(f"X-{n}", "x") for n in range(150)])
            assert answer.status == 431

    @pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Origin", "Mcp-Session-Id", "Last-Event-ID"])
    async def test_what_must_be_clear_is_refused_twice(self, shared: str, name: str) -> None:
        async with Site(shared) as site:
            answer = await touch(site, "POST", "/mcp", [(name, "http://localhost"), (name, "http://localhost")])
            assert answer.status == 400

    @pytest.mark.parametrize(
        ("http", "value"), [*(("httptools", value) for value in BROKEN), *(("h11", value) for value in BROKEN[1:])]
    )
    async def test_a_line_break_in_a_value_is_never_taken_for_something_else(self, value: bytes, http: str) -> None:
        message = modern("tools/call", name="echo", arguments={"text": "hi"})
        async with serving(make_server().asgi(), http=http) as url, Site(url) as site:
            answer = await site.post(message, {**modern_headers(message), "Mcp-Name": value})
            body = await answer.body()
            assert answer.status == 400, body
            assert "x-evil" not in answer.headers

    async def test_what_a_client_sends_never_breaks_the_lines_of_the_answer(self) -> None:
        async with at(cors=True, allowed_origins=["*"]) as site:
            for value in (b"https://a.example\rX-Evil: 1", b"x\nX-Evil: 1"):
                answer = await site.ask(
                    "OPTIONS",
                    {
                        "Origin": "https://a.example",
                        "Access-Control-Request-Method": "POST",
                        "Access-Control-Request-Headers": value,
                    },
                )
                assert "x-evil" not in answer.headers
                assert "x-evil" not in (await touch(site, "POST", "/mcp", {"Origin": value})).headers


class TestTokens:
    """`Server(auth=…)`: nobody is served without a token that belongs to somebody."""

    @pytest.mark.parametrize(("method", "path"), PATHS[:-1])
    @pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Bearer ", "Basic c2VjcmV0", "secret"])
    async def test_without_one_it_is_401_on_every_path(self, method: str, path: str, header: str | None) -> None:
        async with at(make_server(auth={"secret": "alice"}.get)) as site:
            answer = await touch(site, method, path, {"Authorization": header})
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")

    @pytest.mark.parametrize("header", ["Bearer secret", "bearer secret", "BEARER  secret "])
    async def test_with_one_the_handler_knows_who_it_is(self, header: str) -> None:
        server = make_server(auth={"secret": "alice"}.get)

        @server.tool
        async def who(ctx: Context) -> str:
            return str(ctx.principal)

        async with at(server) as site:
            assert text_of(await (await site.call("who", {"Authorization": header})).json()) == "alice"

    async def test_the_function_may_be_async(self) -> None:
        async def verify(token: str) -> str | None:
            await asyncio.sleep(0)
            return "bob" if token == "b" else None

        async with at(make_server(auth=verify)) as site:
            assert (await touch(site, "POST", "/mcp", {"Authorization": "Bearer b"})).status == 200
            assert (await touch(site, "POST", "/mcp", {"Authorization": "Bearer c"})).status == 401

    async def test_one_that_fails_lets_nobody_in(self, caplog: pytest.LogCaptureFixture) -> None:
        def verify(token: str) -> str | None:
            raise RuntimeError("the directory is down: s3cret")

        async with at(make_server(auth=verify)) as site:
            answer = await touch(site, "POST", "/mcp", {"Authorization": "Bearer b"})
            body = await answer.body()
            assert answer.status == 500
            assert b"s3cret" not in body and b"Traceback" not in body
        assert "the directory is down" in caplog.text

    async def test_a_websocket_needs_one_too(self) -> None:
        async with at(make_server(auth={"secret": "alice"}.get)) as site:
            assert await shake(site) == 401
            assert await shake(site, headers=[("Authorization", "Bearer secret")]) == 101

    async def test_strangers_are_turned_away_before_their_body_is_read(self) -> None:
        async with at(make_server(auth={"secret": "alice"}.get)) as site:
            line = await site.connect()
            await line.send("POST", "/mcp", [("Content-Type", JSON), ("Content-Length", "100000")])
            assert (await line.answer()).status == 401


class TestPaths:
    async def test_elsewhere_there_is_nothing(self, shared: str) -> None:
        async with Site(shared) as site:
            answer = await site.ask("GET", path="/else")
            assert answer.status == 404
            assert b"/mcp" in await answer.body(), "who mistyped is told where the endpoint is"
            assert await shake(site, "/else") == 403

    async def test_below_a_mount_the_full_paths_are_named(self) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        app: Any = Starlette(routes=[Mount("/deep/down", app=make_server().asgi())])
        async with serving(app) as url, Site(url) as site:
            answer = await site.ask("GET", path="/deep/down/else")
            assert answer.status == 404
            said = b"There is nothing at /deep/down/else; the MCP endpoint is at /deep/down/mcp\n"
            assert await answer.body() == said

    async def test_a_slash_at_the_end_makes_no_difference(self, shared: str) -> None:
        async with Site(shared) as site:
            assert (await touch(site, "POST", "/mcp/")).status == 200

    @pytest.mark.parametrize("path", ["/", "/deep/down/mcp"])
    async def test_the_endpoint_can_be_anywhere(self, path: str) -> None:
        async with at(path=path) as site:
            assert (await touch(site, "POST", path)).status == 200

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE"])
    async def test_other_methods_are_405(self, shared: str, method: str) -> None:
        async with Site(shared) as site:
            answer = await site.ask(method)
            assert answer.status == 405
            assert answer.headers["allow"] == "POST, GET, DELETE"

    async def test_the_health_endpoint_says_that_all_is_well(self, shared: str) -> None:
        async with Site(shared) as site:
            for accept in (JSON, "*/*", None):
                answer = await site.ask("GET", {"Accept": accept}, path="/health")
                assert answer.status == 200
                assert (await answer.json())["status"] == "ok"

    async def test_the_health_endpoint_needs_no_token_and_tells_no_secrets(self) -> None:
        async with at(make_server(auth={"secret": "alice"}.get)) as site:
            answer = await site.ask("GET", path="/health")
            assert answer.status == 200
            assert "alice" not in json.dumps(await answer.json())

    async def test_what_is_not_wanted_is_not_there(self) -> None:
        async with at(health=None, legacy_sse=False, websocket=False) as site:
            for path in ("/health", "/sse", "/messages"):
                assert (await site.ask("GET", {"Accept": EVENTS}, path=path)).status == 404
            assert await shake(site) == 403


async def test_a_server_that_ends_takes_nothing_new() -> None:
    endpoint = make_server().asgi()
    async with serving(endpoint) as url, Site(url) as site:
        endpoint.stop()
        answer = await touch(site, "POST", "/mcp")
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert (await site.post(initialize("2025-11-25"))).status == 503
        assert await shake(site) == 503


async def test_a_request_in_a_hurry_is_served_too() -> None:
    """Requests that come one right behind the other on a connection, before the first is answered."""
    async with at() as site:
        line: Line = await site.connect()
        for text in ("a", "b"):
            message = modern("tools/call", name="echo", arguments={"text": text})
            given = [*modern_headers(message).items(), ("Accept", BOTH), ("Content-Type", JSON)]
            await line.send("POST", "/mcp", given, json.dumps(message).encode())
        for text in ("a", "b"):
            assert text_of(await (await line.answer()).json()) == text


async def test_a_client_that_shuts_its_sending_side_is_gone() -> None:
    endpoint = make_server().asgi()
    async with serving(endpoint) as url, Site(url) as site:
        session = await site.session("2025-11-25")
        stream = await session.get()
        (live,) = endpoint._router.sessions.live()
        assert live.busy == 1
        stream.line.half_close()
        await until(lambda: live.busy == 0)
        assert (await session.post(request("ping"))).status == 200
