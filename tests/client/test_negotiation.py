"""The first contact: a probe of the envelope era first, the handshake after it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail.client import negotiation
from dovetail.client.negotiation import PROBE_SECONDS, Agreement, Negotiator
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, RemoteError, Timeout
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Connection
from dovetail.transports.memory import memory_pair
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from tests.support.clock import Clock
from tests.support.peer import Script
from tests.support.scripted import SILENCE, Error, Scripted, discovery, legacy, modern, welcome
from tests.support.waiting import until

ME = Implementation("tester", "1")
PREFIX = "io.modelcontextprotocol/"


class Contact:
    """A greeting, and what came of it besides its outcome."""

    def __init__(self, greeting: Negotiator, agreed: list[Revision], connection: Connection) -> None:
        self.greeting = greeting
        self.agreed = agreed
        self.connection = connection


@contextlib.asynccontextmanager
async def contact(server: Scripted, timeout: float | None = 30) -> AsyncIterator[Contact]:
    ours, theirs = memory_pair()
    connection = Connection(ours, Script())
    connection.open()
    serving = asyncio.create_task(server.serve(theirs))
    agreed: list[Revision] = []

    def agree(revision: Revision, server: Implementation | None) -> None:
        agreed.append(revision)

    greeting = Negotiator(connection, ME, ClientCapabilities(), timeout, agree)
    try:
        yield Contact(greeting, agreed, connection)
    finally:
        await connection.close()
        await serving


async def find_out(server: Scripted, timeout: float | None = 30) -> Agreement:
    async with contact(server, timeout) as made:
        return await made.greeting.find_out()


class TestEnvelope:
    async def test_a_server_that_answers_the_probe_is_of_the_envelope_era(self):
        meta = {PREFIX + "serverInfo": {"name": "s", "version": "2"}}
        server = Scripted(server_discover=discovery(instructions="Ask.", _meta=meta))
        agreement = await find_out(server)
        assert agreement.revision is NEWEST
        assert agreement.server == Implementation("s", "2")
        assert agreement.instructions == "Ask."
        assert agreement.capabilities.tools is not None
        assert server.methods == ["server/discover"]

    async def test_the_probe_says_which_revision_who_asks_and_what_they_can_do(self):
        server = modern()
        await find_out(server)
        assert server.asked[0]["params"]["_meta"] == {
            PREFIX + "protocolVersion": NEWEST.name,
            PREFIX + "clientInfo": {"name": "tester", "version": "1"},
            PREFIX + "clientCapabilities": {},
        }

    async def test_a_server_need_not_say_who_it_is(self):
        assert (await find_out(modern())).server is None

    async def test_a_modern_refusal_is_followed_by_what_it_names(self):
        refusal = Error(-32022, "Unsupported", {"supported": list(HANDSHAKE), "requested": NEWEST.name})
        server = Scripted(server_discover=refusal, initialize=welcome())
        assert (await find_out(server)).revision is NEWEST_HANDSHAKE
        assert server.asked[1]["params"]["protocolVersion"] == NEWEST_HANDSHAKE.name

    async def test_the_newest_that_both_speak_is_chosen_in_whatever_order_they_are_named(self):
        names = ["1900-01-01", HANDSHAKE[0], HANDSHAKE[2], HANDSHAKE[1]]
        refusal = Error(-32022, "Unsupported", {"supported": names, "requested": NEWEST.name})
        server = Scripted(server_discover=refusal, initialize=welcome(protocolVersion=HANDSHAKE[2]))
        assert (await find_out(server)).revision.name == HANDSHAKE[2]

    @pytest.mark.parametrize("data", [None, {}, {"supported": "x"}, {"supported": ["1900-01-01"]}])
    async def test_a_modern_refusal_that_names_nothing_we_speak_is_final(self, data: Any):
        server = Scripted(server_discover=Error(-32022, "Unsupported", data), initialize=welcome())
        with pytest.raises(RemoteError, match="Unsupported"):
            await find_out(server)
        assert server.methods == ["server/discover"]

    async def test_a_server_that_speaks_only_what_we_do_not_gets_the_handshake_too(self):
        server = Scripted(server_discover=discovery(supportedVersions=["2999-01-01"]), initialize=welcome())
        assert (await find_out(server)).revision is NEWEST_HANDSHAKE

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
                    await made.greeting.agree_on(NEWEST)


class TestHandshake:
    @pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, 0, -32002])
    async def test_any_other_error_means_the_handshake(self, code: int):
        server = Scripted(server_discover=Error(code), initialize=welcome(instructions="Ask."))
        agreement = await find_out(server)
        assert agreement.revision is NEWEST_HANDSHAKE
        assert agreement.server == Implementation("scripted", "1")
        assert agreement.instructions == "Ask."
        assert server.methods == ["server/discover", "initialize", "notifications/initialized"]

    @pytest.mark.parametrize("answer", [{}, None, 5, {"supportedVersions": "x"}, {"tools": []}])
    async def test_so_does_an_answer_that_is_no_discovery(self, answer: Any):
        assert (await find_out(Scripted(server_discover=answer, initialize=welcome()))).revision is NEWEST_HANDSHAKE

    async def test_so_does_a_discovery_with_an_identity_that_cannot_be_read(self):
        answer = discovery(_meta={PREFIX + "serverInfo": {"name": "only"}})
        assert (await find_out(Scripted(server_discover=answer, initialize=welcome()))).revision is NEWEST_HANDSHAKE

    async def test_so_does_silence(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=welcome())
        finding = asyncio.create_task(find_out(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS - 1)
        assert server.methods == ["server/discover"]
        await clock.advance(2)
        assert (await finding).revision is NEWEST_HANDSHAKE

    async def test_the_probe_has_no_more_time_than_the_client_gives(self):
        clock = Clock()
        finding = asyncio.create_task(find_out(Scripted(server_discover=SILENCE, initialize=welcome()), 0.5))
        await clock.advance(0)
        await clock.advance(0.6)
        assert (await finding).revision is NEWEST_HANDSHAKE

    async def test_a_server_that_is_only_slow_may_still_answer_the_probe(self):
        clock = Clock()
        go = asyncio.Event()

        async def late(message: dict[str, Any]) -> Any:
            await go.wait()
            return discovery()

        server = Scripted(server_discover=late, initialize=Error(-32601))
        finding = asyncio.create_task(find_out(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS + 1)
        go.set()
        assert (await finding).revision is NEWEST

    async def test_a_refusal_of_the_handshake_is_final_when_the_probe_stays_unanswered(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=Error(-32000, "not today"))
        finding = asyncio.create_task(find_out(server))
        await clock.advance(0)
        await clock.advance(PROBE_SECONDS + 1)
        with pytest.raises(RemoteError, match="not today"):
            await finding

    async def test_a_server_that_never_answers_is_a_timeout(self):
        clock = Clock()
        server = Scripted(server_discover=SILENCE, initialize=SILENCE)
        finding = asyncio.create_task(find_out(server, 3))
        await clock.advance(0)
        await clock.advance(3.1)
        await clock.advance(3.1)
        with pytest.raises(Timeout, match="No answer to initialize within 3 s"):
            await finding
        assert "notifications/cancelled" not in server.methods

    @pytest.mark.parametrize("name", HANDSHAKE)
    async def test_the_revision_that_the_server_chooses_is_agreed_on(self, name: str):
        async with contact(legacy()) as made:
            agreement = await made.greeting.initialize(REVISIONS[name])
            assert agreement.revision is NEWEST_HANDSHAKE

    async def test_the_revision_holds_before_the_server_hears_that_it_may_speak(self):
        told: list[list[Revision]] = []
        server = Scripted(initialize=welcome(protocolVersion=HANDSHAKE[1]))
        async with contact(server) as made:
            notify = made.connection.notify

            def spy(method: str, params: dict[str, Any] | None = None) -> None:
                told.append(list(made.agreed))
                notify(method, params)

            made.connection.notify = spy
            await made.greeting.initialize(NEWEST_HANDSHAKE)
        assert told == [[REVISIONS[HANDSHAKE[1]]]]

    @pytest.mark.parametrize("offered", ["1900-01-01", NEWEST.name])
    async def test_a_revision_that_we_do_not_speak_is_refused(self, offered: str):
        async with contact(Scripted(initialize=welcome(protocolVersion=offered))) as made:
            with pytest.raises(InvalidAnswer, match=f"The server offers revision '{offered}'; we speak"):
                await made.greeting.initialize(NEWEST_HANDSHAKE)

    @pytest.mark.parametrize("answer", [None, {}, {"protocolVersion": 5}, welcome(serverInfo={"name": "x"})])
    async def test_an_answer_that_does_not_fit_is_an_invalid_answer(self, answer: Any):
        async with contact(Scripted(initialize=answer)) as made:
            with pytest.raises(InvalidAnswer, match="Invalid result of initialize"):
                await made.greeting.initialize(NEWEST_HANDSHAKE)

    async def test_a_server_that_goes_meanwhile_is_a_lost_connection(self):
        server = Scripted(server_discover=SILENCE)
        async with contact(server) as made:
            finding = asyncio.create_task(made.greeting.find_out())
            await until(lambda: server.asked)
            await server.peer.channel.close()
            with pytest.raises(ConnectionLost):
                await finding
            server.peer.disconnected(None)


class TestRemembering:
    def agreement(self, revision: Revision) -> Agreement:
        return Agreement(revision, None, ServerCapabilities(), None)

    def test_the_era_of_a_server_is_remembered_until_it_proves_wrong(self):
        key = object()
        assert negotiation.remembered(key) is None
        negotiation.remember(key, "handshake")
        assert negotiation.remembered(key) == "handshake"
        negotiation.remember(key, "envelope")
        assert negotiation.remembered(key) == "envelope"
        negotiation.forget(key)
        assert negotiation.remembered(key) is None

    def test_a_server_without_a_name_is_not_remembered(self):
        negotiation.remember(None, "envelope")
        assert negotiation.remembered(None) is None
