"""Update filter: which sessions may hear that a resource has changed.

A session may be subscribed to what contains a resource that the rules keep from its principal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .inbound import Caller, caller_named
from .permissions import Access, Subject

if TYPE_CHECKING:
    from dovetail.server.session import Session


class UpdateFilter:
    """Applies the rules to updates, with the groups of the token that a session was last used with for them."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._groups: WeakKeyDictionary[Session, frozenset[str]] = WeakKeyDictionary()
        self._servers: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()

    def note_caller(self, session: Session) -> None:
        """Take note of the caller whose request is served now: it opens the stream of a session, or subscribes."""
        if (caller := caller_named(session.principal)) is not None:
            self._groups[session] = caller.groups

    def note_subscription(self, session: Session, server: str) -> None:
        """Take note that a session subscribes to a resource of a server."""
        self.note_caller(session)
        self._servers.setdefault(session, set()).add(server)

    def servers_of(self, session: Session) -> set[str]:
        """The servers that a session has subscribed at; none if it did so at another replica."""
        return self._servers.get(session, set())

    def allows(self, session: Session, sources: Sequence[Subject]) -> bool:
        """True if a session may hear of a resource, which is that of one of these servers."""
        policy, groups = self._access.policy, self._groups.get(session)
        if policy is None:
            return True
        if groups is None and session.principal is not None and policy.looks_at_groups:
            return False
        caller = None if session.principal is None else Caller(session.principal, groups or frozenset())
        # It cannot be subscribed at a server all of whose resources are kept from it.
        possible = [one for one in sources if not self._access.hides_from(caller, one._replace(name=""))]
        return bool(possible) and not any(self._access.hides_from(caller, one) for one in possible)
