"""Gateway core: a server whose tools, prompts and resources are those of other servers.

It is the `ServerCore` of one view of the gateway: all servers, one of them, or a profile. Everything that a server does
for its clients, on every revision and transport, is that of `server`; the methods here answer by asking the servers
behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dovetail.protocol.errors import (
    INVALID_REQUEST,
    ProtocolError,
    not_found_error,
)
from dovetail.protocol.names import tool_name
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind
from dovetail.server.core import PAGE_SIZE, Kind, ServerCore, Verify
from dovetail.server.replicas.session_stream import SessionStream
from dovetail.server.session import ServerCall, Session
from dovetail.server.tasks.methods import task_extension
from dovetail.types.base import SERVERS_META, PageParams
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.capabilities import Implementation, ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.prompts import ListPromptsResult
from dovetail.types.resources import ListResourcesResult, ListResourceTemplatesResult
from dovetail.types.tools import ListToolsResult
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification

from .access_control.inbound import TaskCallers
from .access_control.permissions import Subject
from .access_control.quarantine import Held, held_back
from .access_control.update_filter import UpdateFilter
from .accounts.account_upstream import CONNECT_ACCOUNT, sign_in_tool
from .catalogue import Catalogue, may_be_of, named_server, own_uri, prefixed_uri
from .errors import AccountNeeded, ServerUnavailable, ambiguous_uri, not_found_elsewhere
from .forwarded_tool import ForwardedTool
from .listings import Listing, Listings, SharedParts
from .search_mode import Listed, finder_tools, needs_search
from .servers.clients import session_owner
from .settings import Profile, SearchLimits
from .subscribed_sessions import SubscribedSessions

if TYPE_CHECKING:
    from dovetail.server.replicas.remote_calls import RemoteCalls
    from dovetail.server.replicas.replica import Replica
    from dovetail.transports.base import MessageSink

    from .home_replica import HomeReplicas
    from .servers.upstream import Upstream
    from .state import GatewayState

logger = logging.getLogger("dovetail")

MAX_PAGES = 256
"""Encoded pages of lists that are kept."""

MAX_SPECIAL_TOOLS = 10_000
"""Tools with arguments in headers, and tools that may run as tasks, that are known by name: a server may rename its
tools without end, and the oldest of these names are forgotten."""

INSTRUCTIONS_SECONDS = 3.0
"""Seconds that a first client waits for the instructions of servers that have not been connected to yet."""


class ViewSettings(NamedTuple):
    """Settings of one view."""

    instructions: str | None = None
    """Those of the gateway, before those of the servers."""
    profile: Profile | None = None
    """The choice of servers and tools; None for all."""
    search_above: SearchLimits | None = None


class GatewayCore(ServerCore):
    """One view of a gateway, as a server."""

    def __init__(
        self,
        info: Implementation,
        view: str,
        shared: SharedParts,
        settings: ViewSettings,
        *,
        public: Any,
        auth: Verify | None = None,
        state: GatewayState | None = None,
        middleware: Sequence[Any] = (),
        state_keys: Sequence[bytes] = (),
    ) -> None:
        """`view` is the name of the view, "" for all servers; only that one is given the `state`, with the others."""
        super().__init__(
            info,
            public=public,
            instructions=settings.instructions,
            lifespan=None,
            extensions=(),
            experimental=None,
            revisions=None,
            page_size=PAGE_SIZE,
            state_keys=state_keys,
            visible=None if settings.profile is None else self._shows_in_profile,
            list_ttl=0,
            completion_rate=50,
            auth=auth,
        )
        from .methods import METHODS

        self.methods = METHODS
        self.mirrored = BoundedDict(MAX_SPECIAL_TOOLS)
        self._task_tools: BoundedDict[str, ForwardedTool] = BoundedDict(MAX_SPECIAL_TOOLS)
        self.subscribed = SubscribedSessions(self._subscribe_at_server, self._note_lost)
        self.tools.get = self._task_tools.get
        # Which servers have tasks can change at any time.
        self.has_task_tools = True
        self.extensions.add(task_extension(self))
        self.view = self.task_namespace = view
        self.callers = TaskCallers()
        self.homes: HomeReplicas | None = None
        """Passes requests on to the gateways with the connections of their clients; None if there are no others."""
        self._upstreams, self.metrics, self.access, self._generation, self._declared, self._removed = shared
        self.update_filter = UpdateFilter(self.access)
        self._settings = settings
        self._prefixed = not view.startswith("server/")
        self._state = state
        if state is not None:
            self.make_application = state.make_application
        self._make_listings = functools.partial(Listings, shared, self._named, prefixed=self._prefixed)
        self._listings = self._make_listings()
        self._pages_kept: BoundedDict[tuple[Any, ...], bytes] = BoundedDict(MAX_PAGES)
        for one in middleware:
            self.use(one, None)

    @property
    def upstreams(self) -> dict[str, Upstream]:
        """The servers of this view."""
        profile = self._settings.profile
        return {key: one for key, one in self._upstreams.items() if profile is None or profile.has_server(key)}

    def use_settings(self, settings: ViewSettings) -> bool:
        """Use other settings from now on; True if they make other lists, of which the clients are not told yet."""
        before, self._settings = self._settings, settings
        if (before.profile, before.search_above) == (settings.profile, settings.search_above):
            return False
        self._listings = self._make_listings()
        return True

    def capabilities(self) -> ServerCapabilities:
        """Everything that servers may have: which of them do can change at any time."""
        listed = ListCapability(list_changed=True)
        return ServerCapabilities(
            tools=listed,
            prompts=listed,
            resources=ResourcesCapability(subscribe=True, list_changed=True),
            completions={},
            logging={},
            extensions=self.extensions.declared,
            tasks=self._task_capability(),
        )

    async def instructions_for(self, call: ServerCall) -> str | None:
        """The instructions of all servers for the caller, after connecting to those that were never connected to."""
        shown = {key: one for key, one in self.upstreams.items() if not self.access.hides_server(call, key)}
        unknown = [one for one in shown.values() if one.revision is None and one.failed_at is None and not one.is_late]
        if unknown:
            if self.homes is not None:
                await self.homes.claim(call)
            opening = [asyncio.ensure_future(one.connection(call)) for one in unknown]
            await asyncio.wait(opening, timeout=INSTRUCTIONS_SECONDS)
            for one, task in zip(unknown, opening, strict=True):
                if not task.done():
                    # The connection goes on opening; only this wait for it ends.
                    task.cancel()
                    one.of(call).await_lists(call)
            await asyncio.gather(*opening, return_exceptions=True)
        parts = [] if self._settings.instructions is None else [self._settings.instructions]
        for key, one in shown.items():
            if one.instructions and self._trusts_instructions(key, one.instructions):
                parts.append(f"# Server {key}\n\n{one.instructions}" if self._prefixed else one.instructions)
        return "\n\n".join(parts) or None

    def _trusts_instructions(self, key: str, text: str) -> bool:
        quarantine = self.access.quarantine
        return quarantine is None or quarantine.allows_instructions(key, text)

    async def listing(self, call: ServerCall, concerns: Callable[[str], bool] | None = None) -> Listing:
        """The offers of the servers to the client of a call; with `concerns`, only these servers are waited for."""
        return await self._listings.listing(call, self.upstreams, concerns)

    async def catalogue(self, call: ServerCall) -> Catalogue:
        """The names of what the servers offer to the client of a call."""
        return (await self.listing(call, _nobody)).catalogue

    async def uri_rewriter(self, call: ServerCall, server: str) -> Callable[[str], str]:
        """A function that gives the URIs of a server the form in which the client of a call knows them."""
        listing = await self.listing(call, _nobody)
        return functools.partial(listing.shown_uri, server)

    def _named(self, catalogue: Catalogue) -> None:
        """A catalogue was made: take note of what calls of its tools need."""
        mirrored = catalogue.mirrored()
        for name in catalogue.tools:
            if name in mirrored:
                self.mirrored[name] = mirrored[name]
            else:
                self.mirrored.pop(name, None)
        for name in catalogue.task_tools - self._task_tools.keys():
            owned = catalogue.tools[name]
            self._task_tools[name] = ForwardedTool(self, name, at_server=(owned.server, owned.definition.name))

    async def encode_list(self, call: ServerCall, params: PageParams) -> bytes:
        """One page of a list."""
        method, terms = call.request.method, call.terms
        if self.stored_keys is not None:
            await self.stored_keys.prepare()
        listing = await self.listing(call)
        seen_by = (None if self.visible is None else terms.principal, self.access.list_key(call))
        key = (method, terms.revision.name, listing.catalogue.number, params.cursor, seen_by)
        page = self._pages_kept.get_and_refresh(key) if not listing.missing else None
        if page is None:
            page = self._encode_page(call, params, listing)
            if not listing.missing:
                self._pages_kept[key] = page
        return page

    def _encode_page(self, call: ServerCall, params: PageParams, listing: Listing) -> bytes:
        method = call.request.method
        read, make, kind = _LISTS[method]
        items = [
            (name, item) for name, item in read(listing.catalogue) if self._sees(call, listing.catalogue, kind, name)
        ]
        if kind == "tool" and self.is_searched(call, listing.catalogue):
            items = finder_tools()
        part, following = self.pager.page(method, [name for name, _ in items], params.cursor, self._page_size)
        result = make([item for _, item in items[part]])
        result.next_cursor, result.ttl_ms, result.cache_scope = following, 0, "private"
        if told := self._server_notices(call, listing):
            result.meta = {SERVERS_META: told}
        return codec.encode(self.emit_result(call.terms.revision, method, result))

    def _server_notices(self, call: ServerCall, listing: Listing) -> dict[str, Any]:
        """The servers whose part of a list is missing, old, or held back in part, each with the reason."""
        notices = {key: why for key, why in listing.missing.items() if not self.access.hides_server(call, key)}
        for server, held in listing.held.items():
            seen = [one for one in held if self._may_see(call, listing.catalogue, server, one)]
            if not seen:
                continue
            reason, missing = held_back(seen), notices.get(server)
            if missing is None:
                notices[server] = {"status": "held back", "reason": reason}
            else:
                notices[server] = {**missing, "reason": f"{missing['reason']}; {reason}"}
        return notices

    def _may_see(self, call: ServerCall, catalogue: Catalogue, server: str, held: Held) -> bool:
        """True if a caller would see a definition if it was not held back."""
        if held.kind in ("tool", "prompt"):
            kind = cast(Kind, held.kind)
            shown = self._shows_named(kind, server, held.name, catalogue.name(server, held.name))
        else:
            kind, shown = "resource", self._shows_uri(server, held.name)
        return shown and not self.access.hides(call, self.subject(kind, server, held.name))

    def is_searched(self, call: ServerCall, catalogue: Catalogue) -> bool:
        """True if a client gets the tools that find others, because there are too many."""
        limits = self._settings.search_above
        if limits is None:
            return False
        return needs_search(limits, [name for name, _, _ in self.shown_tools(call, catalogue)], catalogue.tokens_of)

    def shown_tools(self, call: ServerCall, catalogue: Catalogue) -> list[Listed]:
        """The tools that the caller sees: name, server and definition."""
        return [
            (name, owned.server, owned.definition)
            for name, owned in catalogue.tools.items()
            if self._sees(call, catalogue, "tool", name)
        ]

    def _sees(self, call: ServerCall, catalogue: Catalogue, kind: Kind, name: str) -> bool:
        """True if a caller may know of something: the profile has it, and the rules do not always deny it."""
        if kind == "resource":
            owner = catalogue.owner_of(name)
            shown = self.shows(call.terms.principal, kind, name) if owner is None else self._shows_uri(*owner)
        else:
            owned = (catalogue.tools if kind == "tool" else catalogue.prompts)[name]
            shown = self._shows_named(kind, owned.server, owned.definition.name, name)
        return shown and not self._hides(call, catalogue, kind, name)

    def _shows_uri(self, server: str, uri: str) -> bool:
        """True if the profile has a resource: patterns may mean the URI of its server, and the one with its name."""
        profile = self._settings.profile
        return profile is None or (profile.has_uri(uri) and profile.has_uri(prefixed_uri(server, uri)))

    def _hides(self, call: ServerCall, catalogue: Catalogue, kind: Kind, name: str) -> bool:
        """True if the rules never let the caller use something."""
        if self.access.policy is None:
            return False
        if kind == "resource":
            owner = catalogue.owner_of(name)
            return owner is not None and self.access.hides(call, self.subject(kind, *owner))
        owned = (catalogue.tools if kind == "tool" else catalogue.prompts)[name]
        return self.access.hides(call, self.subject(kind, owned.server, owned.definition.name, owned.definition))

    def subject(self, kind: Kind, server: str, name: str, definition: Any = None) -> Subject:
        """Something of a server, for the rules to decide on; one that was removed meanwhile is not trusted."""
        upstream = self._upstreams.get(server)
        return Subject(kind, server, name, upstream is not None and upstream.settings.trusted, definition)

    def _upstream(self, call: ServerCall, server: str) -> Upstream:
        """A server as the caller reaches it; raises for one that was removed while another was waited for."""
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise ServerUnavailable(server, "it was removed from the gateway")
        return upstream.of(call)

    def _shows_in_profile(self, principal: str | None, kind: Kind, name: str) -> bool:
        profile = self._settings.profile
        if kind == "resource":
            return profile is None or profile.has_uri(name)
        # Asked about a task of this view, which has the name of its tool only: it was shown when the task was created.
        tool = self._task_tools.get(name)
        if tool is None or tool.at_server is None:
            return True
        return self._shows_named(kind, *tool.at_server, name)

    def _shows_named(self, kind: Kind, server: str, name: str, shown: str) -> bool:
        """True if the profile has a tool or prompt, by its server, its name there, and the name that clients see."""
        profile = self._settings.profile
        if profile is None:
            return True
        if kind == "tool" and self._connects_account_at(shown) is None:
            return profile.has_tool(server, name, shown)
        return profile.has_prompt(server, name, shown)

    async def find_named(self, call: ServerCall, kind: Kind, name: str) -> tuple[Upstream, Any]:
        """The server of a tool or prompt, and its definition there; raises if there is none, or its server fails."""

        def concerns(key: str) -> bool:
            return not self._prefixed or may_be_of(key, name)

        listing = await self.listing(call, concerns)
        table = listing.catalogue.tools if kind == "tool" else listing.catalogue.prompts
        owned = table.get(name)
        if owned is not None and self._shows_named(kind, owned.server, owned.definition.name, name):
            return self._upstream(call, owned.server), owned.definition
        for key in listing.missing:
            # It cannot be said that a server which fails does not have it.
            if concerns(key) and not self.access.hides_server(call, key):
                raise self._count_refused(listing.unavailable(key))
        await self._refuse_held(call, listing, kind, name)
        if kind == "tool" and (key := self._connects_account_at(name)) is not None:
            # It is listed for users without an account only, and does nothing for others.
            return self._upstream(call, key), sign_in_tool(key)
        import difflib

        near = difflib.get_close_matches(name, table, 1)
        hint = f"; did you mean {near[0]!r}?" if near and self._sees(call, listing.catalogue, kind, near[0]) else ""
        raise not_found_error(f"Unknown {kind}: {name}{hint}")

    def _count_refused(self, problem: ServerUnavailable) -> ServerUnavailable:
        if not isinstance(problem, AccountNeeded):
            self.metrics.refused(problem.server)
        return problem

    def upstreams_named(self, name: str) -> list[Upstream]:
        """The servers that may have a tool or prompt of this name."""
        return [one for key, one in self.upstreams.items() if not self._prefixed or may_be_of(key, name)]

    def upstreams_at(self, uri: str) -> list[Upstream]:
        """The servers that may have a resource with this URI."""
        named = named_server(uri, self._upstreams)
        return [one for key, one in self.upstreams.items() if named is None or key == named]

    def _connects_account_at(self, name: str) -> str | None:
        """The server at which the tool of this name connects accounts; None for any other tool."""
        for key, upstream in self.upstreams.items():
            credentials = upstream.settings.credentials
            has_accounts = credentials is not None and credentials.type == "user-account"
            if has_accounts and name == (tool_name(key, CONNECT_ACCOUNT) if self._prefixed else CONNECT_ACCOUNT):
                return key
        return None

    def forget_listings(self) -> None:
        """Something has changed for a client that asks again now: list the servers anew."""
        self._generation.next()

    async def _refuse_held(self, call: ServerCall, listing: Listing, kind: Kind, name: str) -> None:
        """Say of a definition that is held back why it is, to callers who would see it otherwise."""
        for key, definitions in listing.held.items():
            for held in definitions:
                if held.kind != kind or listing.catalogue.name(key, held.name) != name:
                    continue
                if self._may_see(call, listing.catalogue, key, held):
                    raise await self._held_back(call, kind, key, held.name, name, held.reason)

    async def _held_back(
        self, call: ServerCall, kind: Kind, server: str, name: str, shown: str, reason: str
    ) -> ProtocolError:
        """The error for a request for something that is held back, which is recorded."""
        await self.access.record("refusal", call, self.subject(kind, server, name), None, "policy", "lockfile")
        return ProtocolError(INVALID_REQUEST, f"The {kind} {shown!r} is held back: {reason}", {"server": server})

    async def find_uri(self, call: ServerCall, uri: str) -> tuple[Upstream, str, Catalogue]:
        """The server of a resource or template, its URI there, and the catalogue; raises if it is not clear."""
        named = named_server(uri, self._upstreams)
        listing = await self.listing(call, _nobody if named is None else named.__eq__)
        owner = listing.catalogue.owner_of(uri)
        if owner is None or (named is None and listing.unasked):
            # A server that was never asked may have it too.
            listing = await self.listing(call)
            owner = listing.catalogue.owner_of(uri)
        elif owner[0] in listing.borrowed:
            listing = await self.listing(call, owner[0].__eq__)
            owner = listing.catalogue.owner_of(uri)
        if owner is None or not self._shows_uri(*owner):
            raise self._no_owner(call, listing, uri, named)
        if (reason := listing.reason_held(*owner)) is not None:
            raise await self._held_back(call, "resource", *owner, uri, reason)
        return self._upstream(call, owner[0]), owner[1], listing.catalogue

    def _no_owner(self, call: ServerCall, listing: Listing, uri: str, named: str | None) -> ProtocolError:
        """The error about a URI that does not lead to one server; `named` is the server that the URI itself names."""
        if self.shows(call.terms.principal, "resource", uri):
            owners = listing.catalogue.owners_of(uri)
            uris = [listing.catalogue.shown_uri(*owner) for owner in owners] if len(owners) > 1 else []
            if seen := [one for one in uris if self._sees(call, listing.catalogue, "resource", one)]:
                return ambiguous_uri(uri, seen)
            missing = [
                listing.unavailable(key)
                for key in listing.missing
                if (named is None or key == named) and not self.access.hides_server(call, key)
            ]
            # A user is asked to log in only if it is clear that it is for this resource.
            for one in missing:
                self._count_refused(one)
            if missing and (named is not None or (len(missing) == 1 and isinstance(missing[0], AccountNeeded))):
                return missing[0]
            if missing:
                return not_found_elsewhere(uri, missing)
        return not_found_error(f"Resource not found: {uri}", {"uri": uri}, call.terms.revision.not_found_code)

    def can_subscribe(self, uri: str, principal: str | None) -> bool:
        """Decided when the server of the resource is asked."""
        return self.shows(principal, "resource", uri)

    def shows_resource(self, session: Session, uri: str) -> bool:
        """True if a session may know of changes of a resource, under the URI that clients know."""
        named = named_server(uri, self._upstreams) if self._prefixed else None
        if named is not None:
            sources = [(named, own_uri(named, uri) or uri)]
        else:
            sources = [(key, uri) for key in self.update_filter.servers_of(session) or self.upstreams]
        shown = self._shows_uri(*sources[0]) if len(sources) == 1 else self.shows(None, "resource", uri)
        subjects = [self.subject("resource", *one) for one in sources if one[0] in self._upstreams]
        return shown and self.update_filter.allows(session, subjects)

    def accepted_filter(self, wanted: SubscriptionFilter, principal: str | None = None) -> SubscriptionFilter:
        """The part of a subscription that the gateway can serve."""
        uris = [uri for uri in dict.fromkeys(wanted.resource_subscriptions or ()) if self.can_subscribe(uri, principal)]
        return SubscriptionFilter(
            tools_list_changed=wanted.tools_list_changed or None,
            prompts_list_changed=wanted.prompts_list_changed or None,
            resources_list_changed=wanted.resources_list_changed or None,
            resource_subscriptions=uris or None,
        )

    def list_digest(self, kind: ListKind) -> str:
        """The same at all replicas: each asks the servers itself, so that a change is one for all clients."""
        return ""

    def list_changed(self, kind: ListKind) -> None:
        """A server has changed a list, or was added or removed: tell the clients."""
        self._pages_kept.clear()
        mirrored = self.mirrored
        self.announce(kind)
        self.mirrored = mirrored  # the tools that are registered here are not those that clients see

    def notified(self, notification: Notification, session: Session | None = None) -> None:
        """Pass on that the roots of a client have changed."""
        if notification.method == "notifications/roots/list_changed" and session is not None:
            if self.homes is not None:
                self.homes.pass_notification(session, notification)
            for upstream in self.upstreams.values():
                for connection in upstream.connections_of(session):
                    connection.notify_roots_changed()
        else:
            super().notified(notification, session)

    def notify_principal(self, is_meant: Callable[[str], bool]) -> None:
        """Tell the clients of some users that their lists have changed; those of others see no change."""
        self._pages_kept.clear()
        for session in list(self._sessions):
            if session.principal is not None and is_meant(session.principal):
                for kind in LIST_KINDS:
                    session.loop.call_soon_threadsafe(session.subscriptions.list_changed, kind)

    @property
    def has_replicas(self) -> bool:
        """True if other gateways share the store, and may have the streams of sessions."""
        return bool(self._replicas)

    def stream_of(self, session: Session) -> MessageSink | None:
        """The stream of a session, wherever it is; None for a client that is connected to this process."""
        return SessionStream(self._replicas, session.id) if self._replicas and session.id is not None else None

    def share_calls(self, remote_calls: RemoteCalls) -> None:
        """Serve requests for other gateways, and pass those on whose clients have their connections there."""
        super().share_calls(remote_calls)
        from .home_replica import HomeReplicas
        from .methods import AT_HOME

        self.homes = HomeReplicas(self, remote_calls, AT_HOME)

    def leave(self, replica: Replica) -> None:
        """The replica is about to be closed."""
        super().leave(replica)
        self.homes = None

    def add_session(self, session: Session) -> None:
        """Notify a session from now on; if the gateway that has its subscriptions has ended, they are made again."""
        super().add_session(session)
        self.update_filter.note_caller(session)
        self.subscribed.add(session)

    async def _subscribe_at_server(self, call: ServerCall, uri: str) -> None:
        from .methods import subscribe_at_server

        await subscribe_at_server(self, call, uri)

    def _note_lost(self, session: Session) -> None:
        if self.homes is not None:
            self.homes.note_lost(session)

    def remove_session(self, session: Session) -> None:
        """Notify a session no more; one over HTTP may go on with its stream at another gateway."""
        super().remove_session(session)
        self.subscribed.remove(session)
        if session.id is None:
            self._release(session)

    def session_ended(self, session: Session) -> None:
        """A session has ended: its connections are closed."""
        if self.homes is not None:
            self.homes.ended(session)
        self._release(session)

    def needs_session(self, session: Session) -> bool:
        """True if it is subscribed to something over connections that are here."""
        return any(upstream.has_subscriptions(session) for upstream in self.upstreams.values())

    @contextlib.asynccontextmanager
    async def attached(self, session: Session) -> AsyncGenerator[None]:
        """Serve a session for a while; its connections are closed at the end."""
        if self._state is not None:
            self._state.start()
        try:
            async with super().attached(session):
                yield
        finally:
            self._release(session)
            if self._state is not None and not self._state.is_serving:
                await self._state.close_connections()

    def _release(self, session: Session) -> None:
        self._listings.forget(session_owner(session))
        for upstream in self._upstreams.values():
            upstream.release(session)
        self._removed.remove(session)

    def unsubscribe(self, session: Session, uri: str, request: Id | None = None) -> None:
        """End the subscription of a session, or of one of its requests, to a resource, whatever its URI means now."""
        for upstream in self._upstreams.values():
            upstream.unsubscribe(session, uri, request)
        self._removed.remove(session, uri, request)


def _nobody(key: str) -> bool:
    return False


Read = Callable[[Catalogue], list[tuple[str, Any]]]

_LISTS: dict[str, tuple[Read, Callable[[list[Any]], Any], Kind]] = {
    "tools/list": (Catalogue.listed_tools, ListToolsResult, "tool"),
    "prompts/list": (Catalogue.listed_prompts, ListPromptsResult, "prompt"),
    "resources/list": (Catalogue.listed_resources, ListResourcesResult, "resource"),
    "resources/templates/list": (Catalogue.listed_templates, ListResourceTemplatesResult, "resource"),
}
