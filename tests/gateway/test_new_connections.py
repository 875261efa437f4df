"""New connections: what is reviewed, listed and used is what each of them offers, and not what another one did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Audit, Client, Gateway, Policy, RemoteError, Rule
from dovetail.gateway.access_control.quarantine import digest_of
from dovetail.policy import read_records
from tests.gateway.served import served, tokens
from tests.gateway.test_access import ERAS, EVERYTHING, lock, names

PROGRAM = str(Path(__file__).parent / "programs" / "described_server.py")

LITTLE, EVERYTHING_OF_IT = "Pay somebody a little.", "Pay somebody everything."

ALL = {"files__pay", "files__hold"}


class Described:
    """A server over stdio whose tool is described by a file, as that is when a process is started."""

    def __init__(self, folder: Path) -> None:
        self._text = folder / "text"
        self.command = [sys.executable, PROGRAM, str(self._text)]
        self.lockfile = folder / "mcp.lock"
        self.describe(LITTLE)

    def describe(self, text: str) -> None:
        """Describe the tool otherwise, in processes that are started from now on."""
        self._text.write_text(text)


@pytest.fixture
def described(tmp_path: Path) -> Described:
    return Described(tmp_path)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_changed_definition_is_held_back_from_a_session_with_a_process_of_its_own(
    revision: str, described: Described, tmp_path: Path
) -> None:
    await lock(described.lockfile, described.command)
    audit = Audit(tmp_path / "audit.jsonl", folder=tmp_path)
    gateway = Gateway(
        {"files": described.command}, auth=tokens(ann=[], eve=[], bob=[]), lockfile=described.lockfile, audit=audit
    )
    async with served(gateway) as at, at.client("ann", revision=revision) as ann:
        assert await names(ann) == ALL
        assert (await ann.call("files__pay")).text == LITTLE
        described.describe(EVERYTHING_OF_IT)
        async with at.client("eve", revision=revision) as eve, at.client("bob", revision=revision) as bob:
            assert await names(eve) == {"files__hold"}
            held = gateway.status["servers"]["files"]["quarantined"]
            assert [(one["kind"], one["name"]) for one in held] == [("tool", "pay")]
            for client in (eve, eve, bob):  # of whom one has listed nothing
                with pytest.raises(RemoteError, match=r"held back: it differs from mcp\.lock"):
                    await client.call("files__pay")
        # Her process is the one from before.
        assert (await ann.call("files__pay")).text == LITTLE
        assert await names(ann) == ALL
    await gateway.close()
    events = [(one.event, one.name) for one in read_records(audit.path) if one.event in ("call", "refusal")]
    assert events == [("call", "pay"), *[("refusal", "pay")] * 3, ("call", "pay")]


@pytest.mark.parametrize("revision", ERAS)
async def test_what_another_server_was_used_for_first_makes_no_difference(revision: str, described: Described) -> None:
    """A request to one server waits for no other, whose part was then that of another session, and was kept."""
    servers = {"files": described.command, "more": described.command}
    await lock(described.lockfile, described.command)
    gateway = Gateway(servers, auth=tokens(ann=[], eve=[]), lockfile=described.lockfile)
    async with served(gateway) as at, at.client("ann", revision=revision) as ann:
        assert await names(ann) == ALL  # "more" is not in the lockfile
        described.describe(EVERYTHING_OF_IT)
        async with at.client("eve", revision=revision) as eve:
            with pytest.raises(RemoteError, match="held back"):
                await eve.call("more__pay")
            with pytest.raises(RemoteError, match="held back"):
                await eve.call("files__pay")
            assert await names(eve) == {"files__hold"}


async def test_a_call_over_a_further_connection_is_refused_if_that_offers_something_else(
    described: Described,
) -> None:
    """A call that waits for its client has a connection for itself, and the next call gets another process."""
    await lock(described.lockfile, described.command)
    told: list[str] = []
    client: Client

    async def answer(question: Any) -> dict[str, bool]:
        described.describe(EVERYTHING_OF_IT)
        with pytest.raises(RemoteError) as refused:
            await client.call("files__pay")
        told.append(str(refused.value))
        described.describe(LITTLE)
        return {"yes": True}

    gateway = Gateway({"files": described.command}, auth=tokens(ann=[]), lockfile=described.lockfile)
    async with served(gateway) as at, at.client("ann", revision="2026-07-28", on_elicit=answer) as client:
        assert await names(client) == ALL
        assert (await client.call("files__hold")).text == "held"
        (text,) = told
        assert "'pay' of the server 'files' has changed" in text
        assert (await client.call("files__pay")).text == LITTLE
    await gateway.close()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_rule_for_one_definition_is_not_for_that_of_a_new_process(revision: str, described: Described) -> None:
    async with Client(described.command, timeout=10) as direct:
        (pay,) = [tool for tool in await direct.tools() if tool.name == "pay"]
    policy = Policy([Rule("allow", tool="pay", definition=digest_of(pay))])
    gateway = Gateway({"files": described.command}, auth=tokens(ann=[], eve=[]), policy=policy)
    async with served(gateway) as at, at.client("ann", revision=revision) as ann:
        assert (await ann.call("files__pay")).text == LITTLE
        described.describe(EVERYTHING_OF_IT)
        async with at.client("eve", revision=revision) as eve:
            with pytest.raises(RemoteError, match="wants a user to approve it"):
                await eve.call("files__pay")


@pytest.mark.parametrize("revision", ERAS)
async def test_sessions_that_are_offered_the_same_share_what_is_worked_out(revision: str, described: Described) -> None:
    await lock(described.lockfile, described.command)
    gateway = Gateway({"files": described.command}, auth=tokens(ann=[], eve=[]), lockfile=described.lockfile)
    core = gateway._state.view("")
    async with (
        served(gateway) as at,
        at.client("ann", revision=revision) as ann,
        at.client("eve", revision=revision) as eve,
    ):
        for client in (ann, eve):
            await client.tools()
            await client.call("files__pay")
        before = gateway._state._generation.number
        listings = [listing for kept in core._listings._kept.values() for listing in kept.values()]
        assert len({id(one.catalogue) for one in listings}) == 1
        for client in (ann, eve, ann, eve):
            await client.tools()
            await client.call("files__pay")
        assert gateway._state._generation.number == before
    await gateway.close()


@pytest.mark.parametrize("policy", [None, Policy([EVERYTHING])])
async def test_without_rules_about_definitions_a_list_opens_no_connection_for_each_session(
    policy: Policy | None, described: Described
) -> None:
    gateway = Gateway({"files": described.command}, auth=tokens(ann=[], eve=[]), policy=policy)
    async with served(gateway) as at, at.client("ann", revision="2026-07-28") as ann:
        assert await names(ann) == ALL
        async with at.client("eve", revision="2026-07-28") as eve:
            assert await names(eve) == ALL
            assert gateway.status["servers"]["files"]["connections"] == 1
    await gateway.close()
