"""A server as a user reaches it with an account of their own there.

A user without an account is asked to log in, by URL elicitation where the client can show one, and otherwise by an
error with the address of the page. The call then goes on. Until then the server offers one tool, which does just that.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed, LoginNeeded
from dovetail.client.auth.auto_login import AutoLogin
from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import account_name
from dovetail.gateway.errors import AccountNeeded, ServerUnavailable
from dovetail.gateway.servers.caller_upstream import AuthorizedTarget, CallerUpstream, FillSecret
from dovetail.gateway.servers.connection import Offers
from dovetail.gateway.servers.context import UpstreamContext
from dovetail.gateway.servers.leases import ConnectionKey
from dovetail.protocol.errors import DovetailError, LocalError, MissingCapability
from dovetail.server.features.url_elicitation import COMPLETE, begin_url_elicitation
from dovetail.storage.contract import StoreError
from dovetail.transports.http.contract import HttpOptions
from dovetail.types.client_features import ElicitResult, InputRequired
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult, Tool, ToolAnnotations

from .account_store import AccountStore, account_label

if TYPE_CHECKING:
    from dovetail.auth.tokens import Account
    from dovetail.client.auth.grants import GrantContext
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.gateway.access_control.inbound import Caller
    from dovetail.gateway.servers.connection import UpstreamConnection
    from dovetail.gateway.settings import Credentials, ServerSettings
    from dovetail.server.invocation import Invocation
    from dovetail.types.capabilities import ClientCapabilities

ACCOUNT = "dovetail/account"
"""The key of the question that asks a user to log in."""

CONNECT_ACCOUNT = "connect_account"
"""The tool that a server offers to users who have no account there yet."""

WAIT_SECONDS = 180.0
"""Seconds that a call waits for its user to log in."""

NOT_CONFIGURED = "it is used with accounts of users, and `accounts` of the gateway is not configured"

_FIRST_PAUSE = 0.1
_MAX_PAUSE = 1.0
"""Seconds between two looks at the store for the account of a user who logs in."""


class Accounts:
    """The accounts of all users of a gateway; used once it is served over HTTP, where users can log in."""

    def __init__(self) -> None:
        self._store: AccountStore | None = None
        self._base = ""
        self.serves_local = True
        """False where a client that is not local could pass for one: the gateway serves HTTP without authentication."""

    @property
    def store(self) -> AccountStore | None:
        """The accounts; None while no pages are served, as over stdio."""
        return self._store

    def use(self, store: AccountStore, base: str) -> None:
        """Keep accounts in a store, and send users to the pages below a URL."""
        self._store, self._base = store, base

    def auth(self, label: str, credentials: Credentials) -> OAuth:
        """The credentials of one user at one server, by the label of the account."""
        assert self._store is not None
        return OAuth(LoginAtPage(self._store, label), scopes=credentials.scopes, store=self._store, account=label)

    def page(self, server: str, label: str) -> str:
        """The page at which a user connects an account; the tag lets no other user do so."""
        assert self._store is not None
        return f"{self._base}/accounts?server={quote(server, safe='')}&for={self._store.tag(label)}"


class LoginAtPage:
    """Grant that obtains no token by itself: it notes that the user has to log in at a page of the gateway."""

    def __init__(self, store: AccountStore, label: str) -> None:
        self._store = store
        self._label = label

    async def obtain(self, context: GrantContext) -> Account:
        """Note the scopes that the login is to request, and raise `LoginNeeded`."""
        await self._store.require_login(self._label, context.scopes(offline=True))
        raise LoginNeeded("The user has to log in at a page of the gateway")


class AccountUpstream(CallerUpstream):
    """A server as one user reaches it."""

    def __init__(
        self,
        key: str,
        make_target: AuthorizedTarget,
        settings: ServerSettings,
        context: UpstreamContext,
        *,
        accounts: Accounts,
        store: AccountStore,
        principal: str,
    ) -> None:
        credentials = settings.credentials
        assert credentials is not None
        self._label = account_label(key, principal)
        self._auth = accounts.auth(self._label, credentials)
        super().__init__(key, functools.partial(make_target, self._auth), settings, context)
        self._accounts = accounts
        self._store = store
        self._plain_target = functools.partial(make_target, None)
        self._host = ""
        self._name: str | None = None

    def load_credentials_again(self) -> None:
        """Use the account that was connected just now."""
        self._auth.load_again()

    async def sign_in(self, invocation: Invocation) -> InputRequired | None:
        """Ask the user to log in, or wait for the login that they agreed to; None once there is an account."""
        answer = invocation.answers.get(ACCOUNT)
        name = await self._account_name()
        try:
            if not await self._store.is_connected(name, self._label):
                if answer is None:
                    return await self._question(invocation)
                if not (isinstance(answer, ElicitResult) and answer.action == "accept"):
                    raise self._needed("you did not agree to log in there.")
                if not await self._wait(name):
                    raise self._needed(f"nobody logged in there within {WAIT_SECONDS:g} s.")
        except StoreError as problem:
            raise ServerUnavailable(self.key, f"the accounts cannot be read now: {problem}") from problem
        if answer is not None and COMPLETE in invocation.call.terms.revision.methods:
            invocation.server.url_elicitations.complete(self._elicitation_id(invocation))
        return None

    async def require_login(self, invocation: Invocation) -> InputRequired:
        """Ask the user to log in again, after the server has refused the account."""
        await self._account_name()
        return await self._question(invocation)

    async def _question(self, invocation: Invocation) -> InputRequired:
        text = f"Log in at {self._host}, so that the gateway can use the server {self.key!r} with your account."
        try:
            page = self._accounts.page(self.key, self._label)
            question = invocation.client_requests.elicit_url(text, page, self._elicitation_id(invocation))
        except (LocalError, MissingCapability) as problem:
            raise self._needed() from problem
        await begin_url_elicitation(question.params, invocation)
        return InputRequired({ACCOUNT: question}, invocation.request_state)

    def _elicitation_id(self, invocation: Invocation) -> str:
        """The same for all runs of one request, of which the last reports that the user is done."""
        call = invocation.call
        return sha256(f"{call.session.id} {call.request.id} {self._label}".encode()).hexdigest()[:32]

    async def _wait(self, name: str) -> bool:
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        until = loop.time() + WAIT_SECONDS
        while not await self._store.is_connected(name, self._label):
            if loop.time() > until:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
        return True

    async def _open(self, key: ConnectionKey, capabilities: ClientCapabilities) -> UpstreamConnection:
        try:
            if await self._store.load(await self._account_name()) is None:
                raise self._needed()
        except AuthorizationFailed as problem:
            raise ServerUnavailable(self.key, str(problem)) from problem
        try:
            return await super()._open(key, capabilities)
        except ServerUnavailable as problem:
            if isinstance(problem.__cause__, LoginNeeded):
                raise self._needed() from problem
            raise

    def _needed(self, why: str = "") -> AccountNeeded:
        return AccountNeeded(self.key, self._accounts.page(self.key, self._label), why)

    async def _account_name(self) -> str:
        """The name that the account is kept under: it is for one URL, whatever the configuration says later."""
        if self._name is None:
            url = await server_url(self.key, self._plain_target)
            self._host = shown_host(url)
            self._name = account_name(url, self._label)
        return self._name


class AccountCallers(NamedTuple):
    """The users of a server at which each has an account."""

    server: str
    make_target: AuthorizedTarget
    settings: ServerSettings
    context: UpstreamContext
    accounts: Accounts
    credentials: Credentials
    fill: FillSecret

    need_token: bool = False

    @property
    def serves_local(self) -> bool:
        """A client over stdio is the user who runs the gateway, and logs in as with any other program of theirs."""
        return self.accounts.serves_local

    def key(self, caller: Caller | None) -> Hashable:
        """Clients of one user share the account."""
        return None if caller is None else account_label(self.server, caller.name)

    def upstream(self, caller: Caller | None) -> CallerUpstream:
        """The server with the account of a caller."""
        if caller is None:
            target = functools.partial(self.make_target, AutoLogin(HttpOptions()))
            return CallerUpstream(self.server, target, self.settings, self.context)
        store = self.accounts.store
        if store is None:
            raise ServerUnavailable(self.server, NOT_CONFIGURED)
        return AccountUpstream(
            self.server,
            self.make_target,
            self.settings,
            self.context,
            accounts=self.accounts,
            store=store,
            principal=caller.name,
        )


async def server_url(key: str, make_target: Callable[[], Awaitable[ServerTarget]]) -> str:
    """The URL that the account of a server is for; raises `ServerUnavailable` if there is none."""
    try:
        url = (await make_target()).url
    except (DovetailError, OSError) as problem:
        raise ServerUnavailable(key, str(problem)) from problem
    if url is None:
        raise ServerUnavailable(key, "credentials are for servers behind a URL")
    return url


def shown_host(url: str) -> str:
    """The host and port of a URL, as users are shown them: without the user name and password that it may have."""
    return urlsplit(url).netloc.rpartition("@")[2]


async def configured_client(credentials: Credentials, fill: FillSecret) -> OAuthClient | None:
    """The client that was registered by hand at the authorization server of a server, if there is one."""
    if credentials.client_id is None:
        return None
    secret = None if credentials.client_secret is None else await fill(credentials.client_secret)
    return OAuthClient(id=credentials.client_id, secret=secret, issuer=credentials.issuer)


@functools.lru_cache(maxsize=1000)
def sign_in_offers(server: str) -> Offers:
    """The one tool of a server for users without an account there; the same each time, as lists compare them."""
    return Offers(
        tools=(
            Tool(
                CONNECT_ACCOUNT,
                {"type": "object", "properties": {}, "additionalProperties": False},
                title=f"Connect your account at {server}",
                description=f"Lets the user log in at {server}. Its other tools are listed afterwards.",
                annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True),
            ),
        )
    )


def sign_in_tool(server: str) -> Tool:
    """The tool that connects an account at a server."""
    return sign_in_offers(server).tools[0]


def connected_result(server: str) -> CallToolResult[None]:
    """The result of the tool that connects an account."""
    text = f"The account at {server} is connected. List the tools again to see those of {server}."
    return CallToolResult([Text(text)])
