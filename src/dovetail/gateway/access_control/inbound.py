"""Callers of a gateway: who sent a request, with which groups, for which audience, and the token that it came with.

The token is for the gateway. It is handed to nobody but the authorization server that exchanges it for another one
(`credentials`), so that it is not part of the call, which handlers and middleware see. The verifier of the gateway
leaves it in a context variable, which the tasks that serve the request inherit. What runs later than that, in a
process that has not seen the request, has the caller without the token.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import msgspec

from dovetail.auth import scopes
from dovetail.auth.errors import TokenRefused, TokenUnusable, Untrusted
from dovetail.auth.metadata import canonical_url
from dovetail.auth.token_verification import Principal
from dovetail.gateway.settings import AuthSettings
from dovetail.server.auth.verifiers import Introspection, JWTVerifier, StaticTokens, Verified, Verifier, Verify
from dovetail.server.session import ServerCall

GROUP_CLAIMS = ("groups", "roles")
"""Claims of a token that name the groups of its subject."""

MAX_GROUPS = 1000
"""Groups of one caller; a token that names more is refused, because rules that deny a group must see all of them."""


class Caller(msgspec.Struct, frozen=True):
    """The authenticated caller of a request."""

    name: str
    groups: frozenset[str] = frozenset()
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    token: str = ""

    @property
    def key(self) -> Hashable:
        """Equal for requests that may use the same credentials.

        One client may hold less rights than another, and a user who has left a group less than before.
        """
        return self.name, self.client_id, self.scopes, self.groups

    def __repr__(self) -> str:
        return f"Caller(name={self.name!r})"


_caller: ContextVar[Caller | None] = ContextVar("dovetail-gateway-caller", default=None)

_Awaited: TypeAlias = "Awaitable[Verified]"


class ViewEndpoint(NamedTuple):
    """The URL of a view: the endpoint of all servers, and the paths of the view below it, with the first preferred."""

    endpoint: str
    """The path of the endpoint of all servers."""
    resource: str | None = None
    """The public URL of the endpoint of all servers, if it was given."""
    view: str = ""
    """The name of the view, "" for all servers."""
    paths: tuple[str, ...] = ()

    def audience(self, given: Sequence[str]) -> tuple[str, ...]:
        """The audiences of which a token for this view must name one, of those that were given for the gateway.

        A token for the endpoint of all servers counts at each view, because it may do more anyway. A token for one view
        (RFC 8707) counts there only, whether its audience was given or is that of the endpoint with the path of the
        view. What is no URL of the gateway, as `api://tools`, counts at each view.
        """
        places = {one: self._place(one) for one in given}
        general = [one for one, place in places.items() if not place]
        if not self.view:
            return tuple(general)
        endpoints = [one for one in general if places[one] == "" and not {"?", "#"} & set(one)]
        if self.resource is not None and any(self._is_resource(one) for one in endpoints):
            endpoints.insert(0, self.resource)
        own = [f"{one.rstrip('/')}/{path}" for path in self.paths for one in endpoints]
        named = [one for one, place in places.items() if place == self.view]
        return tuple(dict.fromkeys((*own, *named, *general)))

    def _place(self, audience: str) -> str | None:
        """The view whose URL an audience is, "" for the endpoint; None if it is no URL of the gateway."""
        try:
            parts = urlsplit(audience)
        except ValueError:
            return None
        if parts.scheme not in ("http", "https"):
            return None
        if self._is_resource(audience):
            return ""
        endpoint = [part for part in self.endpoint.split("/") if part]
        segments = [unquote(part) for part in parts.path.split("/") if part]
        for start in range(len(segments) - len(endpoint) + 1):
            kind, *name = segments[start + len(endpoint) :] or [""]
            if segments[start : start + len(endpoint)] == endpoint and kind in ("server", "profile") and name:
                return "/".join((kind, *name))
        return "" if segments[len(segments) - len(endpoint) :] == endpoint else None

    def _is_resource(self, audience: str) -> bool:
        """True if an audience is the public URL of the endpoint, however it is written."""
        if self.resource is None:
            return False
        try:
            return canonical_url(audience).rstrip("/") == canonical_url(self.resource).rstrip("/")
        except (ValueError, Untrusted):
            return False


class CallerVerifier(Verifier):
    """The verifier of a gateway: that which was given, and a note of the caller for the request that follows."""

    def __init__(self, verify: Verify, group_claims: tuple[str, ...] = GROUP_CLAIMS) -> None:
        rules = verify if isinstance(verify, Verifier) else Verifier()
        self.issuer, self.audience, self.scopes = rules.issuer, rules.audience, rules.scopes
        self.implies, self.dpop = rules.implies, rules.dpop
        self._verify = verify
        self._group_claims = group_claims

    async def __call__(self, token: str) -> Principal | None:
        """The principal of a token."""
        _caller.set(None)
        verified = self._verify(token)
        found = await cast(_Awaited, verified) if inspect.isawaitable(verified) else verified
        principal = Principal(subject=found) if isinstance(found, str) else found
        if principal is not None:
            _caller.set(
                Caller(
                    name=principal.name_for_issuer(self.issuer),
                    groups=groups_of(principal.claims, self._group_claims),
                    client_id=principal.client_id,
                    scopes=tuple(sorted(principal.scopes)),
                    token=token,
                )
            )
        return principal

    def for_view(self, view: ViewEndpoint) -> CallerVerifier:
        """The verifier of the tokens for a view.

        It is this one if the verifier that was given decides about audiences by itself.
        """
        if not isinstance(self._verify, Verifier):
            return self
        audience = view.audience(self.audience)
        verify = self._verify if audience == self.audience else self._verify.with_audience(audience)
        if verify is self._verify:
            return self
        other = copy.copy(self)
        other.audience, other._verify = audience, verify
        return other

    async def name_of(self, token: str, *, bound: bool) -> str:
        """The name of the principal of a token that came by itself; raises `TokenRefused`.

        It must be one that the endpoint would accept. One that is bound to a key proves nothing without it: `bound`
        says that the key is known here.
        """
        principal = await self(token)
        if principal is None:
            raise TokenRefused("The token is not accepted")
        if principal.thumbprint is not None and not bound:
            raise TokenRefused("The token is bound to a key, which did not come with it")
        if principal.thumbprint is None and self.dpop:
            raise TokenRefused("The token is not bound to a key")
        if missing := set(self.scopes) - scopes.implied(principal.scopes, self.implies):
            raise TokenRefused(f"The token does not have the scopes {', '.join(sorted(missing))}")
        return principal.name_for_issuer(self.issuer)


def make_verifier(settings: AuthSettings) -> Verifier:
    """The verifier that the settings describe."""
    if settings.type == "static":
        tokens = {
            token: Principal(subject=user, claims={"groups": list(settings.groups.get(user, ()))})
            for user, token in settings.tokens.items()
        }
        return StaticTokens(tokens, scopes=settings.scopes)
    assert settings.issuer is not None
    if settings.type == "jwt":
        return JWTVerifier(issuer=settings.issuer, audience=settings.audience, scopes=settings.scopes)
    assert settings.client_id is not None
    assert settings.client_secret is not None
    return Introspection(
        issuer=settings.issuer,
        audience=settings.audience,
        scopes=settings.scopes,
        client_id=settings.client_id,
        client_secret=settings.client_secret,
    )


def caller_of(call: ServerCall) -> Caller | None:
    """The caller of a request; None without authentication, and for work that has lost the caller of its request."""
    # Whatever the context says, the request belongs to the principal that admission has found.
    return caller_named(call.terms.principal)


def caller_named(principal: str | None) -> Caller | None:
    """The caller whose request this task serves, if it is this principal."""
    caller = _caller.get()
    return caller if caller is not None and caller.name == principal else None


def has_group(principal: str | None, groups: Sequence[str]) -> bool:
    """True if the principal that sent the request of this task is in one of the groups."""
    caller = caller_named(principal)
    return caller is not None and not caller.groups.isdisjoint(groups)


def use_caller(caller: Caller) -> None:
    """Serve what follows in this task for a caller whose request was verified before, or by another gateway."""
    _caller.set(caller)


class _KeptCaller(msgspec.Struct, omit_defaults=True):
    """The part of a caller that is stored with a task."""

    groups: frozenset[str] = frozenset()
    client_id: str | None = None
    scopes: tuple[str, ...] = ()


class TaskCallers:
    """Keeps the callers of tasks, so that rules decide for a task that waited as they do for a request."""

    def keep(self, call: ServerCall) -> dict[str, Any] | None:
        """The caller of a request, without the token."""
        caller = caller_of(call)
        if caller is None:
            return None
        return msgspec.to_builtins(_KeptCaller(caller.groups, caller.client_id, caller.scopes))

    def restore(self, principal: str, kept: dict[str, Any]) -> None:
        """Serve what follows in this context for a caller whose request has ended."""
        found = msgspec.convert(kept, _KeptCaller)
        use_caller(Caller(principal, found.groups, found.client_id, found.scopes))


def groups_of(claims: dict[str, Any], names: tuple[str, ...] = GROUP_CLAIMS) -> frozenset[str]:
    """The groups that the claims of a token name, as a list of texts or as one text.

    Raises `TokenUnusable` for too many: without some of them, a rule that denies a group could miss it.
    """
    found: list[str] = []
    for name in names:
        value: Any = claims.get(name)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += [one for one in cast("list[Any]", value) if isinstance(one, str)]
    groups = frozenset(found)
    if len(groups) > MAX_GROUPS:
        raise TokenUnusable(f"the token names {len(groups)} groups, and at most {MAX_GROUPS} are accepted")
    return groups
