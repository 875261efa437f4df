"""What a server logs reaches `on_log`, on both eras."""

import asyncio
from typing import Any

import pytest

from dovetail import Client
from dovetail.client import logs as module
from dovetail.client.logs import LogDelivery
from dovetail.protocol.envelope import LOG_LEVEL
from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.protocol.revisions import REVISIONS
from tests.support.peer import notification
from tests.support.scripted import Error, Scripted, discovery, dying, welcome
from tests.support.waiting import settled, until

MESSAGE = notification("notifications/message", level="warning", data={"disk": 0.9}, logger="disk")


def logging_server(name: str, **answers: Any) -> Scripted:
    capabilities = {"logging": {}}
    return Scripted(
        server_discover=discovery(capabilities=capabilities),
        initialize=welcome(protocolVersion=name, capabilities=capabilities),
        tools_list={"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
        **{"logging_setLevel": {}, **answers},
    )


class TestHearing:
    @pytest.mark.parametrize("name", REVISIONS)
    async def test_level_data_and_logger_are_told(self, name: str):
        heard: list[Any] = []
        server = logging_server(name)
        async with Client(server, revision=name, on_log=lambda *told: heard.append(told)):
            server.peer.send(MESSAGE, notification("notifications/message", level="debug", data="x"))
            await until(lambda: len(heard) == 2)
        assert heard == [("warning", {"disk": 0.9}, "disk"), ("debug", "x", None)]

    async def test_an_async_function_hears_one_after_the_other(self):
        heard: list[Any] = []
        go_on = asyncio.Event()

        async def on_log(level: str, data: Any, logger: str | None) -> None:
            heard.append(data)
            await go_on.wait()

        logs = LogDelivery(on_log)
        for n in range(3):
            logs.notified("notifications/message", {"level": "info", "data": n})
        await settled()
        assert heard == [0]
        go_on.set()
        await settled()
        assert heard == [0, 1, 2]
        logs.notified("notifications/message", {"level": "info", "data": 3})
        await settled()
        assert heard == [0, 1, 2, 3]

    async def test_one_that_is_too_slow_misses_some(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        monkeypatch.setattr(module, "MAX_WAITING", 2)
        heard: list[Any] = []

        async def on_log(level: str, data: Any, logger: str | None) -> None:
            heard.append(data)

        logs = LogDelivery(on_log)
        for n in range(4):
            logs.notified("notifications/message", {"level": "info", "data": n})
        await settled()
        assert heard == [0, 1]
        assert "too slow" in caplog.text

    async def test_closing_ends_a_function_that_waits(self):
        ended: list[str] = []

        async def on_log(level: str, data: Any, logger: str | None) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(data)

        server = logging_server("2025-11-25")
        async with Client(server, revision="2025-11-25", on_log=on_log):
            server.peer.send(MESSAGE, MESSAGE)
            await settled()
        await settled()
        assert ended == [{"disk": 0.9}]

    @pytest.mark.parametrize("as_async", [False, True])
    async def test_a_function_that_fails_hurts_nobody(self, as_async: bool, caplog: pytest.LogCaptureFixture):
        heard: list[Any] = []

        def take(level: str, data: Any, logger: str | None) -> None:
            heard.append(data)
            if len(heard) == 1:
                raise RuntimeError("cannot take it")

        async def take_later(level: str, data: Any, logger: str | None) -> None:
            take(level, data, logger)

        server = logging_server("2026-07-28")
        async with Client(server, on_log=take_later if as_async else take):
            server.peer.send(MESSAGE, MESSAGE)
            await until(lambda: len(heard) == 2)
        assert "on_log failed" in caplog.text

    async def test_what_is_malformed_is_dropped(self):
        heard: list[Any] = []
        logs = LogDelivery(lambda *told: heard.append(told))
        logs.notified("notifications/message", {"level": "loud", "data": 1})
        logs.notified("notifications/message", {"level": "info"})
        logs.notified("notifications/other", {"level": "info", "data": 1})
        assert heard == []


class TestLevels:
    async def test_on_the_envelope_era_every_request_carries_it(self):
        server = logging_server("2026-07-28")
        async with Client(server, on_log=print) as client:
            await client.ping()
            assert [message["params"]["_meta"][LOG_LEVEL] for message in server.asked] == ["info", "info"]
            await client.set_log_level("debug")
            await client.ping()
            assert server.asked[-1]["params"]["_meta"][LOG_LEVEL] == "debug"
        assert "logging/setLevel" not in server.methods

    @pytest.mark.parametrize("name", [name for name, revision in REVISIONS.items() if revision.era == "handshake"])
    async def test_on_the_handshake_era_it_is_set_once(self, name: str):
        server = logging_server(name)
        async with Client(server, revision=name, on_log=print, log_level="error") as client:
            assert server.methods == ["initialize", "notifications/initialized", "logging/setLevel"]
            assert server.asked[-1]["params"] == {"level": "error"}
            await client.set_log_level("debug")
            assert server.asked[-1]["params"] == {"level": "debug"}

    async def test_a_server_that_does_not_log_is_not_asked(self):
        server = Scripted(initialize=welcome())
        async with Client(server, revision="2025-11-25", on_log=print):
            await settled()
        assert server.methods == ["initialize", "notifications/initialized"]

    async def test_without_on_log_nothing_is_asked_for(self):
        server = logging_server("2026-07-28")
        async with Client(server) as client:
            await client.tools()
        assert all(LOG_LEVEL not in message["params"]["_meta"] for message in server.asked)

    async def test_a_server_that_refuses_is_used_all_the_same(self, caplog: pytest.LogCaptureFixture):
        server = logging_server("2025-11-25", logging_setLevel=Error(-32603))
        async with Client(server, revision="2025-11-25", on_log=print) as client:
            await client.tools()
        assert "does not let its log level be set" in caplog.text

    async def test_one_that_dies_of_it_is_not_open(self):
        client = Client(logging_server("2025-11-25", logging_setLevel=dying()), revision="2025-11-25", on_log=print)
        with pytest.raises(ConnectionLost):
            await client.open()
        with pytest.raises(LocalError, match="not open"):
            await client.tools()

    def test_a_level_that_does_not_exist_is_named(self):
        with pytest.raises(LocalError, match="There is no log level 'loud'; there are debug"):
            Client("x", on_log=print, log_level="loud")  # type: ignore[arg-type]

    def test_a_level_that_nobody_listens_to_is_a_mistake(self):
        with pytest.raises(LocalError, match="there is no on_log"):
            Client("x", log_level="info")

    async def test_it_can_be_set_before_opening(self):
        server = logging_server("2026-07-28")
        client = Client(server, on_log=print)
        await client.set_log_level("alert")
        async with client:
            assert server.asked[0]["params"]["_meta"][LOG_LEVEL] == "alert"
