"""A login in a browser that comes back to this machine."""

import asyncio
import sys
from urllib.parse import quote, urlsplit

import pytest

from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.client.auth.browser_login import check_page, loopback
from dovetail.client.auth.interactive import find_browser
from dovetail.protocol.errors import LocalError

PAGE = "https://login.example/authorize?state=s1&redirect_uri="

BROWSER = """
import sys, urllib.parse, urllib.request
fields = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[-1]).query))
urllib.request.urlopen(fields["redirect_uri"] + "?code=c%201&state=" + fields["state"]).read()
"""


async def visit(uri: str, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    parts = urlsplit(uri)
    reader, writer = await asyncio.open_connection("127.0.0.1", parts.port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host or parts.netloc}\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(" ", 2)[1]), answer


class TestLoopback:
    async def test_a_browser_is_started_and_comes_back(self):
        told: list[str] = []
        async with loopback(browser=[sys.executable, "-c", BROWSER], show=told.append, seconds=20) as (uri, open_page):
            url = PAGE + quote(uri, safe="")
            assert await open_page(url) == f"{uri}?code=c%201&state=s1"
        assert told == [f"If no browser opens, log in at {url}"]

    async def test_what_a_shell_would_read_is_one_argument(self):
        async with loopback(browser=[sys.executable, "-c", BROWSER], show=lambda _: None, seconds=20) as (uri, opening):
            url = f"https://login.example/a;touch$IFS/x&`id`|$(id)?state=s1&redirect_uri={quote(uri, safe='')}"
            assert (await opening(url)).startswith(uri)

    async def test_without_a_browser_the_address_is_told(self):
        told: list[str] = []
        async with loopback(browser=[], show=told.append) as (uri, open_page):
            waiting = asyncio.ensure_future(open_page(PAGE))
            while not told:
                await asyncio.sleep(0)
            assert told == [f"Log in at {PAGE}"]
            assert (await visit(uri, "/callback?code=1&state=s1"))[0] == 200
            assert await waiting == f"{uri}?code=1&state=s1"

    async def test_from_another_machine_the_answer_is_pasted(self):
        told, lines = list[str](), asyncio.Queue[str]()
        async with loopback(browser=[], show=told.append, pasted=lines.get) as (uri, open_page):
            waiting = asyncio.ensure_future(open_page(PAGE))
            wrong = [f"{uri}?code=1&state=other", f"{uri}?code=1", "http://127.0.0.1:1/callback?code=1&state=s1", "y"]
            for line in ["", *wrong, f"  {uri}?code=1&state=s1\n", "never read"]:
                lines.put_nowait(line)
            assert await waiting == f"{uri}?code=1&state=s1"
        assert sum(uri in line for line in told) == len(wrong)
        assert lines.qsize() <= 1

    async def test_only_the_answer_to_this_login_counts_and_only_once(self):
        async with loopback(browser=[], show=lambda _: None) as (uri, open_page):
            assert (await visit(uri, "/callback?code=0&state="))[0] == 400
            waiting = asyncio.ensure_future(open_page(PAGE))
            await asyncio.sleep(0)
            for path in (
                "/callback",
                "/callback?code=0&state=s2",
                "/callback?state=s1&state=s1",
                "/callback?state=%ff",
            ):
                assert (await visit(uri, path))[0] == 400
            assert (await visit(uri, "/other?state=s1"))[0] == 404
            assert (await visit(uri, "/callback?state=s1", method="POST"))[0] == 405
            assert (await visit(uri, "/callback?state=s1", host="evil.example"))[0] == 421
            assert not waiting.done()
            status, page = await visit(uri, "/callback?code=<script>&state=s1")
            assert (status, "script" in page) == (200, False)
            assert (await visit(uri, "/callback?code=2&state=s1"))[0] == 410
            assert await waiting == f"{uri}?code=<script>&state=s1"

    async def test_who_sends_nonsense_is_hung_up_on(self):
        async with loopback(browser=[], show=lambda _: None) as (uri, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(uri).port)
            writer.write(b"x" * 40_000)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    async def test_a_user_who_does_nothing(self):
        async with loopback(browser=["/no/such/browser"], show=lambda _: None, seconds=0.02) as (_, open_page):
            with pytest.raises(AuthorizationFailed, match="Nobody logged in"):
                await open_page(PAGE)

    async def test_a_port_of_ones_own(self):
        async with loopback(browser=[]) as (taken, _):
            with pytest.raises(LocalError, match="No login can come back"):
                async with loopback(taken, browser=[]):
                    pass
        async with loopback(taken, browser=[]) as (uri, _):
            assert uri == taken

    @pytest.mark.parametrize("uri", ["http://192.0.2.1/callback", "https://127.0.0.1/x", "http://0.0.0.0:1/"])
    async def test_it_comes_back_to_this_machine_only(self, uri: str):
        with pytest.raises(LocalError, match="comes back to"):
            async with loopback(uri):
                pass


class TestPages:
    @pytest.mark.parametrize(
        "url",
        [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "--version",
            "http://example.com/login",
            "https://a.example/ x",
            'https://a.example/?"',
            "https://a.example/?a#b",
            "https://user@a.example/",
            "ms-calculator:",
        ],
    )
    def test_what_is_not_opened(self, url: str):
        with pytest.raises(Untrusted):
            check_page(url)

    @pytest.mark.parametrize("url", ["https://a.example/x?y=z", "http://127.0.0.1:1/x", "http://localhost/"])
    def test_what_is(self, url: str):
        check_page(url)


class TestBrowsers:
    def test_without_a_screen_there_is_none(self):
        assert find_browser({"PATH": "/usr/bin"}, "linux") is None

    def test_other_systems(self):
        assert find_browser({}, "darwin") == ["/usr/bin/open"]
        assert find_browser({}, "win32") == ["rundll32.exe", "url.dll,FileProtocolHandler"]
