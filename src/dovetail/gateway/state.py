"""State of a gateway: its servers, the views that clients have of them, and the configuration that they come from."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import glob
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind
from dovetail.storage.contract import StoreError
from dovetail.types.capabilities import Implementation

from .access_control.inbound import CallerVerifier
from .access_control.permissions import Access
from .access_control.quarantine import Quarantine
from .accounts.account_store import AccountChange, AccountStore, account_label
from .accounts.account_upstream import AccountCallers, Accounts
from .core import GatewayCore, ViewSettings
from .listings import SharedParts
from .metrics import Metrics
from .search_mode import definition_tokens
from .servers.caller_upstream import PerCallerUpstream
from .servers.circuit_breaker import State
from .servers.clients import DeclaredCapabilities
from .servers.context import Generation, UpstreamContext
from .servers.credentials import ServerDefinition, make_upstream
from .servers.lost_subscriptions import RemovedServers
from .servers.upstream import Upstream
from .settings import LIVE, GatewaySettings, Profile

if TYPE_CHECKING:
    from dovetail.policy.rules import Policy
    from dovetail.server.http.application import Application
    from dovetail.server.http.options import Settings

    from .servers.config_source import ConfigSource, Configuration

logger = logging.getLogger("dovetail")

LOCK_SECONDS = 1.0
"""Seconds between two looks at the lockfile."""


class GatewayState:
    """Everything that the framework needs of a gateway; `Gateway` shows users the part that is theirs."""

    def __init__(
        self,
        servers: Mapping[str, ServerDefinition],
        settings: GatewaySettings,
        version: str,
        core_options: Mapping[str, Any],
        source: ConfigSource | None = None,
        access: Access | None = None,
    ) -> None:
        self.settings = settings
        self.info = Implementation(settings.name, version, settings.title)
        self.metrics = Metrics()
        self._core_options = core_options
        self._source = source
        self.access = Access() if access is None else access
        self._generation = Generation()
        self._declared = DeclaredCapabilities()
        self.accounts = Accounts()
        self.address: str | None = None
        """The URL of the gateway on this machine, if it is known before it is served."""
        context = UpstreamContext(
            self.info, self._list_changed, self._generation, self._declared, self.access.depends_on_definitions
        )
        self._make_upstream = functools.partial(make_upstream, context=context, accounts=self.accounts)
        self._definitions: dict[str, ServerDefinition] = {}
        self._upstreams: dict[str, Upstream] = {}
        self._views: dict[str, GatewayCore] = {}
        self._removed = RemovedServers()
        self._shared = SharedParts(
            self._upstreams, self.metrics, self.access, self._generation, self._declared, self._removed
        )
        self.close_views: list[Callable[[str], Coroutine[Any, Any, None]]] = []
        """Functions of the applications that serve the views: they close what serves a view that was removed."""
        self._watching: list[asyncio.Task[None]] = []
        for key, definition in servers.items():
            self._add(key, definition)

    @property
    def verifier(self) -> CallerVerifier | None:
        """The verifier of the tokens of callers, if they need any."""
        verifier = self._core_options.get("auth")
        assert verifier is None or isinstance(verifier, CallerVerifier)
        return verifier

    @property
    def is_serving(self) -> bool:
        """True while any view serves clients, or runs their tasks."""
        return any(view.serving for view in self._views.values())

    def view(self, name: str) -> GatewayCore:
        """The view of all servers (""), of one (`server/NAME`) or of a profile (`profile/NAME`)."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = GatewayCore(
                self.info,
                name,
                self._shared,
                self._view_settings(name),
                public=self,
                state=None if name else self,
                **self._core_options,
            )
            if name and found.auth is not None:
                found.revoked_tokens.take_over(self.view("").revoked_tokens)
        return found

    async def revoke_token(self, token: str, expires_at: float | None) -> None:
        """Refuse a token at every view, and end the streams that it opened."""
        if self.verifier is None:
            raise LocalError("This gateway has no auth, so that there are no tokens to revoke")
        revoked = self.view("").revoked_tokens
        try:
            await revoked.revoke(token, expires_at)
        finally:
            for name, view in self._views.items():
                if name:
                    view.revoked_tokens.take_over(revoked)

    def has_view(self, name: str) -> bool:
        """True if there is a view of this name."""
        kind, _, key = name.partition("/")
        return key in self._upstreams if kind == "server" else kind == "profile" and key in self.settings.profiles

    def _view_settings(self, name: str) -> ViewSettings:
        settings, profile = self.settings, None
        kind, _, key = name.partition("/")
        if kind == "server":
            profile = Profile(servers=(glob.escape(key),))
        elif kind == "profile":
            # Clients of a profile that was removed see nothing until their connections are closed.
            profile = settings.profiles.get(key, Profile(servers=()))
        own = None if profile is None else profile.search_above
        return ViewSettings(settings.instructions, profile, settings.search_above if own is None else own)

    def make_application(
        self, settings: Settings, bound_host: str | None = None, *, ephemeral: bool = False
    ) -> Application:
        """The gateway as an ASGI application, with all its views."""
        from .application import GatewayApp

        return GatewayApp(self, settings, bound_host, ephemeral=ephemeral)

    def start(self) -> None:
        """Begin to watch the configuration, on the event loop that runs."""
        if self._watching:
            return
        if self._source is not None:
            self._watching.append(asyncio.create_task(self._watch(self._source), name="dovetail-gateway-config"))
        if self.accounts.store is not None:
            follow = self._follow_accounts(self.accounts.store)
            self._watching.append(asyncio.create_task(follow, name="dovetail-gateway-accounts"))
        if self.access.quarantine is not None:
            watch = self._watch_lock(self.access.quarantine)
            self._watching.append(asyncio.create_task(watch, name="dovetail-gateway-lock"))

    async def close(self) -> None:
        """Disconnect from all servers."""
        watching, self._watching = self._watching, []
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._upstreams.values()))
        await asyncio.to_thread(self.access.close)

    async def close_connections(self) -> None:
        """The last client has gone: close the connections to all servers; later clients open them again."""
        await asyncio.gather(*(one.close_connections() for one in self._upstreams.values()))

    async def update(self, servers: Mapping[str, ServerDefinition]) -> None:
        """Use these servers from now on: those that have not changed keep their connections."""
        gone = [
            key
            for key, definition in self._definitions.items()
            if key not in servers
            or definition.identity is None
            or (servers[key].identity, servers[key].settings) != (definition.identity, definition.settings)
        ]
        closing = [self._upstreams.pop(key) for key in gone]
        for key in gone:
            del self._definitions[key]
        added = [key for key in servers if key not in self._definitions]
        for key in added:
            self._add(key, servers[key])
            self._upstreams[key].take_over(self._removed.take(key))
        for key, old in zip(gone, closing, strict=True):
            if key not in servers or old.per_caller:
                old.tell_subscribers()  # who may find that it is gone, or that they have to subscribe again
            if key in servers:
                self._upstreams[key].take_over(old.subscriptions())
            else:
                self._removed.keep(key, old.subscriptions())
        # In the order of the configuration, which is the order of the lists.
        for key in servers:
            self._upstreams[key] = self._upstreams.pop(key)
        if gone or added:
            self._all_changed()
            _log_update(gone, added)
        await asyncio.gather(*(one.close() for one in closing))

    def _all_changed(self) -> None:
        self._generation.next()
        for view in self._views.values():
            _notify(view)

    async def take_over(self, configuration: Configuration) -> None:
        """Use what the configuration says now, as far as it has changed."""
        closing: list[Coroutine[Any, Any, None]] = []
        # First, so that a server is not used by other rules than those that come with it.
        if configuration.gateway is not None:
            closing = self._use_settings(*configuration.gateway)
        servers = configuration.servers
        if servers is not None and configuration.gateway is None:
            # A server may come with rules for it: one that was added or changed is not used without them.
            servers = {key: self._definitions[key] for key in servers if key in self._definitions}
        if servers is not None:
            closing.append(self.update(servers))
        await asyncio.gather(*closing)

    def _use_settings(self, settings: GatewaySettings, policy: Policy | None) -> list[Coroutine[Any, Any, None]]:
        """Take over the settings that are for a running gateway; what is to be awaited closes removed views."""
        before = self.settings
        self.settings = msgspec.structs.replace(before, **{name: getattr(settings, name) for name in LIVE})
        if (settings.rate_limit, settings.burst) != (before.rate_limit, before.burst):
            self.access.limit_rate(settings.rate_limit, settings.burst)
        # What is always denied is not listed.
        lists_changed = not _same_rules(policy, self.access.policy)
        if lists_changed:
            self.access.policy = policy
        if lists_changed or any(getattr(self.settings, name) != getattr(before, name) for name in LIVE):
            logger.info("Changed settings of the gateway are in use")
        closing: list[Coroutine[Any, Any, None]] = []
        for name, view in list(self._views.items()):
            if view.use_settings(self._view_settings(name)) or lists_changed:
                _notify(view)
            if name.startswith("profile/") and not self.has_view(name):
                del self._views[name]
                closing += [close(name) for close in self.close_views]
        return closing

    def _add(self, key: str, definition: ServerDefinition) -> None:
        if not key.strip():
            raise LocalError("A server of a gateway needs a name")
        self._definitions[key] = definition
        self._upstreams[key] = self._make_upstream(key, definition)

    def _list_changed(self, upstream: Upstream, kind: ListKind) -> None:
        for view in self._views.values():
            if upstream.key in view.upstreams:
                view.list_changed(kind)

    async def _watch(self, source: ConfigSource) -> None:
        async with contextlib.aclosing(source.changes()) as changes:
            async for configuration in changes:
                try:
                    await self.take_over(configuration)
                except LocalError as problem:
                    logger.warning("The configuration was not taken over: %s", problem)

    async def _watch_lock(self, quarantine: Quarantine) -> None:
        """Take over the lockfile when someone has locked the definitions again."""
        said = ""
        while True:
            await asyncio.sleep(LOCK_SECONDS)
            try:
                if await quarantine.look_again():
                    self._all_changed()
                    logger.info("The changed lockfile is in use")
                said = ""
            except LocalError as problem:
                if str(problem) != said:
                    logger.warning("%s; the lockfile from before still counts", problem)
                said = str(problem)

    def account_servers(self) -> dict[str, AccountCallers]:
        """The servers that are used with accounts of users."""
        return {
            key: one.callers
            for key, one in self._upstreams.items()
            if isinstance(one, PerCallerUpstream) and isinstance(one.callers, AccountCallers)
        }

    async def _follow_accounts(self, store: AccountStore) -> None:
        """Take note of accounts that are connected and disconnected, at any gateway."""
        while True:
            try:
                subscription = await store.follow(self._account_changed)
                break
            except StoreError:
                await asyncio.sleep(LOCK_SECONDS)
        try:
            await asyncio.Event().wait()
        finally:
            subscription.close()

    def _account_changed(self, change: AccountChange) -> None:
        keys = list(self.account_servers())
        for key in keys:
            upstream = self._upstreams[key]
            assert isinstance(upstream, PerCallerUpstream)
            if change.connected:
                upstream.load_credentials_again(change.label)
            else:
                upstream.drop(change.label)
        self._generation.next()
        for view in self._views.values():
            view.notify_principal(lambda name: any(account_label(key, name) == change.label for key in keys))

    async def record_account(self, principal: str, server: str, done: str) -> None:
        """Write to the audit log that a user has connected or disconnected an account."""
        if self.access.audit is not None:
            await self.access.audit.record("account", server=server, by="person", principal=principal, outcome=done)

    def status(self) -> dict[str, Any]:
        """The state of every server, for `/status`."""
        return {
            "gateway": self.settings.name,
            "version": self.info.version,
            "servers": {key: self._server_status(one) for key, one in self._upstreams.items()},
        }

    def _server_status(self, upstream: Upstream) -> dict[str, Any]:
        known = upstream.known_offers
        status: dict[str, Any] = {"state": _state_of(upstream)}
        if upstream.breaker.reason is not None:
            status["reason"] = upstream.breaker.reason
        if upstream.revision is not None:
            status["revision"] = upstream.revision.name
        if known:
            widest = max(known, key=lambda offers: len(offers.tools))
            status["tools"] = len(widest.tools)
            status["tokens"] = sum(map(definition_tokens, widest.tools))
        quarantine = self.access.quarantine
        if quarantine is not None and (held := quarantine.held(upstream.key)):
            status["quarantined"] = [msgspec.structs.asdict(one) for one in held]
        return {**status, "connections": upstream.connections, **self.metrics.of_server(upstream.key)}

    def metrics_text(self) -> str:
        """The metrics as Prometheus text."""
        up = {key: one.breaker.state is State.CLOSED for key, one in self._upstreams.items()}
        return self.metrics.text(up, {key: one.connections for key, one in self._upstreams.items()})


def _log_update(gone: Sequence[str], added: Sequence[str]) -> None:
    done = {
        "added": [key for key in added if key not in gone],
        "changed": [key for key in gone if key in added],
        "removed": [key for key in gone if key not in added],
    }
    said = [f"{what} {', '.join(map(repr, keys))}" for what, keys in done.items() if keys]
    logger.info("The servers of the gateway have changed: %s", "; ".join(said))


def _notify(view: GatewayCore) -> None:
    for kind in LIST_KINDS:
        view.list_changed(kind)


def _same_rules(one: Policy | None, other: Policy | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.rules == other.rules


def _state_of(upstream: Upstream) -> str:
    if upstream.breaker.state is not State.CLOSED:
        return "failing"
    return "ready" if upstream.connections else "idle"
