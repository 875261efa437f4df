"""The options of a server over HTTP, as a person may get them wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dovetail import Server
from dovetail.protocol.errors import LocalError
from dovetail.server.http.options import AsgiOptions, Settings


def test_every_option_has_a_default_and_vice_versa() -> None:
    assert set(AsgiOptions.__annotations__) == set(Settings.__struct_fields__)


def test_the_defaults_are_safe() -> None:
    settings = Settings.of({})
    assert settings.allowed_hosts is None and settings.allowed_origins is None
    assert settings.cors is False
    assert settings.max_body == 4_000_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sesions": True}, "sesions"),
        ({"path": "mcp"}, "slash"),
        ({"allowed_hosts": "example.com"}, "list"),
        ({"allowed_origins": ["example.com"]}, "https://example.com"),
        ({"cors": ["*"]}, "cors=True"),
        ({"allowed_hosts": ["http://example.com/x"]}, "allowed_hosts"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options: dict[str, Any], told: str) -> None:
    with pytest.raises(LocalError, match=re.escape(told)):
        Server("options").asgi(**options)
