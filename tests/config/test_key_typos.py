"""Keys that are nearly right."""

import pytest

from dovetail.config.key_typos import FILE_KEYS, SERVER_KEYS, suggest_key


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("comand", "command"),
        ("Command", "command"),
        ("arguments", "args"),
        ("arg", "args"),
        ("env_file", "envFile"),
        ("envfile", "envFile"),
        ("environment", "env"),
        ("header", "headers"),
        ("disable", "disabled"),
        ("enabled", "disabled"),
        ("command", None),
        ("timeout", None),
        ("autoApprove", None),
        ("colour", None),
    ],
)
def test_keys_of_a_server(key: str, meant: str | None) -> None:
    assert suggest_key(key, SERVER_KEYS) == meant


@pytest.mark.parametrize(
    ("key", "meant"), [("mcpservers", "mcpServers"), ("mcp_servers", "mcpServers"), ("server", "servers"), ("x", None)]
)
def test_keys_of_a_file(key: str, meant: str | None) -> None:
    assert suggest_key(key, FILE_KEYS) == meant
