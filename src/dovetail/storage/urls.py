"""URLs of stores: `memory:`, SQLite files and Redis."""

from __future__ import annotations

import difflib
import os
import re
from importlib.util import find_spec
from urllib.parse import unquote

from dovetail.types.errors import LocalError, missing_extra

from .contract import Store, StoreError

_REDIS = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_SCHEMES = ("memory", "sqlite", *_REDIS)
# A single letter is a drive of Windows.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_FORMS = "sqlite:///absolute/path, sqlite:relative/path, a plain path, redis://host, rediss://host, memory:"


def open_store(url: str | os.PathLike[str]) -> Store:
    """Open the store at a URL, or in the SQLite file at a path; LocalError for a URL that is wrong."""
    return StoreUrl(url).open()


class StoreUrl:
    """The URL of a store, checked as far as that is possible without opening it; its text has no credentials."""

    __slots__ = ("_location", "_scheme", "_shown", "_url")

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._url = self._shown = os.fspath(url)
        self._scheme, self._location = _split(self._url) if isinstance(url, str) else ("sqlite", self._url)
        if self._scheme in _REDIS:
            self._shown = _check_redis(self._url)

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"StoreUrl({str(self)!r})"

    @property
    def shared(self) -> bool:
        """True if other processes may use the same store."""
        return self._scheme != "memory"

    def absolute(self) -> str:
        """The URL for a process that has another working directory; it may contain credentials."""
        return os.path.abspath(self._location) if self._scheme == "sqlite" else self._url

    def open(self) -> Store:
        """Open the store; StoreError if that fails."""
        if self._scheme == "memory":
            from .memory import MemoryStore

            return MemoryStore()
        if self._scheme == "sqlite":
            from .sqlite import SqliteStore

            return SqliteStore(self._location)
        from .redis.store import RedisStore

        return RedisStore(self._url)


def _split(url: str) -> tuple[str, str]:
    """The scheme of a URL, and the path of its file."""
    match = _URL.fullmatch(url)
    if match is None:
        if not url:
            raise LocalError(f"The URL of the store is empty; stores are {_FORMS}")
        return "sqlite", url
    scheme, rest = match[1].lower(), match[2]
    if scheme not in _SCHEMES:
        near = difflib.get_close_matches(scheme, _SCHEMES, 1)
        # Only the scheme is quoted, since the rest may be a password.
        hint = f"did you mean {near[0]}:?" if near else f"stores are {_FORMS}; a file of this name is ./{scheme}:…"
        raise LocalError(f"There is no store with the scheme {scheme}: {hint}")
    if scheme == "memory" and rest not in {"", "//"}:
        raise LocalError("A store in memory has no name; write memory:")
    if scheme == "sqlite":
        rest = _file_of(rest)
    return scheme, rest


def _check_redis(url: str) -> str:
    """The URL of a store in Redis without its credentials."""
    if find_spec("redis") is None:
        raise missing_extra("redis", "A store in Redis")
    from .redis.address import parse_address

    try:
        return str(parse_address(url, os.environ))
    except StoreError as problem:
        raise LocalError(str(problem)) from None


def _file_of(rest: str) -> str:
    if rest.startswith("//"):
        rest = rest[2:]
        if rest and not rest.startswith("/"):
            raise LocalError(
                "sqlite:// is followed by an absolute path: sqlite:///absolute/path, or sqlite:relative/path"
            )
    path = unquote(rest)
    if path.strip("/") == "":
        raise LocalError("The URL of the store names no file; write sqlite:///absolute/path or sqlite:relative/path")
    if path == ":memory:":
        raise LocalError("A store in memory is memory:, not sqlite::memory:")
    return path
