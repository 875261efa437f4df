"""Used states: each is accepted once, and one client's states do not push out another's."""

from __future__ import annotations

import pytest

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.mrtr import CallState
from dovetail.server.mrtr import used_states as module
from dovetail.server.mrtr.used_states import UsedStates
from dovetail.storage import MemoryStore, StoreError

SECONDS = 600
STARTED = 1000.0


def state(id: str, owner: str = "ann", sealed: float = STARTED) -> CallState:
    return CallState(id, sealed + SECONDS, 1, {}, {}, owner)


async def use(used: UsedStates, one: CallState, now: float | None = None) -> bool:
    """True if the state was accepted."""
    try:
        used.check(one, one.expires - SECONDS if now is None else now)
        await used.mark(one)
    except ProtocolError as refusal:
        return refusal.code != INVALID_PARAMS
    return True


async def test_a_state_is_accepted_once() -> None:
    used = UsedStates(SECONDS, STARTED)
    assert [await use(used, state("a")) for _ in range(3)] == [True, False, False]


async def test_an_expired_state_is_refused_and_forgotten() -> None:
    used = UsedStates(SECONDS, STARTED, max_used=1)
    assert await use(used, state("a"))
    later = STARTED + SECONDS + 1
    assert not await use(used, state("a"), later)
    assert await use(used, state("b", "bob", sealed=later), later)
    assert await use(used, state("c", sealed=STARTED + 10), STARTED + 10)  # nothing of ann's had to be forgotten


@pytest.mark.attack("L1")
async def test_the_states_of_one_client_do_not_push_out_those_of_another() -> None:
    used = UsedStates(SECONDS, STARTED, max_used=100)
    open_question = state("open question", sealed=STARTED + 1)
    used_before = state("used before", sealed=STARTED + 1)
    assert await use(used, used_before)
    for n in range(1000):
        assert await use(used, state(f"bob {n}", "bob", sealed=STARTED + 2 + n / 1000))
    assert not await use(used, state("bob 0", "bob", sealed=STARTED + 2))  # forgotten, so refused
    assert not await use(used, used_before)
    assert await use(used, open_question)


async def test_above_a_bound_of_forgetful_clients_old_states_of_all_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FORGETTING", 2)
    used = UsedStates(SECONDS, STARTED, max_used=1)
    for n, owner in enumerate("abcd"):
        assert await use(used, state(owner, owner, sealed=STARTED + n))
    for n, owner in enumerate("abcd"):
        assert not await use(used, state(owner, owner, sealed=STARTED + n))
    assert not await use(used, state("e", "e", sealed=STARTED))
    assert await use(used, state("e", "e", sealed=STARTED + 5))


@pytest.mark.attack("H2")
async def test_a_state_from_before_the_start_is_refused_unless_a_store_remembers_it() -> None:
    earlier = state("earlier", sealed=STARTED - 1)
    used = UsedStates(SECONDS, STARTED)
    assert not await use(used, earlier, STARTED + 1)
    assert await use(used, state("now"))
    store = MemoryStore()
    used.share(store, survives_restart=False)
    assert not await use(used, earlier, STARTED + 1)
    used.share(store, survives_restart=True)
    assert [await use(used, earlier, STARTED + 1) for _ in range(2)] == [True, False]


@pytest.mark.attack("H2")
async def test_a_forked_process_refuses_states_from_before_the_fork() -> None:
    used = UsedStates(SECONDS, STARTED)
    used.restarted(STARTED + 100)
    assert not await use(used, state("a", sealed=STARTED + 99), STARTED + 101)
    assert await use(used, state("a", sealed=STARTED + 101), STARTED + 101)


@pytest.mark.attack("H2")
async def test_processes_with_one_store_accept_a_state_once_in_all() -> None:
    store = MemoryStore()
    both = [UsedStates(SECONDS, STARTED) for _ in range(2)]
    for used in both:
        used.share(store, survives_restart=True)
    assert [await use(used, state("a")) for used in both] == [True, False]


@pytest.mark.attack("L12")
async def test_a_store_that_fails_accepts_nothing() -> None:
    class Failing(MemoryStore):
        async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
            raise StoreError("database or disk is full")

    used = UsedStates(SECONDS, STARTED)
    used.share(Failing(), survives_restart=True)
    with pytest.raises(StoreError, match="database or disk is full"):
        await used.mark(state("a"))
