"""What is fetched for authorization, from where, and how much of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.auth.http import MAX_BODY, Flow, OAuthRequest, OAuthResponse, get
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.aiohttp_client import AiohttpClient
from dovetail.transports.http.contract import HttpOptions
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, Script, ScriptedHttpServer


def fetcher(server: ScriptedHttpServer, **how: Any) -> OAuthHttp:
    return OAuthHttp(server.url, HttpOptions(), **how)


def leading(place: Callable[[], str], status: int = 302) -> Script:
    async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.path == "/start":
            await line.answer(status, location=place())
        else:
            await line.answer(200, b"{}", x_path=asked.path)

    return script


class TestRedirects:
    async def test_within_the_origin(self):
        async with ScriptedHttpServer(leading(lambda: "/end")) as server:
            response = await fetcher(server).send(get(f"http://127.0.0.1:{server.port}/start"))
        assert (response.status, response.headers["x-path"], response.body) == (200, "/end", b"{}")

    async def test_to_another_origin(self):
        async with ScriptedHttpServer(leading(lambda: "/")) as other:
            async with ScriptedHttpServer(leading(lambda: other.url)) as server:
                with pytest.raises(Untrusted, match="redirects to another origin"):
                    await fetcher(server).send(get(f"http://127.0.0.1:{server.port}/start"))
            assert other.asked == []

    async def test_a_circle(self):
        async with ScriptedHttpServer(leading(lambda: "/start")) as server:
            with pytest.raises(AuthorizationFailed, match="redirects too often"):
                await fetcher(server).send(get(f"http://127.0.0.1:{server.port}/start"))
            assert len(server.asked) == 4

    async def test_what_is_posted_goes_to_one_place(self):
        async with ScriptedHttpServer(leading(lambda: "/end", 307)) as server:
            response = await fetcher(server).send(
                OAuthRequest("POST", f"http://127.0.0.1:{server.port}/start", {}, b"code")
            )
            assert response.status == 307
            assert len(server.asked) == 1


class TestBounds:
    async def test_a_body_that_is_too_large(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(200, b" " * (MAX_BODY + 1))

        async with ScriptedHttpServer(script) as server:
            with pytest.raises(AuthorizationFailed, match="more than"):
                await fetcher(server).send(get(server.url))

    async def test_a_server_that_is_silent(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await asyncio.Event().wait()

        async with ScriptedHttpServer(script) as server:
            with pytest.raises(AuthorizationFailed, match=r"gave no answer within 0\.05 s"):
                await fetcher(server, seconds=0.05).send(get(server.url))

    async def test_nobody_there(self):
        async with ScriptedHttpServer(leading(lambda: "/")) as server:
            pass
        with pytest.raises(AuthorizationFailed, match="There is no answer from"):
            await fetcher(server).send(get(server.url))


class TestPlaces:
    @pytest.mark.parametrize(
        "url", ["https://169.254.169.254/", "https://192.168.0.1/", "https://[fd00:ec2::254]/", "https://100.64.0.1/"]
    )
    async def test_an_address_that_is_not_for_us(self, url: str):
        with pytest.raises(Untrusted, match="is not allowed as a target"):
            await OAuthHttp("http://127.0.0.1/mcp", HttpOptions()).send(get(url))

    @pytest.mark.parametrize("options", [HttpOptions(proxy="http://127.0.0.1:9"), HttpOptions()])
    async def test_this_machine_for_who_is_not_on_it(self, options: HttpOptions):
        with pytest.raises(Untrusted, match="is on a loopback host"):
            await OAuthHttp("https://example.com/mcp", options).send(get("http://127.0.0.1:1/"))

    async def test_a_proxy_does_not_help(self):
        with pytest.raises(Untrusted, match="is not allowed as a target"):
            await OAuthHttp("https://example.com/mcp", HttpOptions(proxy="http://127.0.0.1:9")).send(
                get("https://169.254.169.254/")
            )

    async def test_a_client_of_the_users_own_is_used_and_stays_open(self):
        async with ScriptedHttpServer(leading(lambda: "/")) as server:
            own = AiohttpClient(HttpOptions(), server.url)
            try:
                for _ in range(2):
                    assert (await OAuthHttp(server.url, HttpOptions(client=own)).send(get(server.url))).status == 200
            finally:
                await own.close()
            assert server.connections == 1

    async def test_only_the_address_that_was_looked_at_is_connected_to(self):
        async with ScriptedHttpServer(leading(lambda: "/")) as server:
            url = f"http://no-such-name.invalid:{server.port}/"
            pinned = AiohttpClient(HttpOptions(), url, ["127.0.0.1"])
            try:
                answer = await pinned.request("GET", url, {}, None)
                answer.close()
            finally:
                await pinned.close()
            assert server.asked[0].headers["host"] == f"no-such-name.invalid:{server.port}"


class TestFlows:
    async def test_a_flow_is_told_why_there_is_no_answer(self):
        def flow() -> Flow[str]:
            try:
                yield get("https://10.0.0.1/")
            except Untrusted:
                return "refused"
            return "answered"

        assert await OAuthHttp("https://example.com/mcp", HttpOptions()).run(flow()) == "refused"

    async def test_answers_go_back_into_the_flow(self):
        async with ScriptedHttpServer(leading(lambda: "/")) as server:

            def flow() -> Flow[list[OAuthResponse]]:
                first = yield get(server.url)
                second = yield get(server.url)
                return [first, second]

            assert [each.status for each in await fetcher(server).run(flow())] == [200, 200]
