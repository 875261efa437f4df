"""Servers behind a URL: what they speak is found out, and what goes wrong is said clearly."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dovetail import Client
from dovetail.client import negotiation
from dovetail.protocol.errors import ConnectionLost, HttpStatus, InvalidAnswer, LocalError, RemoteError
from dovetail.transports.http.contract import ClientResponse, HttpOptions
from tests.client.site import PAGE, Site, Status, legacy, modern
from tests.support.peer import nothing_left
from tests.support.scripted import Error, discovery, welcome
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer
from tests.transports.test_legacy_sse import Old

NEWEST, HANDSHAKE = "2026-07-28", "2025-11-25"


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    negotiation.SHARED_ERAS.clear()
    yield
    negotiation.SHARED_ERAS.clear()


class OldMcp(Old):
    """A server that speaks MCP over HTTP+SSE; what is posted to its stream's own URL gets this status."""

    def __init__(self, status: int = 405, body: bytes = b"", kind: str | None = None) -> None:
        super().__init__()
        self.post = self._mcp
        self._refusal = (status, body, kind)

    async def _mcp(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.path == "/mcp":
            await line.answer(*self._refusal)
            return
        await line.answer(202)
        if asked.id is not None:
            version = asked.message.get("params", {}).get("protocolVersion")
            result = welcome(protocolVersion=version) if version else {}
            await self.stream.event({"jsonrpc": "2.0", "id": asked.id, "result": result})


class TestEras:
    async def test_a_server_of_the_envelope_era(self):
        before = asyncio.all_tasks()
        async with modern() as site:
            async with Client(site.url) as client:
                assert client.revision == NEWEST
                serving = asyncio.all_tasks()
            assert site.methods == ["server/discover"]
            await nothing_left(before | serving)

    @pytest.mark.parametrize(
        "refusal",
        [
            Status(400),
            Status(400, b"Bad Request: Unsupported protocol version", "text/plain"),
            Status(404),
            Status(405),
            Status(406),
            Status(500, b"oops", "text/plain"),
            Error(-32600, "Bad Request: Missing session ID"),
            Error(-32601),
            {"strange": True},
        ],
    )
    async def test_anything_but_a_modern_error_means_the_handshake(self, refusal: Any):
        async with Site(server_discover=refusal, initialize=welcome()) as site, Client(site.url) as client:
            assert client.revision == HANDSHAKE
        assert site.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]

    async def test_a_modern_error_is_put_right(self):
        def discover(asked: RecordedRequest) -> Any:
            return Error(-32022, "Unsupported", {"supported": [HANDSHAKE], "requested": NEWEST})

        async with Site(server_discover=discover, initialize=welcome()) as site, Client(site.url) as client:
            assert client.revision == HANDSHAKE

    async def test_what_a_server_speaks_is_remembered(self):
        async with Site(server_discover=Status(400), initialize=welcome()) as site:
            for _ in range(2):
                async with Client(site.url):
                    pass
            other = site.url + "/other"
            async with Client(other):
                pass
        spoken = [method for method in site.methods if method in ("server/discover", "initialize")]
        assert spoken == ["server/discover", "initialize", "initialize", "server/discover", "initialize"]

    async def test_and_forgotten_when_it_proves_wrong(self):
        async with Site(server_discover=Status(400), initialize=welcome()) as site:
            async with Client(site.url):
                pass
            site.answers = {"server/discover": discovery(), "initialize": Status(400)}
            async with Client(site.url) as client:
                assert client.revision == NEWEST
            assert negotiation.SHARED_ERAS.get(("url", site.url)) == "envelope"

    @pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE])
    async def test_a_revision_may_be_demanded(self, revision: str):
        async with legacy(initialize=welcome(protocolVersion=revision)) as site:
            async with Client(site.url, revision=revision) as client:
                assert client.revision == revision
            with pytest.raises(ConnectionLost, match="does not speak"):
                async with Client(site.url, revision=NEWEST):
                    pass

    async def test_the_session_is_ended_at_the_end(self):
        async with legacy() as site, Client(site.url):
            pass
        assert site.methods[-1] == "DELETE"


class TestSse:
    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (405, b"Method Not Allowed", "text/plain"),
            (404, b"", None),
            (400, b"", None),
            (405, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No."}}', "application/json"),
        ],
    )
    @pytest.mark.parametrize("revision", [None, "2024-11-05"])
    async def test_the_oldest_transport_is_the_last_try(
        self, status: int, body: bytes, kind: str | None, revision: str | None
    ):
        before = asyncio.all_tasks()
        async with OldMcp(status, body, kind) as site:
            async with Client(site.url, revision=revision) as client:
                assert client.revision == (revision or HANDSHAKE)
                await client.ping()
                serving = asyncio.all_tasks()
            await nothing_left(before | serving)
        assert site.of("POST")[-1].path == "/messages?session_id=1"

    async def test_it_is_remembered(self):
        async with OldMcp() as site:
            async with Client(site.url):
                pass
            asked = len(site.asked)
            async with Client(site.url) as client:
                await client.ping()
        assert site.asked[asked].method == "GET"

    async def test_and_forgotten_when_it_proves_wrong(self):
        async with modern() as site:
            negotiation.SHARED_ERAS.remember(("url", site.url), "sse")
            async with Client(site.url) as client:
                assert client.revision == NEWEST
        assert site.methods == ["GET", "server/discover"]

    async def test_it_is_not_tried_for_the_newest_revision(self):
        async with OldMcp() as site:
            with pytest.raises(HttpStatus):
                async with Client(site.url, revision=NEWEST):
                    pass
        assert site.of("GET") == []

    async def test_a_server_that_goes_is_lost(self):
        async with OldMcp() as site, Client(site.url) as client:
            site.stream.cut()
            with pytest.raises(ConnectionLost):
                await client.ping(timeout=5)


class TestFailing:
    async def test_nobody_there(self):
        async with modern() as site:
            pass
        with pytest.raises(ConnectionLost, match="Is the server running"):
            async with Client(site.url):
                pass

    async def test_a_wrong_path(self):
        async with Site(server_discover=Status(404), initialize=Status(404, b"Not Found", "text/plain")) as site:
            with pytest.raises(HttpStatus, match="check the path of the URL") as caught:
                async with Client(site.url):
                    pass
        assert caught.value.status == 404
        assert site.methods == ["server/discover", "initialize", "GET"]

    async def test_a_web_page(self):
        page = Status(200, PAGE, "text/html")
        async with Site(server_discover=page, initialize=page) as site:
            with pytest.raises(InvalidAnswer, match="looks like a web page"):
                async with Client(site.url):
                    pass

    @pytest.mark.parametrize("status", [401, 403, 429])
    async def test_a_closed_door_is_not_knocked_at_in_other_ways(self, status: int):
        async with Site(server_discover=Status(status)) as site:
            with pytest.raises(HttpStatus) as caught:
                async with Client(site.url, auth=False):
                    pass
        assert caught.value.status == status
        assert site.methods == ["server/discover"]

    async def test_no_safe_connection(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None: ...

        async with ScriptedHttpServer(script, greeting=b"HTTP/1.0 400 Bad\r\n\r\n") as site:
            with pytest.raises(ConnectionLost, match="No safe connection"):
                async with Client(site.url.replace("http", "https")):
                    pass

    async def test_a_server_that_refuses_the_handshake(self):
        async with Site(server_discover=Status(400), initialize=Error(-32000, "closed today")) as site:
            with pytest.raises(RemoteError, match="closed today"):
                async with Client(site.url):
                    pass
        assert "GET" not in site.methods

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("http://", "is no URL of a server"),
            ("http:///x", "is no URL of a server"),
            ("http://a b/", "is no URL of a server"),
            ("http://h/\r\nX: y", "is no URL of a server"),
            ("http://h:99999/", "is no URL"),
            ("https://me:secret@h/", "Credentials do not belong into a URL"),
            ("ftp://h/", "cannot be reached: http, https, ws, wss, unix and tcp can"),
        ],
    )
    def test_a_url_that_is_none(self, url: str, said: str):
        with pytest.raises(LocalError, match=said):
            Client(url)


class TestOptions:
    async def test_headers_and_a_token_go_with_every_request(self):
        async with (
            legacy(tools_list={"tools": []}) as site,
            Client(site.url, headers={"X-Team": "a"}, auth="t0ken") as client,
        ):
            await client.tools()
            await site.until(lambda: site.of("GET"))
        assert {asked.headers["x-team"] for asked in site.asked} == {"a"}
        assert {asked.headers["authorization"] for asked in site.asked} == {"Bearer t0ken"}
        assert {asked.headers["user-agent"].split("/")[0] for asked in site.asked} == {"dovetail"}
        assert {"POST", "GET", "DELETE"} == {asked.method for asked in site.asked}

    async def test_a_token_that_has_run_out_is_asked_for_again(self):
        tokens = iter(["old", "new"])

        def discover(asked: RecordedRequest) -> Any:
            return discovery() if asked.headers["authorization"] == "Bearer new" else Status(401)

        async def give() -> str:
            return next(tokens)

        async with modern(server_discover=discover) as site, Client(site.url, auth=give) as client:
            assert client.revision == NEWEST

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"headers": {"X": "a\r\nb"}}, "has a line break"),
            ({"headers": {"Authorization": "x"}, "auth": "y"}, "not into both"),
            ({"auth": "a b"}, "A bearer token"),
        ],
    )
    def test_what_cannot_be_sent(self, options: dict[str, Any], said: str):
        with pytest.raises(LocalError, match=said):
            Client("http://h/", **options)

    @pytest.mark.parametrize("options", [{"headers": {}}, {"auth": "x"}, {"http": HttpOptions()}])
    @pytest.mark.parametrize("target", ["python server.py", "tcp://h:1", ["python"]])
    def test_they_are_for_urls(self, target: Any, options: dict[str, Any]):
        with pytest.raises(LocalError, match=r"are for servers behind a URL|cannot be reached with headers or auth"):
            Client(target, **options)

    async def test_another_http_client_may_do_the_work(self):
        class Answer:
            def __init__(self, status: int, body: bytes) -> None:
                self.status = status
                self.headers = {"content-type": "application/json"}
                self._body = body

            async def chunk(self) -> bytes:
                body, self._body = self._body, b""
                return body

            def close(self) -> None: ...

        class Own:
            closed = False

            async def request(
                self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
            ) -> ClientResponse:
                import json

                message = json.loads(body or b"{}")
                result = {"jsonrpc": "2.0", "id": message["id"], "result": discovery()}
                return Answer(200, json.dumps(result).encode())

            async def close(self) -> None:
                self.closed = True

        own = Own()
        async with Client("http://h/mcp", http=HttpOptions(client=own)) as client:
            assert client.revision == NEWEST
        assert not own.closed

    async def test_a_blocking_client(self):
        async with modern(tools_list={"resultType": "complete", "tools": []}) as site:

            def use() -> list[Any]:
                with Client.blocking(site.url) as client:
                    return client.tools()

            assert await asyncio.to_thread(use) == []
