"""What every HTTP request of ours needs: headers, credentials, and words for what went wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.transports.http.aiohttp_client import AiohttpClient
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester, TokenAuth, check_user_headers, origin
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer


@contextlib.asynccontextmanager
async def courier(server: ScriptedHttpServer, **how: Any) -> AsyncIterator[HttpRequester]:
    client = AiohttpClient(HttpOptions(), server.url)
    try:
        yield HttpRequester(client, server.url, **how)
    finally:
        await client.close()


class TestHeaders:
    def test_they_are_taken_as_they_are(self):
        assert check_user_headers({"X-Key": " a\tb ü ", "x-empty": ""}) == {"x-key": "a\tb ü", "x-empty": ""}

    @pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\r\nb", "a\n"])
    def test_a_name_is_a_token(self, name: str):
        with pytest.raises(LocalError, match="is no name of a header"):
            check_user_headers({name: "x"})

    @pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "\x7f", "€", "x\n"])
    def test_a_value_cannot_bring_another_header(self, value: str):
        with pytest.raises(LocalError, match="The value of the header X-A has a line break"):
            check_user_headers({"X-A": value})

    @pytest.mark.parametrize("name", ["Host", "content-length", "Mcp-Session-Id", "MCP-Param-Region", "Accept"])
    def test_what_a_request_is_only_the_client_says(self, name: str):
        with pytest.raises(LocalError, match="is set by the client itself"):
            check_user_headers({name: "x"})

    async def test_they_go_with_every_request(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(200)

        async with ScriptedHttpServer(script) as server, courier(server, headers={"x-key": "1"}) as sending:
            for method in ("POST", "GET", "DELETE"):
                (await sending.send(method, {"x-more": "2"})).close()
        assert [(asked.headers["x-key"], asked.headers["x-more"]) for asked in server.asked] == [("1", "2")] * 3


async def bouncer(asked: RecordedRequest, line: ResponseWriter) -> None:
    await line.answer(200 if asked.headers.get("authorization") == "Bearer good" else 401)


class TestTokens:
    @pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü"])
    def test_a_token_is_one_word(self, token: str):
        with pytest.raises(LocalError, match="A bearer token is"):
            TokenAuth(token)

    async def test_a_fixed_token(self):
        async with ScriptedHttpServer(bouncer) as server, courier(server, auth=TokenAuth("good")) as sending:
            assert (await sending.send("POST", {})).status == 200

    async def test_a_fixed_token_that_is_refused_is_not_tried_again(self):
        async with ScriptedHttpServer(bouncer) as server, courier(server, auth=TokenAuth("bad")) as sending:
            assert (await sending.send("POST", {})).status == 401
        assert len(server.asked) == 1

    @pytest.mark.parametrize("waits", [False, True])
    async def test_a_function_is_asked_once_and_again_when_its_token_is_refused(self, waits: bool):
        tokens = iter(["old", "good", "never"])

        def give() -> str | Awaitable[str]:
            async def later() -> str:
                await asyncio.sleep(0)
                return next(tokens)

            return later() if waits else next(tokens)

        async with ScriptedHttpServer(bouncer) as server, courier(server, auth=TokenAuth(give)) as sending:
            for _ in range(3):
                answer = await sending.send("POST", {}, b"{}")
                assert answer.status == 200
        assert [asked.headers["authorization"][7:] for asked in server.asked] == ["old", "good", "good", "good"]
        assert {asked.body for asked in server.asked} == {b"{}"}

    async def test_of_many_refusals_at_once_one_asks(self):
        asked_for = 0

        async def give() -> str:
            nonlocal asked_for
            asked_for += 1
            await asyncio.sleep(0.005)
            return "old" if asked_for == 1 else "good"

        async with ScriptedHttpServer(bouncer) as server, courier(server, auth=TokenAuth(give)) as sending:
            answers = await asyncio.gather(*[sending.send("POST", {}) for _ in range(10)])
        assert [answer.status for answer in answers] == [200] * 10
        assert asked_for == 2

    async def test_it_is_tried_a_few_times_more_and_no_oftener(self):
        numbers = iter(range(100))

        async with (
            ScriptedHttpServer(bouncer) as server,
            courier(server, auth=TokenAuth(lambda: f"n{next(numbers)}")) as sending,
        ):
            assert (await sending.send("POST", {})).status == 401
        assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer n{n}" for n in range(4)]

    async def test_something_of_the_users_own(self):
        class Own:
            def __init__(self) -> None:
                self.key = "1"
                self.heard: list[tuple[object, ...]] = []

            async def headers(self, method: str, url: str) -> Mapping[str, str]:
                self.heard.append((method, url))
                return {"x-key": self.key}

            def accepted(self, url: str, headers: Mapping[str, str]) -> None:
                self.heard.append((url, headers.get("dpop-nonce")))

            async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
                self.heard.append((url, status, headers.get("www-authenticate")))
                self.key = "2"
                return sent == {"x-key": "1"}

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            fits = asked.headers["x-key"] == "2"
            two = 'Basic\r\nWWW-Authenticate: Bearer scope="more"'
            await line.answer(200 if fits else 403, www_authenticate=two, dpop_nonce="n1")

        own = Own()
        async with ScriptedHttpServer(script) as server, courier(server, auth=own) as sending:
            assert (await sending.send("POST", {})).status == 200
        assert own.heard == [
            ("POST", server.url),
            (server.url, 403, 'Basic, Bearer scope="more"'),
            ("POST", server.url),
            (server.url, "n1"),
        ]

    @pytest.mark.parametrize("give", [lambda: None, lambda: 5, lambda: "a\r\nb"])
    async def test_a_function_that_gives_no_token(self, give: Callable[[], Any]):
        async with ScriptedHttpServer(bouncer) as server, courier(server, auth=TokenAuth(give)) as sending:
            with pytest.raises(LocalError, match="A bearer token is"):
                await sending.send("POST", {})
        assert server.asked == []


class TestOrigins:
    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("http://a/x", "http://a:80/y?z", True),
            ("https://A.b/", "https://a.b:443", True),
            ("http://a", "https://a", False),
            ("http://a", "http://a:81", False),
            ("http://a", "http://a.b", False),
            ("http://a", "http://b@a", True),
            ("http://[::1]:8/", "http://[::1]:8/x", True),
        ],
    )
    def test_scheme_host_and_port_count(self, one: str, other: str, same: bool):
        assert (origin(one) == origin(other)) is same
