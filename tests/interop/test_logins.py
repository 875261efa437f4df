"""Logins between the official Python SDK and us: each one's client at the other's protected server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from dovetail import Client, Context, Introspection, JWTVerifier, OAuth, Server, Verifier
from dovetail.testing import DevAuth
from tests.interop.peers import python_program
from tests.support.http import free_port, listening, serving, serving_command, url_of
from tests.support.login_browser import LoginBrowser

pytestmark = pytest.mark.interop

BACK = "http://127.0.0.1:3030/callback"


def asking(auth: DevAuth, url: str) -> Verifier:
    """Asks about each token, and so knows at once when one has ended."""
    return Introspection(
        issuer=auth.issuer, audience=url, client_id="house", client_secret="s", cache=0, scopes=["rooms"]
    )


def checking(auth: DevAuth, url: str) -> Verifier:
    """Believes what is signed."""
    return JWTVerifier(issuer=auth.issuer, audience=url, scopes=["rooms"])


ENDS: dict[str, tuple[Callable[[DevAuth, str], Verifier], Callable[[DevAuth], None], int]] = {
    "nothing": (checking, lambda _: None, 1),
    # Both versions renew by the clock alone: a refusal they answer with a login.
    "expiry": (asking, DevAuth.expire, 2),
    "revocation": (asking, DevAuth.revoke_all, 2),
}
"""What checks tokens, what ends them, and how many logins that makes."""


def protected(verifier: Verifier) -> Server:
    server = Server("house", auth=verifier)

    @server.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


@pytest.mark.parametrize("version", ["mcp", "mcp1"])
@pytest.mark.parametrize("ends", ENDS)
async def test_their_client_logs_in_at_our_server(version: str, ends: str) -> None:
    auth, sock = DevAuth(), listening()
    verifier, end, logins = ENDS[ends]
    auth.add_client("house", secret="s")
    url = f"{url_of(sock)}/mcp"
    async with (
        auth.serving(),
        serving(protected(verifier(auth, url)).asgi(), sock),
        LoginBrowser() as visitor,
    ):
        pipe = asyncio.subprocess.PIPE
        words = [*python_program(version, "mcp_login.py"), url, BACK]
        process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        lines: list[str] = []
        try:
            while line := (await process.stdout.readline()).decode().strip():
                lines.append(line)
                if line.startswith("http"):
                    process.stdin.write((await visitor.log_in(line) + "\n").encode())
                elif line == "called":
                    end(auth)
                    process.stdin.write(b"\n")
            complaints = (await process.stderr.read()).decode()
            assert await process.wait() == 0, complaints
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert json.loads(lines[-1]) == {"said": ["ada", "ada"]}, complaints
        pages = [line for line in lines if line.startswith(f"{auth.issuer}/authorize")]
        assert len(pages) == logins


async def test_our_client_logs_in_at_their_server() -> None:
    pages: list[str] = []
    async with DevAuth().serving() as auth, LoginBrowser() as visitor:
        command = [*python_program("mcp", "mcp_protected_server.py"), auth.issuer, str(free_port())]

        async def open_page(url: str) -> str:
            pages.append(url)
            return await visitor.log_in(url)

        with serving_command(command) as program:
            login = OAuth(open_page=open_page, redirect_uri=BACK)
            for _ in range(2):
                async with Client(f"{program.url}/mcp", auth=login) as client:
                    assert (await client.call("whoami")).text == "ada"
    assert len(pages) == 1 and "scope=rooms" in pages[0]
