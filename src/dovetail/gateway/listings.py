"""Listings: what the servers of one view offer to each client, asked within bounds and kept until something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dovetail.server.session import ServerCall
from dovetail.types.bounded_dict import BoundedDict

from .access_control.inbound import caller_of
from .access_control.permissions import Access
from .accounts.account_upstream import sign_in_offers
from .catalogue import Catalogue, ServerOffers
from .errors import AccountNeeded, ServerUnavailable
from .metrics import Metrics
from .servers.circuit_breaker import State
from .servers.clients import DeclaredCapabilities, owner_of
from .servers.context import Generation

if TYPE_CHECKING:
    from .access_control.quarantine import Held
    from .servers.connection import Offers
    from .servers.lost_subscriptions import RemovedServers
    from .servers.upstream import Upstream

WARM_SECONDS = 60.0
FAILED_SECONDS = 0.5
"""Seconds for which a listing is used again if nothing has changed; the second where a server is missing from it."""

LATE_SECONDS = 0.1
"""Seconds that a list waits for a server that an earlier one has waited for in vain, or that is known to fail."""

MAX_LISTINGS = 10_000
"""Clients whose listings are kept."""

MAX_LISTINGS_EACH = 16
"""Listings of one client, for the capabilities and credentials with which it comes."""


class Listing(NamedTuple):
    """The offers of a view to one client: the catalogue, and the servers whose part is missing or old, with reasons."""

    catalogue: Catalogue
    missing: Mapping[str, dict[str, Any]]
    generation: int
    expires: float
    accounts: Mapping[str, AccountNeeded]
    """The servers at which the user has to log in before they offer anything."""
    retries: Mapping[str, float]
    """When servers that are missing are tried again, by the clock of the event loop, where that is known."""
    held: Mapping[str, Sequence[Held]]
    """The definitions that are held back, by server."""
    held_servers: Mapping[str, str]
    """The servers that are held back as a whole, and why."""
    unasked: bool
    """True if a server that may work was never asked, so that it may offer what none of the others does, and also what
    one of them does."""
    borrowed: frozenset[str] = frozenset()
    """The servers whose part is what they offer to others, and does not count for a request that concerns them."""

    def counts_for(self, concerns: Callable[[str], bool] | None) -> bool:
        """True if it can be used again for a request that concerns some servers, or all of them."""
        return not self.borrowed or (concerns is not None and not any(concerns(key) for key in self.borrowed))

    def reason_held(self, server: str, uri: str) -> str | None:
        """The reason why a resource, or a template, of a server is held back; None if it is not."""
        if server in self.held_servers:
            return self.held_servers[server]
        for one in self.held.get(server, ()):
            if one.has_uri(uri) and not self.catalogue.has_uri(server, uri):
                return one.reason
        return None

    def shown_uri(self, server: str, uri: str) -> str:
        """The URI by which clients reach a resource of a server; one that names it while others may have it too."""
        return self.catalogue.unique_uri(server, uri) if self.unasked else self.catalogue.shown_uri(server, uri)

    def unavailable(self, server: str) -> ServerUnavailable:
        """The error for a request to a server that is missing."""
        if (account := self.accounts.get(server)) is not None:
            return account
        at = self.retries.get(server)
        retry_in = None if at is None else at - asyncio.get_running_loop().time()
        return ServerUnavailable(server, self.missing[server]["reason"], retry_in)


class _Part(NamedTuple):
    """The part of one server in a listing: its offers, or why they are missing."""

    offers: Offers | None
    problem: dict[str, Any] | None = None
    account: AccountNeeded | None = None
    retry_at: float | None = None
    unasked: bool = False
    borrowed: bool = False


class SharedParts(NamedTuple):
    """The parts that all views of a gateway share."""

    upstreams: Mapping[str, Upstream]
    metrics: Metrics
    access: Access
    generation: Generation
    declared: DeclaredCapabilities
    removed: RemovedServers


class Listings:
    """The listings of one view."""

    def __init__(self, shared: SharedParts, on_catalogue: Callable[[Catalogue], None], *, prefixed: bool) -> None:
        """`on_catalogue` is called with each new catalogue."""
        self._access = shared.access
        self._generation = shared.generation
        self._declared = shared.declared
        self._on_catalogue = on_catalogue
        self._prefixed = prefixed
        self._kept: BoundedDict[Hashable, BoundedDict[tuple[Any, ...], Listing]] = BoundedDict(MAX_LISTINGS)
        """By client, or None for those that share the connections to all servers."""
        self._catalogues: BoundedDict[tuple[tuple[str, int], ...], Catalogue] = BoundedDict(64)

    async def listing(
        self, call: ServerCall, upstreams: Mapping[str, Upstream], concerns: Callable[[str], bool] | None
    ) -> Listing:
        """The offers of the servers to the client of a call, within the time that each may take for it.

        With `concerns`, only servers for which it is true are waited for: a late one delays no request to another.
        """
        stateful = any(one.is_stateful for one in upstreams.values())
        per_caller = any(one.per_caller for one in upstreams.values())
        owner = owner_of(call) if stateful else None
        key = self._declared.of(call.terms.capabilities).key, _caller_key(call) if per_caller else None
        kept = self._kept.get(owner)
        now, known = asyncio.get_running_loop().time(), None if kept is None else kept.get(key)
        is_current = known is not None and known.generation == self._generation.number and now < known.expires
        if known is not None and is_current and known.counts_for(concerns):
            return known
        generation = self._generation.number  # before it is asked: what changes meanwhile is not in the answers
        waits = [concerns is None or concerns(key) for key in upstreams]
        asked = await asyncio.gather(
            *(
                self._offers(one, call, wait, is_list=concerns is None)
                for one, wait in zip(upstreams.values(), waits, strict=True)
            )
        )
        found = dict(zip(upstreams, asked, strict=True))
        parts = [ServerOffers(key, part.offers) for key, part in found.items() if part.offers]
        missing = {key: part.problem for key, part in found.items() if part.problem}
        accounts = {key: part.account for key, part in found.items() if part.account}
        retries = {key: part.retry_at for key, part in found.items() if part.retry_at is not None}
        held: Mapping[str, Sequence[Held]] = {}
        held_servers: Mapping[str, str] = {}
        if self._access.quarantine is not None:
            parts, held, held_servers = await self._access.quarantine.passed(parts)
        parts += [ServerOffers(key, sign_in_offers(key)) for key in accounts]
        expires = asyncio.get_running_loop().time() + (FAILED_SECONDS if missing else WARM_SECONDS)
        listing = Listing(
            self._catalogue(parts),
            missing,
            generation,
            expires,
            accounts,
            retries,
            held,
            held_servers,
            unasked=any(part.unasked for part in found.values()),
            borrowed=frozenset(key for key, part in found.items() if part.borrowed),
        )
        if concerns is None or not missing:
            kept = self._kept.get_and_refresh(owner)
            if kept is None:
                kept = self._kept[owner] = BoundedDict(MAX_LISTINGS if owner is None else MAX_LISTINGS_EACH)
            kept.set_and_refresh(key, listing)
        return listing

    def forget(self, owner: Hashable) -> None:
        """A client has gone."""
        self._kept.pop(owner, None)

    async def _offers(self, upstream: Upstream, call: ServerCall, wait: bool, *, is_list: bool) -> _Part:
        retry_at = None
        try:
            upstream = upstream.of(call)
            if not wait:
                known = upstream.known(call)
                if known is not None:
                    return _Part(known, borrowed=not upstream.has_own_offers(call))
                unasked = upstream.failed_at is None and not upstream.is_late
                return _Part(None, {"status": "unavailable", "reason": "it was not asked"}, unasked=unasked)
            # A request to a server that fails waits for an attempt to connect, as it may work again; a list does not.
            is_late = upstream.is_late if upstream.failed_at is None else is_list
            async with asyncio.timeout(LATE_SECONDS if is_late else upstream.settings.list_seconds):
                return _Part(await upstream.offers(call))
        except TimeoutError:
            upstream.await_lists(call)
            late = (
                f"it has not answered within {upstream.settings.list_seconds:g} s (listSeconds); perhaps it is starting"
            )
            problem = upstream.breaker.reason or late
        except AccountNeeded as needed:
            return _Part(None, {"status": "waiting for your account", "reason": needed.reason}, needed)
        except ServerUnavailable as unavailable:
            problem, retry_at = unavailable.reason, _retry_at(upstream, unavailable)
        kept = upstream.kept_offers(call)
        status = "unavailable" if kept is None else "unavailable; listed as before"
        return _Part(kept, {"status": status, "reason": problem}, retry_at=retry_at)

    def _catalogue(self, parts: list[ServerOffers]) -> Catalogue:
        key = tuple((part.server, part.offers.version) for part in parts)
        found = self._catalogues.get_and_refresh(key)
        if found is None:
            found = self._catalogues[key] = Catalogue(parts, prefixed=self._prefixed)
            self._on_catalogue(found)
        return found


def _retry_at(upstream: Upstream, unavailable: ServerUnavailable) -> float | None:
    """When a server is tried again, by the clock of the event loop, if that is known."""
    now, retry_in = asyncio.get_running_loop().time(), unavailable.retry_in
    if retry_in is None and upstream.failed_at is not None and upstream.breaker.state is State.OPEN:
        # This very request has found that it fails, and its error does not say how long the pause is.
        retry_in = upstream.breaker.pause(now)
    return None if retry_in is None else now + retry_in


def _caller_key(call: ServerCall) -> Hashable:
    """Equal for requests that see the same offers of a server with credentials for each caller.

    A local client, and a request whose caller is not known, both have none, and do not see the same.
    """
    caller = caller_of(call)
    if caller is not None:
        return caller.key
    return "local" if call.terms.principal is None and call.client_key is None else None
