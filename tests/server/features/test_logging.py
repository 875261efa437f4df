"""What a handler tells its client while it works, and what of it the client hears."""

import asyncio
from datetime import date
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.envelope import LOG_LEVEL
from dovetail.protocol.log_levels import LEVELS
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, REVISIONS
from dovetail.server.features import logging as logs_module
from tests.support.served import served
from tests.support.waiting import until

EVERY = pytest.mark.parametrize("name", REVISIONS)
EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)
EACH_ENVELOPE = pytest.mark.parametrize("name", ENVELOPE)
MESSAGE = "notifications/message"


def talking() -> Server:
    server = Server("desk")

    @server.tool
    async def talk(ctx: Context) -> None:
        for level in LEVELS:
            await getattr(ctx.log, level)("booking", city="Lima")

    @server.tool
    async def say(level: Any, ctx: Context) -> None:
        await ctx.log(level, "said")

    @server.tool
    async def flood(times: int, ctx: Context) -> None:
        for number in range(times):
            await ctx.log.info("drop", number=number)

    return server


class Ears:
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any, str | None]] = []

    def __call__(self, level: str, data: Any, logger: str | None) -> None:
        self.heard.append((level, data, logger))

    @property
    def levels(self) -> list[str]:
        return [level for level, _, _ in self.heard]


class TestLevels:
    @EVERY
    @pytest.mark.parametrize("level", LEVELS)
    async def test_what_a_client_asked_for_and_worse_reaches_it(self, name: str, level: Any):
        ears = Ears()
        async with Client(talking(), revision=name, on_log=ears, log_level=level) as client:
            await client.call("talk")
            await client.ping()
            assert ears.levels == list(LEVELS[LEVELS.index(level) :])
            assert ears.heard[-1] == ("emergency", {"message": "booking", "city": "Lima"}, "desk")

    @EVERY
    async def test_the_level_may_change(self, name: str):
        ears = Ears()
        async with Client(talking(), revision=name, on_log=ears, log_level="emergency") as client:
            await client.call("say", level="error")
            await client.set_log_level("error")
            await client.call("say", level="error")
            await client.ping()
            assert ears.levels == ["error"]

    @EACH_HANDSHAKE
    async def test_before_a_client_has_asked_it_hears_from_info_on(self, name: str):
        async with served(talking(), name) as caller:
            await caller.call("talk")
            assert [message["params"]["level"] for message in caller.heard] == list(LEVELS[1:])

    @EACH_ENVELOPE
    async def test_a_request_that_asks_for_nothing_gets_nothing(self, name: str):
        async with served(talking(), name) as caller:
            await caller.call("talk")
            asking = {"_meta": {LOG_LEVEL: "alert"}}
            await caller.result("tools/call", name="talk", arguments={}, **asking)
            await caller.call("talk")
            assert [message["params"]["level"] for message in caller.heard] == ["alert", "emergency"]

    @EACH_ENVELOPE
    async def test_a_level_that_there_is_not_is_refused(self, name: str):
        async with served(talking(), name) as caller:
            refusal = await caller.refusal("tools/call", name="talk", arguments={}, _meta={LOG_LEVEL: "loud"})
            assert refusal["code"] == -32602

    @EACH_HANDSHAKE
    async def test_setting_a_level_that_there_is_not_is_refused(self, name: str):
        async with served(talking(), name) as caller:
            assert await caller.result("logging/setLevel", level="debug") == {}
            assert (await caller.refusal("logging/setLevel", level="loud"))["code"] == -32602

    @EACH_HANDSHAKE
    async def test_a_server_without_a_voice_has_no_level(self, name: str):
        server = Server("s")
        server.tool(lambda: None, name="t")
        async with served(server, name) as caller:
            assert (await caller.refusal("logging/setLevel", level="debug"))["code"] == -32601

    @EACH_HANDSHAKE
    async def test_who_was_not_told_that_there_are_logs_gets_none(self, name: str):
        server = Server("s")
        server.tool(lambda: None, name="t")

        async def late(ctx: Context) -> None:
            await ctx.log.error("late")

        async with served(server, name) as caller:
            server.tool(late)
            await caller.hear("notifications/tools/list_changed")
            await caller.call("late")
            assert caller.heard == []


class TestContent:
    @EVERY
    async def test_secrets_are_taken_out(self, name: str):
        ears = Ears()
        server = Server("s")

        @server.tool
        async def leak(ctx: Context) -> None:
            await ctx.log.info("using password=hunter2", api_key="k", nested={"token": "t", "n": 1})

        async with Client(server, revision=name, on_log=ears) as client:
            await client.call("leak")
            await until(lambda: ears.heard)
        assert ears.heard[0][1] == {
            "message": "using password=[redacted]",
            "api_key": "[redacted]",
            "nested": {"token": "[redacted]", "n": 1},
        }

    async def test_anything_can_be_logged(self):
        ears = Ears()
        server = Server("s")
        loop: list[Any] = []
        loop.append(loop)

        @server.tool
        async def odd(ctx: Context) -> None:
            await ctx.log.info("odd", when=date(2025, 1, 2), error=ValueError("no"), kind={1: {2}})
            await ctx.log.named("database").info("endless", it=loop)

        async with Client(server, on_log=ears) as client:
            await client.call("odd")
            await until(lambda: len(ears.heard) == 2)
        assert ears.heard[0][1] == {"message": "odd", "when": "2025-01-02", "error": "no", "kind": {"1": [2]}}
        assert ears.heard[1][1:] == ({"message": "endless", "it": "[[...]]"}, "database")

    async def test_a_call_that_is_over_says_no_more(self):
        server = Server("s")
        kept: list[Context] = []

        @server.tool
        async def keep(ctx: Context) -> None:
            kept.append(ctx)

        ears = Ears()
        async with Client(server, on_log=ears) as client:
            await client.call("keep")
            await kept[0].log.error("too late")
            await client.ping()
        assert ears.heard == []


class TestFlow:
    @EVERY
    async def test_a_flood_is_cut_and_counted(self, name: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(logs_module, "MESSAGES_AT_ONCE", 5)
        monkeypatch.setattr(logs_module, "MESSAGES_A_SECOND", 50)
        ears = Ears()
        async with Client(talking(), revision=name, on_log=ears) as client:
            await client.call("flood", times=40)
            await asyncio.sleep(0.1)
            await client.call("say", level="info")
            await client.ping()
        assert len(ears.heard) < 40
        [told] = [data["message"] for _, data, _ in ears.heard if "left out" in data["message"]]
        left_out = int(told.split()[0])
        assert left_out + sum(data["message"] == "drop" for _, data, _ in ears.heard) == 40
        assert ears.heard[-1][1] == {"message": "said"}
