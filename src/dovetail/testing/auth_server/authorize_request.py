"""What a client asks a user for, and what of it is offered here.

RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2; RFC 9207; RFC 9449, section 10.
"""

from __future__ import annotations

import re
from urllib.parse import urlencode, urlsplit

import msgspec

from dovetail.auth import pkce, scopes

from .clients import CODE, KnownClient
from .errors import Problem, SentBack, needed

MAX_RESOURCE = 2048

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_RESOURCE = re.compile(r"[\x21-\x7e]+")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be had: scopes, servers that tokens are for, and users; None and () mean any."""

    scopes: tuple[str, ...] | None = None
    resources: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def choose_resource(self, named: str | None) -> str:
        """The server that a token is to be for: every token is for one (RFC 8707)."""
        if named is None:
            if len(self.resources) == 1:
                return self.resources[0]
            raise Problem("invalid_target", "The request does not say which server the token is for (resource)")
        if len(named) > MAX_RESOURCE or not _RESOURCE.fullmatch(named) or "#" in named or not _absolute(named):
            raise Problem("invalid_target", "The resource is not an absolute URL without a fragment")
        if self.resources and named not in self.resources:
            raise Problem("invalid_target", "There are no tokens for this resource here")
        return named

    def choose_scopes(self, text: str) -> tuple[str, ...]:
        """The scopes that are asked for; all that there are, if none is."""
        asked = scopes.split(text)
        if not asked:
            return self.scopes or ()
        unknown = [] if self.scopes is None else [scope for scope in asked if scope not in self.scopes]
        if unknown:
            raise Problem("invalid_scope", f"There are no such scopes here: {' '.join(unknown)}")
        return asked


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that can be put before a user."""

    client: KnownClient
    redirect_uri: str
    redirect_named: bool
    """Whether the request named it, and so must the exchange of the code."""
    state: str | None
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    nonce: str | None = None
    jkt: str | None = None

    def back(self, issuer: str, **answer: str) -> str:
        """Where the browser goes with the answer, which says whose it is."""
        return back_to(self.redirect_uri, self.state, issuer, **answer)


def back_to(redirect_uri: str, state: str | None, issuer: str, **answer: str) -> str:
    """The address of an answer."""
    fields = {**answer, **({} if state is None else {"state": state}), "iss": issuer}
    return f"{redirect_uri}{'&' if urlsplit(redirect_uri).query else '?'}{urlencode(fields)}"


def read_asked(fields: dict[str, str], client: KnownClient | None, offer: Offer) -> Asked:
    """Check a request; only one with a redirect URI of a known client is answered anywhere but on a page of ours."""
    if client is None:
        raise Problem("invalid_client", "The client is not known here")
    uri = fields.get("redirect_uri")
    if uri is None:
        if len(client.redirect_uris) != 1:
            raise Problem("invalid_request", "The request has no redirect_uri")
        [uri] = client.redirect_uris
    client.check_redirect(uri)
    try:
        return msgspec.structs.replace(_read(fields, client, offer), redirect_uri=uri)
    except Problem as problem:
        raise SentBack(problem.error, problem.description, uri, fields.get("state")) from None


def _read(fields: dict[str, str], client: KnownClient, offer: Offer) -> Asked:
    if CODE not in client.grants:
        raise Problem("unauthorized_client", "This client sends no users")
    for name in ("request", "request_uri"):
        if name in fields:
            raise Problem(f"{name}_not_supported", f"There is no {name} here")
    if needed(fields, "response_type") != "code":
        raise Problem("unsupported_response_type", "There are only codes here (response_type=code)")
    if fields.get("response_mode", "query") != "query":
        raise Problem("invalid_request", "The answer comes in the query (response_mode)")
    if "none" in fields.get("prompt", "").split():
        raise Problem("interaction_required", "A user is always asked here")
    challenge = fields.get("code_challenge", "")
    if fields.get("code_challenge_method") != pkce.METHOD or not _CHALLENGE.fullmatch(challenge):
        raise Problem("invalid_request", "PKCE with S256 is needed (code_challenge, code_challenge_method)")
    return Asked(
        client=client,
        redirect_uri="",
        redirect_named="redirect_uri" in fields,
        state=fields.get("state"),
        challenge=challenge,
        resource=offer.choose_resource(fields.get("resource")),
        scopes=offer.choose_scopes(fields.get("scope", "")),
        nonce=fields.get("nonce"),
        jkt=fields.get("dpop_jkt"),
    )


def _absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
