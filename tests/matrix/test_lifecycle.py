"""First contact on every revision and transport: negotiation, terms, capabilities, both eras at once."""

from typing import Any

import pytest

from dovetail import Client, ConnectionLost, Implementation, LocalError, RemoteError
from dovetail.protocol.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, VERSION
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from tests.matrix.connections import (
    Setting,
    Transport,
    by_probing,
    connected,
    era,
    on_a_connection,
    on_envelope,
    on_handshake,
    target,
    wired,
)
from tests.matrix.everything import EXPERIMENTAL, ICON, NOTES
from tests.support.oracle import Oracle

NEWEST_FIRST = list(reversed(REVISIONS))


async def test_client_and_server_agree_on_the_revision_that_was_pinned(client: Client, revision: str) -> None:
    assert client.revision == revision
    assert (await client.call("who")).data["revision"] == revision


async def test_the_server_says_who_it_is_as_far_as_the_revision_knows(client: Client, revision: str) -> None:
    assert client.server is not None
    expected = Implementation("everything", "1.2.3")
    if revision >= "2025-06-18":
        expected.title = "Everything"
    if revision >= "2025-11-25":
        expected.description, expected.website_url = "Has one of each.", "https://example.com"
        expected.icons = [ICON]
    assert client.server == expected
    assert client.instructions == "Use what you need."


async def test_the_client_says_who_it_is_as_far_as_the_revision_knows(transport: Transport, revision: str) -> None:
    info = Implementation("me", "1", title="Me", description="It is I", icons=[ICON])
    async with connected(target(transport), revision, info=info) as (_, oracle, _notes):
        first = oracle.sent_by("client")[0].params
        said = first["clientInfo"] if era(revision) == "handshake" else first["_meta"][CLIENT_INFO]
        assert ("title" in said) == (revision >= "2025-06-18")
        assert ("icons" in said) == ("description" in said) == (revision >= "2025-11-25")


async def test_the_handler_knows_who_asks(client: Client) -> None:
    known = (await client.call("who", meta={"com.example/trace": "t1"})).data
    assert known["client"] == "dovetail"
    assert known["meta"]["com.example/trace"] == "t1"
    assert known["lifespan"] == "alive for everything"


async def test_extensions_and_experimental_features_are_declared_on_every_revision(client: Client) -> None:
    assert client.capabilities.extensions == {NOTES: {"limit": 10}}
    assert client.capabilities.experimental == EXPERIMENTAL
    known = (await client.call("who")).data
    assert known["extensions"][NOTES] == {}
    assert known["experimental"] == {"com.example/pen": {}}


async def test_capabilities_are_exactly_what_is_there(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, oracle, _):
        first = oracle.sent_by("client", "initialize") + oracle.sent_by("client", "server/discover")
        said = oracle.answer(first[0])["result"]["capabilities"]
        assert said == {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "extensions": {NOTES: {"limit": 10}},
            "experimental": EXPERIMENTAL,
        }
        assert client.capabilities.completions is None


async def test_an_empty_server_advertises_nothing(transport: Transport, revision: str) -> None:
    async with connected(target(transport, empty=True), revision) as (_, oracle, _notes):
        first = oracle.sent_by("client", "initialize") + oracle.sent_by("client", "server/discover")
        assert oracle.answer(first[0])["result"]["capabilities"] == {}


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
async def test_an_empty_server_has_empty_lists(transport: Transport, revision: str, method: str) -> None:
    async with connected(target(transport, empty=True), revision) as (client, _, _notes):
        result = await client.request(method)
        [items] = [value for value in result.values() if isinstance(value, list)]
        assert items == []


@on_handshake
async def test_the_handshake_agrees_on_a_known_version(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision, greet=False) as (wire, _):
        answer = await wire.shake_hands(revision)
        assert answer["protocolVersion"] == revision


@pytest.mark.parametrize("asked", ["1999-01-01", "2099-01-01", "2026-07-28", ""])
async def test_the_handshake_offers_the_newest_for_an_unknown_version(transport: Transport, asked: str) -> None:
    """2026-07-28 has no handshake, so asking for it that way is asking for an unknown version."""
    async with wired(target(transport), None) as (wire, _):
        answer = await wire.shake_hands(asked)
        assert answer["protocolVersion"] == HANDSHAKE[-1]


@pytest.mark.parametrize("revision", HANDSHAKE[:-1])
async def test_a_server_of_one_revision_offers_that_one(transport: Transport, revision: str) -> None:
    async with wired(target(transport, revisions=[revision]), None) as (wire, _):
        answer = await wire.shake_hands(HANDSHAKE[-1])
        assert answer["protocolVersion"] == revision


@on_handshake
@on_a_connection
async def test_before_the_handshake_only_a_ping_is_answered(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision, greet=False) as (wire, _):
        assert (await wire.ask("ping"))["result"] == {}
        refused = await wire.ask("tools/list")
        assert refused["error"]["code"] == -32602
        assert "before initialize" in refused["error"]["message"]
        assert (await wire.shake_hands(revision))["protocolVersion"] == revision
        assert "result" in await wire.ask("tools/list")


@on_handshake
@on_a_connection
async def test_a_second_handshake_begins_the_connection_anew(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, oracle):
        await wire.ask("resources/subscribe", uri="test://config")
        await wire.ask("logging/setLevel", level="emergency")
        again = await wire.shake_hands(HANDSHAKE[0])
        assert again["protocolVersion"] == HANDSHAKE[0]
        assert (await wire.call("who"))["result"]["content"][0]["text"].count(HANDSHAKE[0]) == 1
        assert (await wire.shake_hands(revision))["protocolVersion"] == revision
        assert (await wire.call("who"))["result"]["content"][0]["text"].count(revision) == 1
        oracle.forgive("initialize")


@on_handshake
async def test_ping_works_both_ways(client: Client, oracle: Oracle) -> None:
    await client.ping()
    assert oracle.result("ping") == {}
    assert (await client.call("ping_back")).data == {}
    [asked] = oracle.sent_by("server", "ping")
    assert oracle.answer(asked)["result"] == {}


@pytest.mark.sends_wrong("the user asks for a ping by its name")
@on_envelope
async def test_ping_is_gone_with_the_handshake(client: Client, oracle: Oracle, shared: Setting) -> None:
    await client.ping()
    assert oracle.sent_by("client", "server/discover"), "a client that wants to know whether it is there asks this"
    with pytest.raises(RemoteError) as error:
        await client.request("ping")
    assert error.value.code == -32601
    shared.forgive("must not send ping")
    with pytest.raises(Exception, match="cannot send ping"):
        await client.call("ping_back")


@on_envelope
async def test_discovery_names_every_revision_that_is_served(client: Client, oracle: Oracle) -> None:
    result = await client.request("server/discover")
    assert result["supportedVersions"] == NEWEST_FIRST
    assert result["instructions"] == "Use what you need."
    assert (result["cacheScope"], result["resultType"]) == ("public", "complete")


@on_envelope
async def test_every_request_brings_its_terms_and_every_result_says_who_answers(
    client: Client, oracle: Oracle, revision: str
) -> None:
    await client.call("add", a=1, b=2)
    await client.read("text://hello")
    await client.prompt("review", code="x")
    await client.resources()
    requests = [message for message in oracle.sent_by("client") if message.method is not None]
    assert len(requests) >= 4
    for request in requests:
        assert request.params["_meta"][VERSION] == revision
        assert NOTES in request.params["_meta"][CLIENT_CAPABILITIES]["extensions"]
        assert oracle.answer(request)["result"]["_meta"][SERVER_INFO]["name"] == "everything"


@on_envelope
@pytest.mark.parametrize("asked", ["1900-01-01", "2025-11-25"])
async def test_a_version_that_is_not_served_is_refused_with_those_that_are(
    transport: Transport, revision: str, asked: str
) -> None:
    async with wired(target(transport), revision) as (wire, _):
        answer = await wire.ask("tools/list", _meta={VERSION: asked})
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": NEWEST_FIRST, "requested": asked}
        assert "result" in await wire.ask("tools/list")


@on_envelope
@pytest.mark.parametrize(
    ("meta", "names"),
    [
        ({VERSION: 5}, VERSION),
        ({CLIENT_CAPABILITIES: None}, CLIENT_CAPABILITIES),
        ({CLIENT_CAPABILITIES: []}, "malformed"),
        ({"io.modelcontextprotocol/clientInfo": {"name": "x"}}, "version"),
        ({"io.modelcontextprotocol/logLevel": "loud"}, "loud"),
    ],
    ids=["version", "no capabilities", "capabilities", "client", "log level"],
)
async def test_malformed_terms_are_invalid_params(
    transport: Transport, revision: str, meta: dict[str, Any], names: str
) -> None:
    async with wired(target(transport), revision) as (wire, _):
        answer = await wire.ask("tools/list", _meta=meta)
        assert answer["error"]["code"] == -32602
        assert names in answer["error"]["message"]


@on_envelope
async def test_a_request_without_terms_is_invalid_params(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send({"jsonrpc": "2.0", "id": "bare", "method": "tools/list"})
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == ("bare", -32602)


@on_envelope
async def test_terms_of_one_request_do_not_carry_over_to_the_next(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        declared = {CLIENT_CAPABILITIES: {"extensions": {NOTES: {}}}}
        assert "result" in await wire.ask("notes/add", text="one", _meta=declared)
        refused = await wire.ask("notes/add", text="two")
        assert refused["error"]["code"] == -32021


@by_probing
async def test_a_server_of_the_newest_revision_alone_tells_old_clients_what_it_speaks(
    transport: Transport,
) -> None:
    async with wired(target(transport, revisions=["2026-07-28"]), None) as (wire, _):
        answer = await wire.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "x", "version": "1"},
        )
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"]["supported"] == ["2026-07-28"]
        assert "2026-07-28" in answer["error"]["message"]


@on_handshake
async def test_both_eras_are_served_on_one_connection(transport: Transport, revision: str) -> None:
    modern = {VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
    async with wired(target(transport), revision) as (wire, _):
        for _ in range(2):
            old = await wire.ask("tools/call", name="add", arguments={"a": 1, "b": 2})
            new = await wire.ask("tools/call", name="add", arguments={"a": 1, "b": 2}, _meta=modern)
            assert "resultType" not in old["result"]
            assert (new["result"]["resultType"], new["result"]["structuredContent"]) == ("complete", 3)
            found = await wire.ask("server/discover", _meta=modern)
            assert found["result"]["supportedVersions"] == NEWEST_FIRST
        lost_old = await wire.ask("resources/read", uri="no://where")
        lost_new = await wire.ask("resources/read", uri="no://where", _meta=modern)
        assert (lost_old["error"]["code"], lost_new["error"]["code"]) == (-32002, -32602)


async def test_a_modern_request_may_come_before_the_handshake(transport: Transport) -> None:
    modern = {VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
    async with wired(target(transport), None) as (wire, _):
        assert "result" in await wire.ask("tools/list", _meta=modern)
        assert (await wire.shake_hands("2025-06-18"))["protocolVersion"] == "2025-06-18"
        assert "result" in await wire.ask("tools/list")


async def test_a_client_cannot_pin_a_revision_that_the_server_does_not_speak(
    transport: Transport, revision: str
) -> None:
    others = [name for name in REVISIONS if name != revision and era(name) == era(revision)] or ["2025-11-25"]
    with pytest.raises((ConnectionLost, RemoteError), match=others[-1]):
        async with connected(target(transport, revisions=others), revision):
            pass


def test_a_client_cannot_pin_a_revision_that_does_not_exist() -> None:
    with pytest.raises(LocalError, match="2026-07-28"):
        Client("python server.py", revision="2031-01-01")
