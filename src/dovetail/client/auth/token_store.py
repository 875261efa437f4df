"""Token stores: logins kept in memory, or in an encrypted file between runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable, private_folder, read_file, try_lock, write_private

from .encryption_keys import (
    KEY_SOURCES,
    KEY_VARIABLE,
    EnvironmentKey,
    KeyOrigin,
    KeySource,
    StoreUnreadable,
    preferred_key_origin,
)

MAX_LABEL = 100
HELD_SECONDS = 330.0
"""Seconds to wait for another process: a little longer than a user may take for a login."""

_POLL = 0.02


class TokenStore(Protocol):
    """A store of secrets by name."""

    async def load(self, name: str) -> bytes | None:
        """The content saved under a name; None if there is none."""
        ...

    async def save(self, name: str, content: bytes | None) -> None:
        """Save content under a name; None removes it."""
        ...

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold a lock under which no other user of the store renews what has this name."""
        ...


class MemoryTokens:
    """Token store in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def load(self, name: str) -> bytes | None:
        """The content saved under a name; None if there is none."""
        return self._contents.get(name)

    async def save(self, name: str, content: bytes | None) -> None:
        """Save content under a name; None removes it."""
        if content is None:
            self._contents.pop(name, None)
        else:
            self._contents[name] = content

    @contextlib.asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[None]:
        """Hold the lock of a name."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            yield


class _Sealed(msgspec.Struct, frozen=True):
    """The file: the source of its key, and what can be read without the key."""

    version: Literal[1]
    key: KeyOrigin
    owners: tuple[str, ...]
    """Digests of the servers (the first words of all names)."""
    content: bytes


class FileTokens:
    """Token store in one encrypted file in the user's configuration folder, readable by the user only.

    Its key is in the environment, in the system's keyring where there is one, or else beside it; a file stays with the
    key that it began with. It is replaced as a whole, so that whoever reads it finds the old or the new one, and gone
    when nothing is kept any more. Processes take turns through locks on files beside it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self.path = user_folder(environ) / "accounts" if path is None else Path(path)
        self._environ = environ
        EnvironmentKey(self.path, environ)  # refused now rather than in the middle of a login
        self._keys: dict[KeyOrigin, bytes] = {}

    async def load(self, name: str) -> bytes | None:
        """The content saved under a name; None if there is none."""
        return (await asyncio.to_thread(self._read)).get(name)

    async def save(self, name: str, content: bytes | None) -> None:
        """Save content under a name; None removes it."""
        async with self._locked("lock"):
            await asyncio.to_thread(self._change, name, content)

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a name, across processes."""
        return self._locked(f"{_digest(name)}.turn")

    async def names(self) -> list[str]:
        """All names."""
        return sorted(await asyncio.to_thread(self._read))

    def mentions(self, word: str) -> bool:
        """True if a stored name begins with this word; needs no key."""
        sealed = self._sealed()
        return sealed is not None and _digest(word) in sealed.owners

    @contextlib.asynccontextmanager
    async def _locked(self, kind: str) -> AsyncGenerator[None]:
        try:
            private_folder(self.path.parent)
            handle = os.open(self._beside(kind), os.O_RDWR | os.O_CREAT, 0o600)
        except FileUnusable as problem:
            raise StoreUnreadable(f"{self.path} cannot be used: {problem}") from problem
        except OSError as problem:
            raise StoreUnreadable(f"{self.path} cannot be used: {problem.strerror}") from problem
        try:
            try:
                async with asyncio.timeout(HELD_SECONDS):
                    while True:  # no system tells a loop when a lock is free
                        if try_lock(handle):
                            break
                        await asyncio.sleep(_POLL)
            except TimeoutError:
                raise LocalError(f"Another process has not released its lock on {self.path}") from None
            yield
        finally:
            os.close(handle)  # which ends the lock

    def _beside(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{kind}")

    def _sealed(self) -> _Sealed | None:
        try:
            content = read_file(self.path)
            return None if content is None else msgspec.msgpack.decode(content, type=_Sealed)
        except FileUnusable as problem:
            raise StoreUnreadable(str(problem)) from problem
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise StoreUnreadable(f"{self.path} is damaged: remove it and log in again") from None

    def _read(self) -> dict[str, bytes]:
        sealed = self._sealed()
        if sealed is None:
            return {}
        known = self._keys.get(sealed.key)
        content = None if known is None else _opened(sealed, known)
        if content is None:  # also where others have begun a new file, with another key
            key = self._source(sealed.key).find()
            content = _opened(sealed, key)
            if content is None:
                raise StoreUnreadable(
                    f"{self.path} cannot be read with this key: see {KEY_VARIABLE}, or remove the file and log in again"
                )
            self._keys[sealed.key] = key
        return content

    def _change(self, name: str, content: bytes | None) -> None:
        from cryptography.fernet import Fernet

        kept, sealed = self._read(), self._sealed()
        if content is None:
            kept.pop(name, None)
        else:
            kept[name] = content
        if not kept:
            self.path.unlink(missing_ok=True)
            return
        origin = preferred_key_origin(self._environ) if sealed is None else sealed.key
        if sealed is None:
            self._keys[origin] = self._source(origin).make()
        owners = sorted({_digest(each.partition(" ")[0]) for each in kept})
        box = Fernet(self._keys[origin]).encrypt(msgspec.msgpack.encode(kept))
        try:
            write_private(self.path, msgspec.msgpack.encode(_Sealed(1, origin, tuple(owners), box)))
        except FileUnusable as problem:
            raise StoreUnreadable(str(problem)) from problem

    def _source(self, origin: KeyOrigin) -> KeySource:
        return KEY_SOURCES[origin](self.path, self._environ)


def default_tokens(purpose: str = "accounts", environ: Mapping[str, str] = os.environ) -> FileTokens:
    """The user's own store, which the command line and every `Client` without `auth` share.

    What is secret and no login goes into one for another purpose: a file of its own, with a key of its own.
    """
    return FileTokens(user_folder(environ) / purpose, environ)


def account_name(url: str, label: str = "") -> str:
    """The name under which a login is stored: the server's canonical URL and the account's label."""
    from dovetail.auth.metadata import canonical_url

    if len(label) > MAX_LABEL or label != label.strip() or not label.isprintable():
        raise LocalError(f"The name of an account is a short text on one line, not {label[:MAX_LABEL]!r}")
    return f"{canonical_url(url)} {label}".strip()


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _opened(sealed: _Sealed, key: bytes) -> dict[str, bytes] | None:
    """The decrypted content of the file; None with a wrong key."""
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return msgspec.msgpack.decode(Fernet(key).decrypt(sealed.content), type=dict[str, bytes])
    except (InvalidToken, ValueError, msgspec.MsgspecError):
        return None
