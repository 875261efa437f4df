"""Authentication and accounts of a gateway that is started from a configuration file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Gateway, LocalError, RemoteError, StaticTokens
from dovetail.gateway.settings import AccountSettings, AuthSettings, Credentials, GatewaySettings, read_settings
from dovetail.protocol.errors import HttpStatus
from tests.gateway.gateway_process import GatewayProcess, configuration, odd
from tests.support.http import free_port

ACCOUNT = {"type": "user-account"}


async def test_tokens_of_users_come_from_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANN_TOKEN", "ann-secret")
    auth = {"type": "static", "tokens": {"ann": "${env:ANN_TOKEN}"}, "groups": {"ann": ["editors"]}}
    policy = {"rules": [{"verdict": "allow", "tool": "*", "group": "editors"}]}
    file = configuration(tmp_path, {"works": odd("works")}, auth=auth, policy=policy)
    with GatewayProcess(file) as gateway:
        async with Client(gateway.endpoint, auth="ann-secret", timeout=30) as ann:
            assert [tool.name for tool in await ann.tools()]
        with pytest.raises(HttpStatus, match="401"):
            async with Client(gateway.endpoint, auth="guess", timeout=30) as other:
                await other.tools()


async def test_a_gateway_on_this_machine_knows_where_its_users_log_in(tmp_path: Path) -> None:
    port = free_port()
    servers = {"wiki": {"url": "http://127.0.0.1:1/mcp", "gateway": {"credentials": ACCOUNT}}}
    file = configuration(tmp_path, servers, auth={"type": "static", "tokens": {"ann": "ann-secret"}})
    with GatewayProcess(file, port=port) as gateway:
        async with Client(gateway.endpoint, auth="ann-secret", timeout=30) as ann:
            with pytest.raises(RemoteError, match=f"http://127.0.0.1:{port}/accounts"):
                await ann.call("wiki__search")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "static"}, "needs tokens"),
        ({"type": "jwt", "issuer": "https://auth.example"}, "needs an issuer and an audience"),
        ({"type": "introspection", "issuer": "https://auth.example", "audience": "a"}, "needs a clientId"),
        ({"type": "magic"}, "magic"),
        ({"type": "static", "tokens": {"ann": "x"}, "token": 1}, "unknown field"),
        ({"type": "static", "tokens": {"ann": "x", "bob": ""}}, "the token of bob is empty"),
        ({"type": "static", "tokens": {"ann": "x", "bob": "x"}}, "ann and bob have the same token"),
        ({"type": "static", "tokens": {"ann": "x"}, "groups": {"anne": ["a"]}}, "groups of anne, who has no token"),
        ({"type": "static", "tokens": {"ann": "x"}, "scopes": ["a"]}, "tokens and groups only"),
        ({"type": "jwt", "issuer": "https://a.example", "audience": "a", "tokens": {"ann": "x"}}, "has no tokens"),
        ({"type": "jwt", "issuer": "https://a.example", "audience": "a", "clientId": "x"}, "has no clientId"),
    ],
)
def test_settings_that_lack_something_say_what(given: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        read_settings(GatewaySettings, {"auth": given}, "mcp.json, gateway")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (AccountSettings, {"clientSecret": "x"}, "goes with the clientId"),
        (Credentials, {**ACCOUNT, "clientId": "gateway", "clientSecret": "x"}, "need the issuer"),
        (Credentials, {**ACCOUNT, "issuer": "https://auth.example"}, "goes with the clientId"),
    ],
)
def test_a_secret_goes_with_the_client_and_to_one_issuer_only(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        read_settings(kind, given, "mcp.json, gateway")


@pytest.mark.parametrize(
    ("secret", "message"), [("${env:NOT_THERE_AT_ALL}", "NOT_THERE_AT_ALL"), ("${input:token}", "environment variable")]
)
def test_a_secret_that_is_not_known_is_named_and_its_file(secret: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    auth = {"type": "static", "tokens": {"ann": secret}}
    file.write_text(json.dumps({"mcpServers": {}, "gateway": {"auth": auth}}))
    with pytest.raises(LocalError, match=message) as raised:
        Gateway.from_config(file)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_token_names_the_file_and_the_user(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANN_TOKEN", value)
    auth = {"type": "static", "tokens": {"ann": "${env:ANN_TOKEN}"}}
    file = configuration(tmp_path, {}, auth=auth)
    with pytest.raises(LocalError) as raised:
        Gateway.from_config(file)
    assert str(raised.value) == f"{file}, gateway: auth: the token of ann is empty - at `$.auth`"
    with pytest.raises(LocalError, match="The token of 'ann' is empty"):
        StaticTokens({value: "ann"})


def test_a_secret_in_an_environment_variable_that_is_not_set_says_to_set_it(tmp_path: Path) -> None:
    auth = {"type": "static", "tokens": {"ann": "${env:NOT_THERE_AT_ALL}"}}
    file = configuration(tmp_path, {}, auth=auth)
    with pytest.raises(LocalError) as raised:
        Gateway.from_config(file)
    problem = "${env:NOT_THERE_AT_ALL} has no value: set the environment variable NOT_THERE_AT_ALL"
    assert str(raised.value) == f"{file}, gateway: {problem}"


def test_secrets_do_not_stand_in_the_text_of_settings() -> None:
    settings = AuthSettings(type="static", tokens={"ann": "hush"})
    assert "hush" not in repr(settings)
