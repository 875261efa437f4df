"""Lists within bounds, from servers that say too much."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.client.targets.command import CommandTarget
from dovetail.host.limits import Limits
from dovetail.host.servers.bounded_client import BoundedClient, fetch_list, offered_kinds
from dovetail.protocol.errors import InvalidAnswer
from tests.host.hosting import HOSTILE, PROGRAMS


def client(role: str, problems: list[str], **limits: Any) -> BoundedClient:
    target = CommandTarget([sys.executable, str(HOSTILE / "villain.py"), role], on_stderr=lambda _: None)
    return BoundedClient(target, msgspec.structs.replace(Limits(), **limits), problems.append)


@pytest.mark.parametrize(
    ("role", "limits", "told"),
    [
        ("oversized", {"max_items": 100}, "more than max_items=100 items"),
        ("oversized", {"max_list_bytes": 10_000, "max_items": 1_000_000}, "more than max_list_bytes=10000 bytes"),
        ("endless", {"max_pages": 10}, "more than 10 pages"),
    ],
)
async def test_a_list_that_is_too_long_is_not_taken(role: str, limits: dict[str, Any], told: str) -> None:
    async with client(role, [], **limits) as c:
        with pytest.raises(InvalidAnswer, match=told):
            await fetch_list(c, "tools", 10)
        assert not c.gone


async def test_an_entry_that_is_too_long_is_left_out() -> None:
    problems: list[str] = []
    async with client("verbose", problems) as c:
        assert [tool.name for tool in await fetch_list(c, "tools", 10)] == ["read"]
    assert "'long' takes 1000" in problems[0]


async def test_a_list_has_only_so_much_time() -> None:
    async with client("mute", []) as c:
        with pytest.raises(InvalidAnswer, match=r"did not end within 0\.1 s"):
            await fetch_list(c, "tools", 0.1)


async def test_what_is_not_offered_is_not_asked_for() -> None:
    async with client("innocent", []) as c:
        assert offered_kinds(c) == ["tools", "prompts"]
        assert await fetch_list(c, "resources", 10) == (), "a method that is not there is an empty list"
        assert c.knows("resources/subscribe")
        assert c.era == "handshake"


async def test_a_server_that_goes_is_gone() -> None:
    target = CommandTarget([sys.executable, str(PROGRAMS / "plain.py")], on_stderr=lambda _: None)
    async with BoundedClient(target, Limits(), lambda _: None) as c:
        assert len(await fetch_list(c, "templates", 10)) == 1
        assert c.era == "envelope"
        calling = c.call("leave", check=False)
        with pytest.raises(Exception, match="exited with code 3"):
            await calling
        assert c.gone
        assert "exited with code 3" in await c.lost()


def test_a_bounded_client_never_sends_a_request_twice(tmp_path: Path) -> None:
    from dovetail.protocol.errors import SessionEnded
    from dovetail.types.tools import Tool, ToolAnnotations

    c = client("innocent", [])
    policy: Any = vars(c)["_retry_policy"]
    policy.learn([Tool("read", {}, annotations=ToolAnnotations(read_only_hint=True))])
    assert not policy.allow(SessionEnded("s", ran=True), "tools/call", {"name": "read"})
