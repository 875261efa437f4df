"""Account store: the tokens of users at servers, encrypted, in the store that all gateways share.

The keys come from the configuration and are not in the store: whoever can read the store cannot use an account. Each
value is bound to the name that it is kept under, so that whoever can write to the store cannot give one user the
account of another.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
from collections.abc import AsyncGenerator, Callable, Generator
from hashlib import sha256

import msgspec

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed
from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.seal import KeyRing
from dovetail.storage.contract import LogEntries, Store, StoreError, Subscription
from dovetail.storage.lock import store_lock

logger = logging.getLogger("dovetail")

ACCOUNT_SECONDS = 180 * 86_400.0
"""Seconds for which an account is kept after its last login or renewal."""

CLIENT_SECONDS = 365 * 86_400.0
"""Seconds for which the registration of the gateway at an authorization server is kept."""

LOGIN_SECONDS = 600.0
"""Seconds that a user may take for a login."""

NEEDED_SECONDS = 86_400.0
"""Seconds for which it is remembered that a user has to log in again."""

LOCK_SECONDS = 60.0
"""Seconds to wait for another request, at any gateway, that renews the same account."""

MAX_CHANGES = 1000
"""Changes of accounts that are kept for gateways that were cut off for a while."""

_CHANGES = "account-changes"


class AccountChange(msgspec.Struct, array_like=True, frozen=True):
    """An account was connected, or disconnected; it is known by its label."""

    label: str
    connected: bool


_OF_CLIENTS = msgspec.msgpack.Decoder(OAuthClient)
_OF_CHANGES = msgspec.msgpack.Decoder(AccountChange)
_encode = msgspec.msgpack.Encoder().encode


class AccountStore:
    """Keeps accounts, logins that have begun, and registrations.

    It is the token store of `OAuth`, so that a store that fails is an `AuthorizationFailed` there.
    """

    def __init__(self, ring: KeyRing, get_store: Callable[[], Store], issuer: str | None = None) -> None:
        """`get_store` returns the store, which may be opened only when it is first used.

        `issuer` is that of the users' tokens: a user of the same name at another issuer is someone else, and has
        nothing of what is kept here, even in the same store and with the same keys.
        """
        self._ring = ring
        self._get_store = get_store
        self._issuer = issuer or ""

    async def load(self, name: str) -> bytes | None:
        """The account under a name; None if there is none."""
        with _as_authorization_error():
            return await self._get("account", name)

    async def save(self, name: str, content: bytes | None) -> None:
        """Save the account under a name; None removes it."""
        with _as_authorization_error():
            if content is None:
                await self._get_store().delete(self._key("account", name))
            else:
                await self._put("account", name, content, ACCOUNT_SECONDS)

    @contextlib.asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[None]:
        """Hold a lock under which no other gateway renews the account: a refresh token can be used once."""
        async with contextlib.AsyncExitStack() as stack:
            with _as_authorization_error():
                lock = store_lock(self._get_store(), self._key("account-lock", name), LOCK_SECONDS)
                await stack.enter_async_context(lock)
            yield

    async def require_login(self, label: str, scopes: tuple[str, ...]) -> None:
        """Note that a user has to log in, and the scopes to request then."""
        with _as_authorization_error():
            await self._put("account-login-required", label, _encode(scopes), NEEDED_SECONDS)

    async def required_scopes(self, label: str) -> tuple[str, ...] | None:
        """The scopes that the next login of a user is to request; None if none is required."""
        content = await self._get("account-login-required", label)
        return None if content is None else msgspec.msgpack.decode(content, type=tuple[str, ...])

    async def connected(self, name: str, label: str, content: bytes) -> None:
        """Save the account that a login has resulted in, and tell all gateways."""
        async with self.held(name):
            await self.save(name, content)
        await self._get_store().delete(self._key("account-login-required", label))
        await self._announce(AccountChange(label, connected=True))

    async def disconnected(self, label: str) -> None:
        """Tell all gateways that an account was removed."""
        await self._get_store().delete(self._key("account-login-required", label))
        await self._announce(AccountChange(label, connected=False))

    async def is_connected(self, name: str, label: str) -> bool:
        """True if a user has an account that needs no new login, as far as is known."""
        # One that cannot be decrypted, after the keys were replaced, is none.
        return await self._get("account", name) is not None and await self.required_scopes(label) is None

    async def put_login(self, state: str, browser: str, content: bytes) -> None:
        """Keep a login that has begun, for the browser in which it began."""
        await self._put("account-login", f"{state} {browser}", content, LOGIN_SECONDS)

    async def take_login(self, state: str, browser: str) -> bytes | None:
        """The login of a state that began in this browser; None for others, and the second time."""
        name = f"{state} {browser}"
        content = await self._get("account-login", name)
        taken = content is not None and await self._get_store().delete(self._key("account-login", name))
        return content if taken else None

    async def begin_attempt(self, redirect_uri: str, browser: str) -> bool:
        """Note that a browser is sent to an authorization server; False if it was before, and has not come back yet."""
        return await self._get_store().add(
            self._key("account-attempt", f"{redirect_uri} {browser}"), b"", LOGIN_SECONDS
        )

    async def end_attempt(self, redirect_uri: str, browser: str) -> None:
        """Note that a browser has come back."""
        await self._get_store().delete(self._key("account-attempt", f"{redirect_uri} {browser}"))

    async def end_session(self, id: str, seconds: float) -> None:
        """Note that a browser session has ended, for the seconds in which its cookie would still be valid."""
        await self._get_store().put(self._key("account-session-ended", id), b"", seconds)

    async def has_ended(self, id: str) -> bool:
        """True if a browser session was ended, at any gateway."""
        return await self._get_store().get(self._key("account-session-ended", id)) is not None

    async def client(self, issuer: str, redirect_uri: str) -> OAuthClient | None:
        """The registration of the gateway at an authorization server."""
        content = await self._get("account-client", f"{issuer} {redirect_uri}")
        try:
            return None if content is None else _OF_CLIENTS.decode(content)
        except msgspec.DecodeError:
            return None  # of another version of the gateway

    async def put_client(self, issuer: str, redirect_uri: str, client: OAuthClient) -> None:
        """Keep a registration, for all gateways and for renewals."""
        await self._put("account-client", f"{issuer} {redirect_uri}", _encode(client), CLIENT_SECONDS)

    async def _announce(self, change: AccountChange) -> None:
        await self._get_store().append(_CHANGES, [_encode(change)], ACCOUNT_SECONDS, MAX_CHANGES)

    async def follow(self, on_change: Callable[[AccountChange], None]) -> Subscription:
        """Call a function with each account that is connected or disconnected from now on, at any gateway."""

        def received(entries: LogEntries) -> None:
            for _, change in entries:
                on_change(_OF_CHANGES.decode(change))

        store = self._get_store()
        return await store.follow(_CHANGES, await store.last(_CHANGES), received)

    def tag(self, label: str) -> str:
        """A short text that only this gateway can make, by which a link names an account without telling whose."""
        return _tag(self._ring.secrets[0], label)

    def is_tag(self, tag: str, label: str) -> bool:
        """True if a text was made for this account, with any of the keys."""
        given = tag.encode(errors="replace")
        return any(hmac.compare_digest(_tag(key, label).encode(), given) for key in self._ring.secrets)

    def seal(self, content: bytes, purpose: bytes) -> str:
        """Encrypt something that a browser keeps, for one purpose."""
        return self._ring.seal(content, self._bound(purpose), os.urandom(12))

    def open(self, text: str, purpose: bytes) -> bytes | None:
        """The content of what was sealed for this purpose; None for anything else."""
        try:
            return self._ring.open(text, self._bound(purpose))
        except ProtocolError:
            return None

    async def _get(self, kind: str, name: str) -> bytes | None:
        sealed = await self._get_store().get(self._key(kind, name))
        if sealed is None:
            return None
        content = self.open(sealed.decode("latin-1"), _entry(kind, name))
        if content is None:
            logger.warning("An entry of the kind %r in the store cannot be decrypted with the keys of `accounts`", kind)
        return content

    async def _put(self, kind: str, name: str, content: bytes, seconds: float) -> None:
        await self._get_store().put(self._key(kind, name), self.seal(content, _entry(kind, name)).encode(), seconds)

    def _key(self, kind: str, name: str) -> str:
        return f"{kind}:{sha256(self._bound(_entry(kind, name))).hexdigest()[:40]}"

    def _bound(self, purpose: bytes) -> bytes:
        """What encryption is bound to: the purpose, and whose users they are."""
        return f"{len(self._issuer)} {self._issuer} ".encode() + purpose


def account_label(server: str, principal: str) -> str:
    """The label of a user's account at a server: a digest, so that the store does not tell who has one."""
    return sha256(f"{len(server)} {server} {principal}".encode(errors="surrogatepass")).hexdigest()


@contextlib.contextmanager
def _as_authorization_error() -> Generator[None]:
    try:
        yield
    except StoreError as problem:
        raise AuthorizationFailed(f"The account cannot be read or renewed now: {problem}") from problem


def _entry(kind: str, name: str) -> bytes:
    return f"{kind} {name}".encode(errors="surrogatepass")


def _tag(key: bytes, label: str) -> str:
    return hmac.new(key, f"account-link {label}".encode(), sha256).hexdigest()[:32]
