"""Finding out what a server speaks, over every transport: the probe, the fallback, and what is remembered."""

import sys

import pytest

from dovetail import ConnectionLost, InvalidAnswer, RemoteError, Timeout
from dovetail.client import negotiation, negotiator
from dovetail.protocol.revisions import HANDSHAKE
from tests.matrix.connections import (
    SCRIPT,
    WAYS,
    Transport,
    by_probing,
    connected,
    era,
    facing,
    new_oracle,
    on_handshake,
    target,
)
from tests.support.oracle import Oracle


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    negotiation.SHARED_ERAS.clear()


def handshake_after_probing(transport: Transport) -> list[str]:
    probing = ["server/discover"] if WAYS[transport].probed else []
    return [*probing, "initialize", "notifications/initialized"]


def opening(oracle: Oracle) -> list[str | None]:
    """The first things that the client said."""
    said = [message.method for message in oracle.sent_by("client")]
    return said[: said.index("tools/list")] if "tools/list" in said else said


@by_probing
async def test_a_dual_era_server_is_spoken_to_in_the_newest_revision(transport: Transport) -> None:
    async with connected(target(transport), None) as (client, oracle, _):
        await client.tools()
        assert client.revision == "2026-07-28"
        assert opening(oracle) == ["server/discover"]


@on_handshake
async def test_a_server_of_the_handshake_era_is_found_by_its_refusal(transport: Transport, revision: str) -> None:
    where = target(transport, revisions=[revision])
    async with connected(where, None) as (client, oracle, _):
        await client.tools()
        assert client.revision == revision
        assert opening(oracle) == handshake_after_probing(transport)


@pytest.mark.parametrize(
    ("name", "revision"),
    [("method_not_found", "2025-06-18"), ("not_initialized", "2024-11-05"), ("silent", "2025-11-25")],
)
async def test_any_other_answer_and_silence_lead_to_the_handshake(
    transport: Transport, name: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiator, "PROBE_SECONDS", 0.5)
    async with facing(name, transport) as (client, oracle):
        assert client.revision == revision
        assert await client.tools() == []
    assert opening(oracle) == handshake_after_probing(transport)


@by_probing
async def test_a_server_that_the_probe_ends_is_started_again(transport: Transport) -> None:
    """Only a command can be started again; elsewhere the end of the server is what the caller hears of."""
    if not WAYS[transport].restartable:
        with pytest.raises(ConnectionLost):
            async with facing("exits", transport):
                pass
        return
    async with facing("exits", transport) as (client, oracle):
        assert client.revision == "2025-03-26"
        oracle.forgive("was used before")  # by the first process; the second one counts anew


@by_probing
async def test_a_revision_yet_to_come_is_passed_over(transport: Transport) -> None:
    async with facing("newer", transport) as (client, _):
        assert client.revision == "2026-07-28"
        assert await client.tools() == []


async def test_a_server_without_a_common_revision_is_refused_with_its_own_words(transport: Transport) -> None:
    with pytest.raises(RemoteError) as error:
        async with facing("much_newer", transport):
            pass
    assert (error.value.code, error.value.data["supported"]) == (-32022, ["2031-01-01"])


async def test_a_handshake_that_offers_an_unknown_revision_is_refused(transport: Transport) -> None:
    oracle = new_oracle(judge={"client"})
    with pytest.raises(InvalidAnswer, match="1999-12-31"):
        async with facing("from_nowhere", transport, oracle=oracle):
            pass
    assert "notifications/initialized" not in opening(oracle)


@on_handshake
async def test_an_initialize_that_times_out_is_never_cancelled(transport: Transport, revision: str) -> None:
    oracle = new_oracle()
    with pytest.raises(Timeout, match="initialize"):
        async with facing("never_answers", transport, revision, oracle, timeout=0.3):
            pass
    assert [message.method for message in oracle.messages] == ["initialize"]


async def test_a_batch_from_a_server_is_read(transport: Transport) -> None:
    async with facing("batching", transport, "2025-03-26") as (client, oracle):
        assert await client.tools() == []
    assert len(oracle.sent_by("server", "notifications/tools/list_changed")) == 2


@pytest.mark.parametrize("served", ["2025-06-18", "2026-07-28"])
async def test_the_era_of_a_command_is_remembered(served: str) -> None:
    """Only commands are: a server object is a new one each time, and the probe of it costs nothing."""
    where = target("stdio", revisions=[served])
    expected = ["server/discover"] if era(served) == "envelope" else ["initialize", "notifications/initialized"]
    async with connected(where, None) as (client, _, _notes):
        await client.tools()
    async with connected(where, None) as (client, oracle, _notes):
        await client.tools()
        assert opening(oracle) == expected
        assert client.revision == served


@pytest.mark.parametrize(("before", "after"), [("2025-06-18", "2026-07-28"), ("2026-07-28", "2025-06-18")])
async def test_a_command_that_changed_its_era_is_probed_anew(before: str, after: str) -> None:
    where = [sys.executable, SCRIPT]
    for served in (before, after, after):
        async with connected(where, None, env={"EVERYTHING_REVISIONS": served}) as (client, _, _notes):
            assert client.revision == served


async def test_a_pinned_revision_needs_no_probe(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, oracle, _):
        await client.tools()
        assert client.revision == revision
        handshake = ["initialize", "notifications/initialized"]
        assert opening(oracle) == (handshake if revision in HANDSHAKE else ["server/discover"])
