"""Errors of Redis as errors of a store, with what to do about them and without credentials."""

from __future__ import annotations

from redis import exceptions

from dovetail.storage.contract import StoreError, StoreUnavailable, StoreUnusable
from dovetail.text.redact import redact_text

_UNAVAILABLE = {
    "BUSY": "is busy with a script of another program",
    "CLUSTERDOWN": "is a node of a cluster that is down",
    "MASTERDOWN": "is a replica without its master",
    "MISCONF": "accepts no writes, because it cannot save them to its disk",
    "NOREPLICAS": "accepts no writes, because it has too few replicas",
    "TRYAGAIN": "is moving the key to another node",
    "UNKILLABLE": "is busy with a script of another program",
}
"""By the first word of an error reply."""


def from_connecting(problem: BaseException, server: str, *, tls: bool = False) -> StoreError:
    """The error for a server that could not be reached, or that did not let us in."""
    text = _describe(problem)
    if isinstance(problem, exceptions.AuthenticationError):
        return StoreUnusable(
            f"Redis at {server} refused the credentials: {text}. Check the user and the password in the URL, or in "
            "DOVETAIL_REDIS_USERNAME and DOVETAIL_REDIS_PASSWORD"
        )
    if isinstance(problem, exceptions.NoPermissionError):
        return _denied(problem, server)
    if isinstance(problem, exceptions.ResponseError):
        if "DB index" in text or "SELECT is not allowed" in text:
            return StoreUnusable(f"Redis at {server} has no such database: {text}. Check the number in the URL's path")
        return from_reply(problem, server)
    if isinstance(problem, (TimeoutError, exceptions.TimeoutError)):
        hint = ". Check that it expects TLS" if tls else ""
        return StoreUnavailable(f"Redis at {server} did not answer in time{hint}")
    if isinstance(problem, exceptions.BusyLoadingError):
        return StoreUnavailable(f"Redis at {server} is still loading its data")
    if "certificate" in text.lower() or "ssl" in text.lower():
        return StoreUnavailable(
            f"No TLS connection to Redis at {server}: {text}. Check that it expects TLS, and its certificate; "
            "the URL's option ssl_ca_certs names a file of trusted certificates"
        )
    return StoreUnavailable(f"Redis at {server} cannot be reached: {text}")


def from_reply(problem: exceptions.ResponseError, server: str) -> StoreError:
    """The error for a command that a server refused."""
    text = _describe(problem)
    code = text.split(" ", 1)[0]
    if isinstance(problem, exceptions.OutOfMemoryError) or "OOM command not allowed" in text:
        return StoreUnavailable(f"Redis at {server} has no memory left (maxmemory); it accepts no writes now")
    if isinstance(problem, exceptions.ReadOnlyError):
        return StoreUnavailable(f"Redis at {server} is a read-only replica; its master is elsewhere")
    if isinstance(problem, exceptions.NoPermissionError):
        return _denied(problem, server)
    if isinstance(problem, (exceptions.MovedError, exceptions.AskError)):
        return StoreUnusable(f"Redis at {server} is a node of a cluster; use a URL that starts with redis+cluster://")
    for kind, name in ((exceptions.ClusterDownError, "CLUSTERDOWN"), (exceptions.TryAgainError, "TRYAGAIN")):
        if isinstance(problem, kind):
            return StoreUnavailable(f"Redis at {server} {_UNAVAILABLE[name]}: {text}")
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"Redis at {server} {_UNAVAILABLE[code]}")
    if code == "WRONGTYPE" or "WRONGTYPE" in text:
        return StoreUnusable(f"Redis at {server} has keys of another program under our prefix; choose another prefix")
    return StoreError(f"Redis at {server} refused a command: {text}")


def _denied(problem: Exception, server: str) -> StoreError:
    return StoreUnusable(
        f"Redis at {server} does not allow its user what the store needs: {_describe(problem)}. The user needs the "
        "keys and channels with the store's prefix, and the commands in docs/redis.md"
    )


def _describe(problem: BaseException) -> str:
    """The text of an error in one line, without secrets."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return redact_text(text[:300]).rstrip(".?")
