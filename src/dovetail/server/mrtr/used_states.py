"""Used states: each sealed request state is accepted once (2026-07-28 mrtr, "Server Requirements").

One process remembers them in memory. Processes that share a store share them there, and so do workers without a store,
in a file of their own. Memory does not survive a restart: without a store that does, a state that was sealed before
this process started may have been used already, so that it is refused.
"""

from __future__ import annotations

from dovetail.protocol.mrtr import CallState
from dovetail.protocol.seal import invalid_state
from dovetail.storage.contract import Entries
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.fair_bounded_dict import FairBoundedDict

MAX_USED = 100_000
"""Used states remembered in memory. Above it the client with the most forgets its oldest, and its states as old as
those are refused."""

MAX_FORGETTING = 10_000
"""Clients whose forgotten states are told apart; above it, states of all clients as old as those are refused."""

STATES_NOT_SHARED = (
    "This server was given sealing keys but no store: each process accepts the state of a call once, so that a client "
    "which sends it to several processes makes steps run more than once, and states from before a restart are refused. "
    "Pass a store that all processes share"
)


class UsedStates:
    """The states that were used, by the client that they were sealed for."""

    def __init__(self, seconds: float, started: float, max_used: int = MAX_USED) -> None:
        """`seconds` is the time that states are valid; `started` is the time when this process started."""
        self._seconds = seconds
        self._started = started
        self._store: Entries | None = None
        self._used: FairBoundedDict[str, str, float] = FairBoundedDict(max_used)
        self._forgotten_of: BoundedDict[str, float] = BoundedDict(MAX_FORGETTING, self._forget_for_all)
        """By client: states that expire by then are refused, since it is not known any more which were used."""
        self._forgotten = 0.0
        """The same for all clients."""

    def share(self, store: Entries, *, survives_restart: bool) -> None:
        """Remember in a store, which all its processes share and which is opened for the first state."""
        self._store = store
        if survives_restart:
            self._started = 0.0

    def restarted(self, now: float) -> None:
        """Refuse states from before `now`: this process was forked from the one that created this object."""
        if self._started:
            self._started = now

    def check(self, state: CallState, now: float) -> None:
        """Raise −32602 for a state that has expired, was used, or may have been."""
        while (oldest := self._used.oldest()) is not None and oldest.value < now:
            self._used.pop(oldest.key)
        if (
            state.expires < now
            or state.expires - self._seconds < self._started
            or state.expires <= self._forgotten
            or state.expires <= self._forgotten_of.get(state.owner, 0.0)
            or state.id in self._used
        ):
            raise invalid_state()

    def claim_of(self, state: CallState) -> str:
        """The entry of a store that says that a state was used."""
        return f"state:{state.id}"

    async def mark(self, state: CallState) -> None:
        """Mark a checked state as used; −32602 if another process did so first, StoreError if the store fails."""
        if self._store is None:
            evicted = self._used.add(state.owner, state.id, state.expires)
            if evicted is not None:
                self._forget(evicted.owner, evicted.value)
            return
        # Without the store a used state cannot be told from a new one: if it fails, nothing runs.
        first = await self._store.add(self.claim_of(state), b"", self._seconds)
        if not first:
            raise invalid_state()

    def _forget(self, owner: str, until: float) -> None:
        self._forgotten_of.set_and_refresh(owner, max(until, self._forgotten_of.get(owner, 0.0)))

    def _forget_for_all(self, owner: str, until: float) -> None:
        self._forgotten = max(self._forgotten, until)
