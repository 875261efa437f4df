"""The first contact: a probe of the envelope era first, the handshake after it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail.client.negotiation import Agreement
from dovetail.client.negotiator import PROBE_SECONDS, ConnectOptions, Negotiator, discover, initialize
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, RemoteError, Timeout
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Connection
from dovetail.transports.memory import memory_pair
from dovetail.types.capabilities import ClientCapabilities, Implementation
from tests.support.clock import Clock
from tests.support.peer import Script
from tests.support.scripted import SILENCE, Error, Scripted, discovery, legacy, modern, welcome
from tests.support.waiting import until

ME = Implementation("tester", "1")
PREFIX = "io.modelcontextprotocol/"


class OneConnection:
    """A connector that has one connection, which cannot be made again."""

    key = None
    restartable = False
    legacy_sse = False

    def __init__(self, connection: Connection, timeout: float | None) -> None:
        self.connection = connection
        self.revisions: list[Revision] = []
        self.options = ConnectOptions(info=ME, capabilities=ClientCapabilities(), timeout=timeout)

    async def connect(self, transport: str) -> Connection:
        return self.connection

    async def disconnect(self) -> str:
        return "closed"

    def agreed(self, revision: Revision, server: Implementation | None) -> None:
        self.revisions.append(revision)

    async def negotiate(self) -> Agreement:
        return await Negotiator(self, self.options).run()

    async def initialize(self, revision: Revision) -> Agreement:
        return await initialize(self.connection, self.options, revision, self)

    async def discover(self, revision: Revision) -> Agreement:
        return await discover(self.connection, self.options, revision, self)


@contextlib.asynccontextmanager
async def contact(server: Scripted, timeout: float | None = 30) -> AsyncIterator[OneConnection]:
    ours, theirs = memory_pair()
    connection = Connection(ours, Script(), reader=ours)
    connection.open()
    serving = asyncio.create_task(server.serve(theirs))
    try:
        yield OneConnection(connection, timeout)
    finally:
        await connection.close()
        await serving


async def negotiate(server: Scripted, timeout: float | None = 30) -> Agreement:
    async with contact(server, timeout) as made:
        return await made.negotiate()


class TestEnvelope:
    async def test_a_server_that_answers_the_probe_is_of_the_envelope_era(self):
        meta = {PREFIX + "serverInfo": {"name": "s", "version": "2"}}
        server = Scripted(server_discover=discovery(instructions="Ask.", _meta=meta))
        agreement = await negotiate(server)
        assert agreement.revision is NEWEST
        assert agreement.server == Implementation("s", "2")
        assert agreement.instructions == "Ask."
        assert agreement.capabilities.tools is not None
        assert server.methods == ["server/discover"]

    async def test_the_probe_carries_revision_client_and_capabilities(self):
        server = modern()
        await negotiate(server)
        assert server.asked[0]["params"]["_meta"] == {
            PREFIX + "protocolVersion": NEWEST.name,
            PREFIX + "clientInfo": {"name": "tester", "version": "1"},
            PREFIX + "clientCapabilities": {},
        }

    async def test_a_server_need_not_say_who_it_is(self):
        assert (await negotiate(modern())).server is None

    async def test_a_modern_refusal_is_followed_by_what_it_names(self):
        refusal = Error(-32022, "Unsupported", {"supported": list(HANDSHAKE), "requested": NEWEST.name})
        server = Scripted(server_discover=refusal, initialize=welcome())
        assert (await negotiate(server)).revision is NEWEST_HANDSHAKE
        assert server.asked[1]["params"]["protocolVersion"] == NEWEST_HANDSHAKE.name

    async def test_the_newest_that_both_speak_is_chosen_in_whatever_order_they_are_named(self):
        names = ["1900-01-01", HANDSHAKE[0], HANDSHAKE[2], HANDSHAKE[1]]
        refusal = Error(-32022, "Unsupported", {"supported": names, "requested": NEWEST.name})
        server = Scripted(server_discover=refusal, initialize=welcome(protocolVersion=HANDSHAKE[2]))
        assert (await negotiate(server)).revision.name == HANDSHAKE[2]

    @pytest.mark.parametrize("data", [None, {}, {"supported": "x"}, {"supported": ["1900-01-01"]}])
    async def test_a_modern_refusal_that_names_nothing_we_speak_is_final(self, data: Any):
        server = Scripted(server_discover=Error(-32022, "Unsupported", data), initialize=welcome())
        with pytest.raises(RemoteError, match="Unsupported"):
            await negotiate(server)
        assert server.methods == ["server/discover"]

    async def test_a_server_that_speaks_only_what_we_do_not_gets_the_handshake_too(self):
        server = Scripted(server_discover=discovery(supportedVersions=["2999-01-01"]), initialize=welcome())
        assert (await negotiate(server)).revision is NEWEST_HANDSHAKE

    async def test_pinned_to_the_envelope_era_an_answer_that_does_not_fit_is_final(self):
        for answer in (
            discovery(supportedVersions=["2999-01-01"]),
            discovery(resultType="mystery"),
            {"resultType": "input_required", "inputRequests": {}},
            {"capabilities": 5},
            [],
        ):
            async with contact(Scripted(server_discover=answer)) as made:
                with pytest.raises(InvalidAnswer):
                    await made.discover(NEWEST)


class TestHandshake:
    @pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, 0, -32002])
    async def test_any_other_error_means_the_handshake(self, code: int):
        server = Scripted(server_discover=Error(code), initialize=welcome(instructions="Ask."))
        agreement = await negotiate(server)
        assert agreement.revision is NEWEST_HANDSHAKE
        assert agreement.server == Implementation("scripted", "1")
        assert agreement.instructions == "Ask."
        assert server.methods == ["server/discover", "initialize", "notifications/initialized"]

    @pytest.mark.parametrize("answer", [{}, None, 5, {"supportedVersions": "x"}, {"tools": []}])
    async def test_an_answer_that_is_no_discovery_means_the_handshake(self, answer: Any):
        assert (await negotiate(Scripted(server_discover=answer, initialize=welcome()))).revision is NEWEST_HANDSHAKE

    async def test_a_discovery_with_an_unreadable_server_name_means_the_handshake(self):
        answer = discovery(_meta={PREFIX + "serverInfo": {"name": "only"}})
        assert (await negotiate(Scripted(server_discover=answer, initialize=welcome()))).revision is NEWEST_HANDSHAKE

    async def test_silence_means_the_handshake(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=welcome())
        negotiating = asyncio.create_task(negotiate(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS - 1)
        assert server.methods == ["server/discover"]
        await clock.advance(2)
        assert (await negotiating).revision is NEWEST_HANDSHAKE

    async def test_the_probe_has_no_more_time_than_the_client_gives(self):
        clock = Clock()
        negotiating = asyncio.create_task(negotiate(Scripted(server_discover=SILENCE, initialize=welcome()), 0.5))
        await clock.advance(0)
        await clock.advance(0.6)
        assert (await negotiating).revision is NEWEST_HANDSHAKE

    async def test_a_server_that_is_only_slow_may_still_answer_the_probe(self):
        clock = Clock()
        go = asyncio.Event()

        async def late(message: dict[str, Any]) -> Any:
            await go.wait()
            return discovery()

        server = Scripted(server_discover=late, initialize=Error(-32601))
        negotiating = asyncio.create_task(negotiate(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS + 1)
        go.set()
        assert (await negotiating).revision is NEWEST

    async def test_a_refusal_of_the_handshake_is_final_when_the_probe_stays_unanswered(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=Error(-32000, "not today"))
        negotiating = asyncio.create_task(negotiate(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS + 1)
        with pytest.raises(RemoteError, match="not today"):
            await negotiating

    async def test_a_server_that_never_answers_is_a_timeout(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=SILENCE)
        negotiating = asyncio.create_task(negotiate(server, 3))
        await clock.advance(0)
        await clock.advance(3.1)
        await clock.advance(3.1)
        with pytest.raises(Timeout, match="No answer to initialize within 3 s"):
            await negotiating
        assert "notifications/cancelled" not in server.methods

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_the_revision_that_the_server_chooses_is_agreed_on(self, name: str):
        async with contact(legacy()) as made:
            agreement = await made.initialize(REVISIONS[name])
            assert agreement.revision is NEWEST_HANDSHAKE

    async def test_the_revision_holds_before_the_server_hears_that_it_may_speak(self):
        told: list[list[Revision]] = []
        server = Scripted(initialize=welcome(protocolVersion=HANDSHAKE[1]))
        async with contact(server) as made:
            notify = made.connection.notify

            def spy(method: str, params: dict[str, Any] | None = None) -> None:
                told.append(list(made.revisions))
                notify(method, params)

            made.connection.notify = spy
            await made.initialize(NEWEST_HANDSHAKE)
        assert told == [[REVISIONS[HANDSHAKE[1]]]]

    @pytest.mark.parametrize("offered", ["1900-01-01", NEWEST.name])
    async def test_a_revision_that_we_do_not_speak_is_refused(self, offered: str):
        async with contact(Scripted(initialize=welcome(protocolVersion=offered))) as made:
            with pytest.raises(InvalidAnswer, match=f"The server offers revision '{offered}'; we speak"):
                await made.initialize(NEWEST_HANDSHAKE)

    @pytest.mark.parametrize("answer", [None, {}, {"protocolVersion": 5}, welcome(serverInfo={"name": "x"})])
    async def test_an_answer_that_does_not_fit_is_an_invalid_answer(self, answer: Any):
        async with contact(Scripted(initialize=answer)) as made:
            with pytest.raises(InvalidAnswer, match="Invalid result of initialize"):
                await made.initialize(NEWEST_HANDSHAKE)

    async def test_a_server_that_goes_meanwhile_is_a_lost_connection(self):
        server = Scripted(server_discover=SILENCE)
        async with contact(server) as made:
            negotiating = asyncio.create_task(made.negotiate())
            await until(lambda: server.asked)
            await server.peer.channel.close()
            with pytest.raises(ConnectionLost):
                await negotiating
            server.peer.disconnected(None)
