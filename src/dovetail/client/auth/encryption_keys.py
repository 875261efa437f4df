"""Sources of the key of an encrypted file: the environment, the system's keyring, or a file beside it."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from dovetail.protocol.errors import LocalError
from dovetail.types.errors import install_extra
from dovetail.userdata.private_file import FileUnusable, create_private

from . import system_keyring
from .system_keyring import KEYRING_VARIABLE, KeyringFailed

KEY_VARIABLE = "DOVETAIL_TOKEN_KEY"
"""A text of at least 32 characters, from which the key is derived."""
MIN_KEY = 32

_REMEDY = f"unlock it, or do without it: {KEYRING_VARIABLE}=off"

KeyOrigin: TypeAlias = Literal["environment", "keyring", "file"]


class StoreUnreadable(LocalError):
    """An encrypted file cannot be read now; the message says what to do."""


class KeySource(Protocol):
    """One of the sources."""

    def find(self) -> bytes:
        """The key of an existing file; raises `StoreUnreadable` where it is not available."""
        ...

    def make(self) -> bytes:
        """The key for a new file: an existing key, or a new one. The caller holds the lock of the file."""
        ...


class EnvironmentKey:
    """Key derived from an environment variable; it is stored nowhere."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self._secret = environ.get(KEY_VARIABLE)
        if self._secret is not None and len(self._secret) < MIN_KEY:
            raise LocalError(f"{KEY_VARIABLE} is to have at least {MIN_KEY} characters")

    def find(self) -> bytes:
        """Derive the key."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        if self._secret is None:
            raise StoreUnreadable(f"{self._path} was encrypted with {KEY_VARIABLE}, which is not set now")
        made = HKDF(SHA256(), 32, salt=None, info=b"dovetail tokens").derive(self._secret.encode())
        return urlsafe_b64encode(made)

    make = find


class KeyringKey:
    """Key in the system's keyring, under the path of the file; the file alone is useless to a thief."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self._name = f"key of {path.absolute()}"
        self._off = environ.get(KEYRING_VARIABLE) == "off"

    def find(self) -> bytes:
        """Read the key from the keyring."""
        what = f"{self._path} cannot be read: its key is in the system's keyring"
        if self._off:
            raise StoreUnreadable(f"{what}, and {KEYRING_VARIABLE}=off forbids to look there")
        try:
            key = system_keyring.read(self._name) if system_keyring.is_available() else None
        except KeyringFailed as problem:
            raise StoreUnreadable(f"{what}. {problem}: unlock it, or remove the file and log in again") from problem
        if key is None:
            raise StoreUnreadable(
                f"{what}, where it is not found now: run this where the keyring is, with the extra keyring "
                f"installed: {install_extra('keyring')}; or remove the file and log in again"
            )
        return key.encode()

    def make(self) -> bytes:
        """Create the key if there is none, and read it back, which shows that the keyring keeps it."""
        try:
            if system_keyring.read(self._name) is None:
                system_keyring.write(self._name, urlsafe_b64encode(secrets.token_bytes(32)).decode())
        except KeyringFailed as problem:
            raise StoreUnreadable(f"{self._path} cannot be written. {problem}: {_REMEDY}") from problem
        return self.find()


class KeyFile:
    """Key in a file beside the encrypted one: protects against a look at one of them, not against a reader of both."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self._beside = path.with_name(f"{path.name}.key")

    def find(self) -> bytes:
        """Read the key file."""
        try:
            return self._beside.read_bytes()
        except OSError as problem:
            raise StoreUnreadable(
                f"{self._path} cannot be read without {self._beside.name}, which is beside it no longer "
                f"({problem.strerror}): bring it back, or remove both and log in again"
            ) from None

    def make(self) -> bytes:
        """Create the key file if there is none; of two processes that do so at once, both use the first one's key."""
        if not self._beside.exists():
            try:
                create_private(self._beside, urlsafe_b64encode(secrets.token_bytes(32)))
            except FileUnusable as problem:
                raise StoreUnreadable(str(problem)) from problem
        return self.find()


KEY_SOURCES: Mapping[KeyOrigin, Callable[[Path, Mapping[str, str]], KeySource]] = {
    "environment": EnvironmentKey,
    "keyring": KeyringKey,
    "file": KeyFile,
}


def preferred_key_origin(environ: Mapping[str, str]) -> KeyOrigin:
    """The source for the key of a new file."""
    if environ.get(KEY_VARIABLE) is not None:
        return "environment"
    if environ.get(KEYRING_VARIABLE) == "off":
        return "file"
    try:
        return "keyring" if system_keyring.is_available() else "file"
    except KeyringFailed as problem:
        raise StoreUnreadable(f"{problem}: {_REMEDY}") from problem
