"""Settings of a gateway: limits for each server, and profiles, as the configuration file has them."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
import msgspec.inspect

from dovetail.protocol.errors import LocalError

MAX_CHOICES = 10_000
"""Tools and prompts of which it is remembered if a profile has them."""

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
SecondsOrNone: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


class Credentials(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Credentials of the gateway, or of its caller, at a server behind a URL."""

    type: Literal["client-credentials", "token-exchange", "user-account"]
    """A token for the gateway itself, the same for all callers; for each caller, one in exchange for its own; or the
    account of each user at the server, who logs in there."""
    client_id: str | None = None
    """The client that the gateway is at the authorization server. For accounts one is registered if none is named."""
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server. Secrets, and tokens of callers, are sent to this one only, whatever a server names."""
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    """The audience to name in an exchange, where the authorization server knows servers by names and not by URLs."""

    def __post_init__(self) -> None:
        kind = f"credentials of the type {self.type}"
        if self.client_id is None and self.type != "user-account":
            raise ValueError(f"{kind} need a clientId")
        if self.type == "token-exchange" and self.issuer is None:
            raise ValueError(f"{kind} need an issuer, which callers' tokens are sent to")
        if self.type == "client-credentials" and (self.client_secret is None or self.issuer is None):
            raise ValueError(f"{kind} need a clientSecret, and the issuer that it is sent to")
        if self.client_id is None and (self.client_secret is not None or self.issuer is not None):
            raise ValueError("a clientSecret or an issuer goes with the clientId that it belongs to")
        if self.type == "user-account" and self.client_secret is not None and self.issuer is None:
            raise ValueError(f"{kind} with a clientSecret need the issuer, so that it is sent to no other")
        if self.audience is not None and self.type != "token-exchange":
            raise ValueError(f"{kind} have no audience")

    def __repr__(self) -> str:
        return f"Credentials(type={self.type!r}, client_id={self.client_id!r}, issuer={self.issuer!r})"


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Accounts of users at servers: where users log in, and how their tokens are encrypted in the store."""

    url: str | None = None
    """The public URL of the gateway, such as `https://tools.example.com`; users log in at `/accounts` below it."""
    keys: tuple[str, ...] = ()
    """Secrets of 16 characters or more: the first encrypts, all decrypt. They are not kept in the store."""
    client_id: str | None = None
    """The client that the gateway is where its callers get their tokens; one is registered if none is named."""
    client_secret: str | None = None

    def __post_init__(self) -> None:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("a clientSecret of accounts goes with the clientId that it belongs to")

    def __repr__(self) -> str:
        return f"AccountSettings(url={self.url!r}, client_id={self.client_id!r})"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of one server behind a gateway; in the file they stand under `gateway` of the server."""

    shared: bool = False
    """One connection for all clients, also where the server keeps state for each connection."""
    timeout: Seconds = 60
    """Seconds to wait for an answer; progress extends them."""
    max_timeout: Seconds = 600
    """Seconds up to which progress extends the timeout."""
    connect_seconds: Seconds = 20
    """Seconds to wait for a server to start or to be reached."""
    list_seconds: Seconds = 5
    """Seconds that a list waits for this server; what it offers is then missing from the list."""
    idle_seconds: SecondsOrNone = 900
    """Seconds after which an unused connection is closed."""
    grace_seconds: SecondsOrNone = 60
    """Seconds for which the tools of a server that fails stay in the lists."""
    trusted: bool = False
    """Rules that allow a call because of annotations believe those of this server."""
    credentials: Credentials | None = None
    """The credentials of requests to the server, besides the headers of its entry."""


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Authentication of callers, for a gateway that is started from a file; in code it is `auth`."""

    type: Literal["jwt", "introspection", "static"]
    """Signed tokens of an issuer, tokens that the issuer is asked about, or fixed tokens for development."""
    issuer: str | None = None
    audience: str | tuple[str, ...] = ()
    """The audience of which a token must be, usually the public URL of the endpoint."""
    scopes: tuple[str, ...] = ()
    """The scopes that every request needs."""
    client_id: str | None = None
    client_secret: str | None = None
    """The client that the gateway is at the issuer, for introspection."""
    tokens: Mapping[str, str] = {}
    """The fixed token of each user."""
    groups: Mapping[str, tuple[str, ...]] = {}
    """The groups of each user with a fixed token."""

    def __post_init__(self) -> None:
        if self.type == "static":
            self._check_static()
        elif self.tokens or self.groups:
            raise ValueError(f"auth of the type {self.type} has no tokens and no groups: the issuer's tokens name them")
        elif self.issuer is None or not self.audience:
            raise ValueError(f"auth of the type {self.type} needs an issuer and an audience")
        elif self.type == "introspection" and (self.client_id is None or self.client_secret is None):
            raise ValueError("auth of the type introspection needs a clientId and a clientSecret")
        elif self.type == "jwt" and (self.client_id is not None or self.client_secret is not None):
            raise ValueError("auth of the type jwt has no clientId; for logins of users, it is one of `accounts`")

    def _check_static(self) -> None:
        if not self.tokens:
            raise ValueError("auth of the type static needs tokens: the token of each user")
        if self.issuer is not None or self.audience or self.scopes or self.client_id or self.client_secret:
            raise ValueError("auth of the type static has tokens and groups only")
        users: dict[str, str] = {}
        for user, token in self.tokens.items():
            if not token.strip():
                raise ValueError(f"auth: the token of {user} is empty")
            if token in users:
                raise ValueError(f"auth: {users[token]} and {user} have the same token")
            users[token] = user
        if unknown := [user for user in self.groups if user not in self.tokens]:
            raise ValueError(f"auth: there are groups of {unknown[0]}, who has no token")

    def __repr__(self) -> str:
        return f"AuthSettings(type={self.type!r}, issuer={self.issuer!r}, audience={self.audience!r})"


class SearchLimits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits above which clients get three tools that search, describe and call the others, in place of all."""

    tools: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Estimated tokens of all definitions together."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A named choice of servers and tools, served at a path of its own."""

    servers: tuple[str, ...] = ("*",)
    """The keys of servers, or patterns such as `git*`."""
    tools: tuple[str, ...] = ("*",)
    """Servers and tools, as `git__read_*`: the part before `__` fits the key of a server, that after it the name that
    the tool has there. A name as clients see it is of that tool only."""
    exclude: tuple[str, ...] = ()
    """Tools, prompts or resources of these patterns are left out, with the names that they have at their server, or
    with those that clients see."""
    search_above: SearchLimits | None = None
    """Limits for this profile; by default those of the gateway."""

    def has_server(self, key: str) -> bool:
        """True if the profile has a server."""
        return any(fnmatchcase(key, pattern) for pattern in self.servers)

    def has_tool(self, server: str, name: str, shown: str) -> bool:
        """True if the profile has a tool, by its server, its name there, and the name that clients see."""
        return _has_tool(self, server, name, shown)

    def has_prompt(self, server: str, name: str, shown: str) -> bool:
        """True if the profile has a prompt, by the same."""
        return _has_prompt(self, server, name, shown)

    def has_uri(self, uri: str) -> bool:
        """True if the profile has a resource."""
        return not any(fnmatchcase(uri, pattern) for pattern in self.exclude)


@functools.lru_cache(MAX_CHOICES)
def _has_prompt(profile: Profile, server: str, name: str, shown: str) -> bool:
    # What clients see may be shortened or changed, so that the end of a name is not in it.
    names = (f"{server}__{name}", shown)
    return not any(fnmatchcase(one, pattern) for pattern in profile.exclude for one in names)


@functools.lru_cache(MAX_CHOICES)
def _has_tool(profile: Profile, server: str, name: str, shown: str) -> bool:
    return _has_prompt(profile, server, name, shown) and any(
        pattern == shown or _chooses(pattern, server, name) for pattern in profile.tools
    )


def _chooses(pattern: str, server: str, name: str) -> bool:
    """True if a pattern fits a tool: its two parts each fit, so that `a__*` has nothing of a server `a__b`."""
    ends = [found.start() for found in re.finditer("(?=__)", pattern)]
    if not ends:
        return fnmatchcase(f"{server}__{name}", pattern)
    return any(fnmatchcase(server, pattern[:end]) and fnmatchcase(name, pattern[end + 2 :]) for end in ends)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of a gateway; in the file they stand under `gateway`."""

    name: str = "gateway"
    title: str | None = None
    instructions: str | None = None
    search_above: SearchLimits | None = None
    profiles: Mapping[str, Profile] = {}
    policy: str | dict[str, Any] | None = None
    """The rules, or the TOML file that has them, relative to the configuration file."""
    lockfile: str | None = None
    """The lockfile, relative to the configuration file; definitions that differ from it are held back."""
    audit: str | None = None
    """The audit log, relative to the configuration file."""
    rate_limit: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Calls, prompts and resources per second for each principal, or for each address without authentication."""
    burst: Annotated[float, msgspec.Meta(ge=1)] | None = None
    """The number of them that may come at once."""
    auth: AuthSettings | None = None
    """Authentication of callers."""
    accounts: AccountSettings | None = None
    """Accounts of users at servers whose credentials are of the type `user-account`."""
    group_claims: tuple[str, ...] = ("groups", "roles")
    """Claims of tokens that name the groups of the caller."""
    status_groups: tuple[str, ...] = ()
    """Groups whose members read `/status` and `/metrics`; without any, every caller does."""


LIVE = ("instructions", "search_above", "profiles", "rate_limit", "burst")
"""Settings that are taken over while the gateway runs, as the rules of `policy` are."""

AT_START = ("name", "title", "lockfile", "audit", "auth", "accounts", "group_claims", "status_groups")
"""Settings that count from the start of the gateway to its end."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?", re.DOTALL)
"""The text of msgspec about a field that a struct does not have, and about the place of the struct."""


def read_settings(kind: type[Any], value: object, place: str) -> Any:
    """Settings from JSON values; `LocalError` names the place and what is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        unknown = _UNKNOWN.fullmatch(str(problem))
        text = str(problem) if unknown is None else _unknown_field(kind, unknown[1], unknown[2] or "")
        raise LocalError(f"{place}: {text}") from None


def _unknown_field(kind: type[Any], name: str, path: str) -> str:
    """The error for a field that is not known, with the one that was meant."""
    where = f" - at `${path}`" if path else ""
    fields = _fields_at(kind, path)
    near = difflib.get_close_matches(name, fields, 1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(fields)}" if fields else ""
    return f"unknown field `{name}`{where}{hint}"


def _fields_at(kind: type[Any], path: str) -> list[str]:
    """The names of the fields of the settings at a path, such as `.profiles[...].searchAbove`."""
    structs = [msgspec.inspect.type_info(kind)]
    for step in re.findall(r"\.([^.\[\]]+)|(\[)", path):
        structs = [inner for each in structs for inner in _inner_types(each, step[0])]
    flat = [one for each in structs for one in _alternatives(each)]
    return [field.encode_name for one in flat if isinstance(one, msgspec.inspect.StructType) for field in one.fields]


def _inner_types(kind: msgspec.inspect.Type, field: str) -> list[msgspec.inspect.Type]:
    """The types of one field of settings, or, without a name, of the values of a mapping."""
    found: list[msgspec.inspect.Type] = []
    for one in _alternatives(kind):
        if isinstance(one, msgspec.inspect.StructType):
            found += [each.type for each in one.fields if each.encode_name == field]
        elif isinstance(one, msgspec.inspect.DictType) and not field:
            found.append(one.value_type)
    return found


def _alternatives(kind: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    return kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)


def server_settings(value: Mapping[str, Any], place: str) -> ServerSettings:
    """The settings of one server, from its entry in the file: those under `gateway`, and `shared` beside them."""
    given = value.get("gateway", {})
    if not isinstance(given, dict):
        raise LocalError(f"{place}: `gateway` must be an object")
    fields: dict[str, Any] = dict(cast("dict[str, Any]", given))
    if "shared" in value:
        fields["shared"] = value["shared"]
    settings: ServerSettings = read_settings(ServerSettings, fields, place)
    return settings
