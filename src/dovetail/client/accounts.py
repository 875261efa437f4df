"""Where logins are kept between requests, and between starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from dovetail.protocol.errors import LocalError

KEY_VARIABLE = "DOVETAIL_TOKEN_KEY"
"""A text of at least 32 characters, from which the key of the file is made; else a key is generated beside it."""
MIN_KEY = 32
HELD_SECONDS = 330.0
"""How long to wait for another process: a little longer than a user may take for a login."""

_POLL = 0.02


class TokenStore(Protocol):
    """Keeps secrets by name."""

    async def load(self, name: str) -> bytes | None:
        """What was saved under a name."""
        ...

    async def save(self, name: str, content: bytes | None) -> None:
        """Keep something under a name, or nothing any more."""
        ...

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        """While it lasts, nobody else who shares the store renews what has this name."""
        ...


class MemoryTokens:
    """Forgets everything at the end of the program."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def load(self, name: str) -> bytes | None:
        """What was saved under a name."""
        return self._kept.get(name)

    async def save(self, name: str, content: bytes | None) -> None:
        """Keep something under a name, or nothing any more."""
        if content is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = content

    @contextlib.asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[None]:
        """One at a time."""
        async with self._turns.setdefault(name, asyncio.Lock()):
            yield


class FileTokens:
    """One encrypted file in the user's configuration folder, which only the user can read.

    It is replaced as a whole, so that whoever reads it finds the old or the new one. Processes take turns through
    locks on files beside it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self.path = default_path(environ) if path is None else Path(path)
        self._secret = environ.get(KEY_VARIABLE)
        if self._secret is not None and len(self._secret) < MIN_KEY:
            raise LocalError(f"{KEY_VARIABLE} is to have at least {MIN_KEY} characters")

    async def load(self, name: str) -> bytes | None:
        """What was saved under a name."""
        return (await asyncio.to_thread(self._read)).get(name)

    async def save(self, name: str, content: bytes | None) -> None:
        """Keep something under a name, or nothing any more."""
        async with self._locked("lock"):
            await asyncio.to_thread(self._change, name, content)

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        """One process at a time."""
        return self._locked(f"{sha256(name.encode()).hexdigest()[:16]}.turn")

    async def names(self) -> list[str]:
        """Everything that something is kept under."""
        return sorted(await asyncio.to_thread(self._read))

    @contextlib.asynccontextmanager
    async def _locked(self, kind: str) -> AsyncGenerator[None]:
        _private_folder(self.path.parent)
        handle = os.open(self._beside(kind), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                async with asyncio.timeout(HELD_SECONDS):
                    while True:  # no system tells a loop when a lock is free
                        if _try_lock(handle):
                            break
                        await asyncio.sleep(_POLL)
            except TimeoutError:
                raise LocalError(f"Another process has not let go of {self.path}") from None
            yield
        finally:
            os.close(handle)  # which ends the lock

    def _beside(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{kind}")

    def _read(self) -> dict[str, bytes]:
        from cryptography.fernet import Fernet, InvalidToken

        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.msgpack.decode(Fernet(self._key()).decrypt(content), type=dict[str, bytes])
        except (InvalidToken, ValueError, msgspec.MsgspecError):
            raise LocalError(
                f"{self.path} cannot be read with this key: see {KEY_VARIABLE}, or remove the file and log in again"
            ) from None

    def _change(self, name: str, content: bytes | None) -> None:
        from cryptography.fernet import Fernet

        kept = self._read()
        if content is None:
            kept.pop(name, None)
        else:
            kept[name] = content
        _write(self.path, Fernet(self._key()).encrypt(msgspec.msgpack.encode(kept)), os.replace)

    def _key(self) -> bytes:
        if self._secret is not None:
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF

            made = HKDF(SHA256(), 32, salt=None, info=b"dovetail tokens").derive(self._secret.encode())
            return urlsafe_b64encode(made)
        path = self._beside("key")
        if not path.exists():
            # Of two that make a key at once, the first one's is used by both.
            with contextlib.suppress(FileExistsError):
                _write(path, urlsafe_b64encode(secrets.token_bytes(32)), os.link)
        return path.read_bytes()


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The file in the folder where a user's programs keep their settings."""
    home = Path.home()
    if sys.platform == "win32":
        base = environ.get("APPDATA") or home / "AppData" / "Roaming"
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(base) / "dovetail" / "accounts"


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, content: bytes, into_place: Callable[[Path, Path], None]) -> None:
    """Write a file that never is there in part, and that nobody else can read."""
    _private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        into_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _try_lock(handle: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
