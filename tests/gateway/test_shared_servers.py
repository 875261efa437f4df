"""Servers with one connection for all clients: what one asks or logs reaches the client that called it, or none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, Server, ToolFailed
from dovetail.gateway import ServerSettings
from tests.gateway.served import ServedGateway, served, tokens


class Shared:
    """A server that asks and logs while a call of another client is in progress, and the gateway before it."""

    def __init__(self) -> None:
        self.server = Server("shared", revisions=["2025-11-25"])
        self.other_began, self.done = asyncio.Event(), asyncio.Event()
        self.asked: list[tuple[str, str]] = []
        self.logged: list[tuple[str, Any]] = []
        self.server.tool(self.ask)
        self.server.tool(self.wait)

    async def ask(self, ctx: Context) -> str:
        """Log and ask once the other call is in progress too."""
        await self.other_began.wait()
        try:
            await ctx.log.warning("of the caller only")
            return str((await ctx.elicit("Who are you?", str)).data)
        finally:
            self.done.set()

    async def wait(self) -> str:
        """Be in progress until the other call has ended."""
        self.other_began.set()
        await self.done.wait()
        return "waited"

    def gateway(self, **options: Any) -> Gateway:
        """A gateway before it."""
        return Gateway({"s": self.server}, settings={"s": ServerSettings(shared=True)}, **options)

    def client(self, at: ServedGateway, name: str, principal: str | None, **options: Any) -> Client:
        """A client that notes what it is asked and told."""

        def answer(question: Any) -> dict[str, Any]:
            self.asked.append((name, question.message))
            return {"value": name}

        def on_log(message: Any, *rest: Any) -> None:
            self.logged.append((name, message))

        return at.client(principal, on_elicit=answer, on_log=on_log, **options)


@pytest.mark.parametrize("principals", [(None, None), ("ann", "ann"), ("ann", "eve")])
async def test_neither_of_two_sessions_gets_what_may_be_for_the_other(
    principals: tuple[str | None, str | None],
) -> None:
    """They may have the same address, or even the same user."""
    shared = Shared()
    auth = None if principals[0] is None else tokens(ann=[], eve=[])
    async with (
        served(shared.gateway(auth=auth)) as at,
        shared.client(at, "one", principals[0], revision="2025-11-25") as one,
        shared.client(at, "other", principals[1], revision="2025-11-25") as other,
    ):
        asking = asyncio.create_task(one.call("s__ask"))
        assert (await other.call("s__wait")).text == "waited"
        with pytest.raises(ToolFailed, match="Several calls are in progress on this shared connection"):
            await asking
    assert (shared.asked, shared.logged) == ([], [])


async def test_a_client_without_session_or_principal_gets_nothing_that_may_be_for_another() -> None:
    shared = Shared()
    async with (
        served(shared.gateway()) as at,
        shared.client(at, "one", None, revision="2026-07-28", log_level="debug") as one,
        shared.client(at, "other", None, revision="2026-07-28", log_level="debug") as other,
    ):
        asking = asyncio.create_task(one.call("s__ask"))
        assert (await other.call("s__wait")).text == "waited"
        with pytest.raises(ToolFailed, match="Several calls are in progress"):
            await asking
    assert (shared.asked, shared.logged) == ([], [])


async def test_a_client_is_asked_and_told_while_no_other_has_a_call_in_progress() -> None:
    shared = Shared()
    shared.other_began.set()
    async with (
        served(shared.gateway()) as at,
        shared.client(at, "one", None, revision="2025-11-25") as one,
        shared.client(at, "other", None, revision="2025-11-25") as other,
    ):
        await other.tools()
        assert (await one.call("s__ask")).text == "one"
    assert shared.asked == [("one", "Who are you?")]
    assert [name for name, _ in shared.logged] == ["one"]


async def test_two_calls_of_one_session_are_those_of_one_client() -> None:
    shared = Shared()
    async with served(shared.gateway()) as at, shared.client(at, "one", None, revision="2025-11-25") as one:
        asking = asyncio.create_task(one.call("s__ask"))
        assert (await one.call("s__wait")).text == "waited"
        assert (await asking).text == "one"
    assert [name for name, _ in shared.logged] == ["one"]
