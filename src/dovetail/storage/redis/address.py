"""URLs of Redis servers: one server, Sentinel or Cluster, with or without TLS.

    redis://[user:password@]host[:port][/database]
    redis+sentinel://[user:password@]host[:port],host[:port]…/service[/database]
    redis+cluster://[user:password@]host[:port],host[:port]…

`rediss` instead of `redis` uses TLS. The password may come from the environment instead, so that it is in no command
line and no process list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from dovetail.storage.contract import StoreError

USERNAME = "DOVETAIL_REDIS_USERNAME"
PASSWORD = "DOVETAIL_REDIS_PASSWORD"
PORT = 6379
SENTINEL_PORT = 26379

Mode = Literal["single", "sentinel", "cluster"]

_URL = re.compile(r"([^:/?#]+):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
"""The parts of a URL (RFC 3986, appendix B). Of several hosts urllib accepts no IPv6 address, since Python 3.14."""

_MODES: dict[str, Mode] = {"": "single", "sentinel": "sentinel", "cluster": "cluster"}
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS_CHECKS = {"ssl_cert_reqs": ("required", "optional", "none"), "ssl_check_hostname": ("true", "false")}
_SENTINEL = ("sentinel_username", "sentinel_password")
_FORMS = {
    "single": "redis://[user:password@]host[:port][/database]",
    "sentinel": "redis+sentinel://[user:password@]host[:port],host[:port]…/service[/database]",
    "cluster": "redis+cluster://[user:password@]host[:port],host[:port]…",
}


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Servers, credentials and TLS options of a store; its text has no credentials."""

    mode: Mode
    servers: tuple[tuple[str, int], ...]
    """Redis servers, or the Sentinels, or some nodes of the cluster."""
    database: int = 0
    service: str = ""
    """The name under which the Sentinels know the master."""
    tls: bool = False
    tls_options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        scheme = ("rediss" if self.tls else "redis") + ("" if self.mode == "single" else f"+{self.mode}")
        servers = ",".join(format_server(*server) for server in self.servers)
        service = f"/{self.service}" if self.service else ""
        database = "" if self.mode == "cluster" else f"/{self.database}"
        return f"{scheme}://{servers}{service}{database}"


def format_server(host: str, port: int) -> str:
    """Host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(url: str, environment: Mapping[str, str]) -> RedisAddress:
    """Parse a URL; no error quotes it, because it may contain a password."""
    match = _URL.fullmatch(url)
    scheme, location, path, query, fragment = match.groups("") if match is not None else ("", "", "", "", "")
    base, plus, kind = scheme.lower().partition("+")
    mode = _MODES.get(kind)
    if base not in {"redis", "rediss"} or mode is None or (plus and not kind):
        raise StoreError(
            "The URL of a Redis store starts with redis://, rediss://, redis+sentinel:// or redis+cluster://"
        )
    if fragment:
        # A '#' in a password ends the URL early, and what follows it would be ignored silently.
        raise StoreError("The URL of the Redis store contains '#'; in a password write it as %23")
    credentials, _, hosts = location.rpartition("@")
    username, colon, password = credentials.partition(":")
    service, database = _parse_path(path, mode)
    options = _parse_query(query, tls=base == "rediss", mode=mode)
    return RedisAddress(
        mode=mode,
        servers=tuple(_parse_server(host, SENTINEL_PORT if mode == "sentinel" else PORT) for host in hosts.split(",")),
        database=database,
        service=service,
        tls=base == "rediss",
        tls_options=options[0],
        username=unquote(username) or environment.get(USERNAME) or None,
        password=unquote(password) if colon else environment.get(PASSWORD) or None,
        sentinel_username=options[1].get("sentinel_username"),
        sentinel_password=options[1].get("sentinel_password"),
    )


def _parse_server(text: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit("//" + text)
        host, given = parts.hostname, parts.port
    except ValueError:
        raise StoreError(
            "The URL of the Redis store has a port that is not a number from 0 to 65535, or an address in brackets "
            "that cannot be parsed"
        ) from None
    if not host or parts.username is not None:
        raise StoreError(
            "The URL of the Redis store has no host; in a password write '@', '/' and ',' as %40, %2F and %2C"
        )
    return host, port if given is None else given


def _parse_path(path: str, mode: Mode) -> tuple[str, int]:
    """The service name and the number of the database."""
    parts = [unquote(part) for part in path.split("/")[1:] if part]
    service = ""
    if mode == "sentinel":
        if not parts:
            raise StoreError(f"The URL names no service: {_FORMS[mode]}")
        service = parts.pop(0)
    if mode == "cluster" and parts in ([], ["0"]):
        return service, 0
    if not parts:
        return service, 0
    if mode == "cluster" or len(parts) > 1 or not (parts[0].isascii() and parts[0].isdigit()):
        raise StoreError(f"The path in the URL of the Redis store is not understood; its form is {_FORMS[mode]}")
    return service, int(parts[0])


def _parse_query(query: str, *, tls: bool, mode: Mode) -> tuple[dict[str, Any], dict[str, str]]:
    """Options for TLS, and options for Sentinel."""
    known = [*(TLS_FILES if tls else ()), *(_TLS_CHECKS if tls else ()), *(_SENTINEL if mode == "sentinel" else ())]
    tls_options: dict[str, Any] = {"ssl_check_hostname": True} if tls else {}
    others: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            choices = f"it may have {', '.join(known)}" if known else "TLS options need rediss://"
            raise StoreError(f"The URL of the Redis store has an unknown option {name!r}; {choices}")
        if name in _SENTINEL:
            others[name] = value
        elif name in _TLS_CHECKS and value.lower() not in _TLS_CHECKS[name]:
            raise StoreError(f"The option {name} of the Redis store is one of {', '.join(_TLS_CHECKS[name])}")
        elif name == "ssl_check_hostname":
            tls_options[name] = value.lower() == "true"
        else:
            tls_options[name] = value
    return tls_options, others
