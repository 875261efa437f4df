"""Secrets are nowhere but where they belong: not in logs, traces, errors, or in what objects say of themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth.authorization_code import AuthorizationRequest
from dovetail.auth.client_authentication import OAuthClient as Registered
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.http import OAuthRequest, OAuthResponse
from dovetail.auth.jwk import SigningKey
from dovetail.auth.tokens import Account, Tokens
from dovetail.client.auth.grants import ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import MemoryTokens
from tests.attacks.attack_setup import AuthorizationServer, bare, browse, login_scene, oauth_login
from tests.support.raw_http import Site

SECRET = "hush-hush-hush"


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("dovetail", "dovetail.http", "aiohttp", "asyncio", "uvicorn"):
        caplog.set_level(logging.DEBUG, name)


def assert_hidden(text: str, honest: AuthorizationServer) -> None:
    assert honest.secrets
    for secret in {*honest.secrets, SECRET}:
        assert secret not in text, text


async def test_a_whole_login_with_everything_logged_and_traced(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with login_scene() as place:
        told: list[str] = []
        store, auth = MemoryTokens(), oauth_login(client_id="registered", client_secret=SECRET)
        place.authorization_server.changes = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}

        def trace(*what: Any) -> None:
            told.append(repr(what))

        async with Client(place.url, auth=auth, trace=trace) as client:
            await client.call("who")
            shown = repr([client, auth, store])
        assert place.authorization_server.grants and told and caplog.records
        assert any("/mcp" in record.getMessage() for record in caplog.records)
        out, err = capfd.readouterr()
        for text in (caplog.text, "\n".join(told), out, err, shown):
            assert_hidden(text, place.authorization_server)


@pytest.mark.parametrize("good", [True, False])
async def test_the_trace_of_the_command_line(good: bool) -> None:
    async with login_scene() as place:
        token = place.authorization_server.token(aud=place.url if good else "https://other.example")
        command = [sys.executable, "-m", "dovetail.cli", "list", place.url, "--trace", "--token-env", "THE_TOKEN"]
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, "THE_TOKEN": token},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told = (await process.communicate())[0].decode()
        assert (process.returncode == 0) == good and "server/discover" in told
        assert_hidden(told, place.authorization_server)


@pytest.mark.parametrize("page", ["/token", "/keys", "/authorize"])
@pytest.mark.parametrize(
    "answer", [500, {"error": "x", "error_description": "y"}, (200, {}, b"<html>"), (302, {}, b"")]
)
async def test_what_goes_wrong_is_told_without_them(page: str, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with login_scene() as place:
        place.authorization_server.pages[page] = answer
        way = oauth_login()
        if page == "/authorize":
            way = OAuth(ClientCredentials("robot", secret=SECRET))
            place.authorization_server.pages["/token"] = answer
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            await Client(place.url, auth=way).open()
        place.authorization_server.secrets.update(code for code in place.authorization_server.codes)
        place.authorization_server.secrets.add(SECRET)
        for text in ("".join(traceback.format_exception(caught.value)), repr(caught.value), caplog.text):
            assert_hidden(text, place.authorization_server)


async def test_a_token_that_is_refused_is_not_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async with login_scene() as place, Site(bare(place.url)) as site:
        for token in (
            place.authorization_server.token(aud="https://other.example"),
            place.authorization_server.token(aud=place.url, exp=1),
        ):
            answer = await site.call("who", {"Authorization": f"Bearer {token}"})
            assert answer.status == 401 and token not in repr(answer.pairs) + (await answer.body()).decode()
        assert "A token was refused" in caplog.text
        assert_hidden(caplog.text, place.authorization_server)


async def test_an_answer_to_a_login_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async with login_scene() as place:

        async def altered(url: str) -> str:
            return (await browse(url)).replace("state=", "state=x")

        with pytest.raises(AuthorizationFailed) as caught:
            await Client(place.url, auth=oauth_login(open_page=altered)).open()
        assert_hidden("".join(traceback.format_exception(caught.value)) + caplog.text, place.authorization_server)


def test_values_that_hold_secrets_do_not_show_them() -> None:
    key = SigningKey.generate()
    client = Registered(id="a", issuer="https://i", secret=SECRET, key=key.to_pem())
    tokens = Tokens(access_token=SECRET, refresh_token=SECRET, id_token=SECRET)
    account = Account(resource="r", issuer="https://i", client=client, tokens=tokens, dpop_key=key.to_pem())
    login = AuthorizationRequest(
        url=f"https://i/?state={SECRET}",
        issuer="https://i",
        iss_expected=True,
        client_id="a",
        redirect_uri="http://127.0.0.1/",
        resource="r",
        scopes=(),
        state=SECRET,
        verifier=SECRET,
    )
    values = [
        client,
        tokens,
        account,
        login,
        key,
        OAuthRequest("POST", "https://i", {"authorization": SECRET}, SECRET.encode()),
    ]
    shown = repr([*values, OAuthResponse(200, {"x": SECRET}, SECRET.encode())]) + "".join(map(str, values))
    assert SECRET not in shown and "PRIVATE KEY" not in shown and key.to_pem().split("\n")[1] not in shown
