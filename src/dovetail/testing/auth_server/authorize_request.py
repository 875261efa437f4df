"""Authorization requests: parsing and validation.

RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2; RFC 9207; RFC 9449, section 10.
"""

from __future__ import annotations

import re
from urllib.parse import urlencode, urlsplit

import msgspec

from dovetail.auth import scopes
from dovetail.auth.authorization_code import PKCE_METHOD

from .clients import CODE, KnownClient
from .errors import RedirectedError, RequestError, required_field

MAX_RESOURCE = 2048

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_RESOURCE = re.compile(r"[\x21-\x7e]+")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Supported scopes, resources (servers that tokens are for) and users; None and () mean any."""

    scopes: tuple[str, ...] | None = None
    resources: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def choose_resource(self, named: str | None) -> str:
        """The resource of a token; every token is for exactly one (RFC 8707)."""
        if named is None:
            if len(self.resources) == 1:
                return self.resources[0]
            raise RequestError("invalid_target", "The request does not say which server the token is for (resource)")
        if len(named) > MAX_RESOURCE or not _RESOURCE.fullmatch(named) or "#" in named or not _absolute(named):
            raise RequestError("invalid_target", "The resource is not an absolute URL without a fragment")
        if self.resources and named not in self.resources:
            raise RequestError("invalid_target", "This resource is not supported")
        return named

    def choose_scopes(self, text: str) -> tuple[str, ...]:
        """The requested scopes; all supported ones if none is requested."""
        requested = scopes.split(text)
        if not requested:
            return self.scopes or ()
        unknown = [] if self.scopes is None else [scope for scope in requested if scope not in self.scopes]
        if unknown:
            raise RequestError("invalid_scope", f"These scopes are not supported: {' '.join(unknown)}")
        return requested


class UserAuthorization(msgspec.Struct, frozen=True, kw_only=True):
    """A valid authorization request, to be approved by a user."""

    client: KnownClient
    redirect_uri: str
    redirect_named: bool
    """True if the request contained it; then the token request must contain it too."""
    state: str | None
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    nonce: str | None = None
    jkt: str | None = None

    def back(self, issuer: str, **answer: str) -> str:
        """The URL that the browser is redirected to with the response."""
        return redirect_url(self.redirect_uri, self.state, issuer, **answer)


def redirect_url(redirect_uri: str, state: str | None, issuer: str, **answer: str) -> str:
    """The redirect URL with the response and the issuer (RFC 9207)."""
    fields = {**answer, **({} if state is None else {"state": state}), "iss": issuer}
    return f"{redirect_uri}{'&' if urlsplit(redirect_uri).query else '?'}{urlencode(fields)}"


def parse_authorization(fields: dict[str, str], client: KnownClient | None, offer: Offer) -> UserAuthorization:
    """Validate a request. Only if client and redirect URI are valid, further errors are redirected to the client."""
    if client is None:
        raise RequestError("invalid_client", "The client is unknown")
    uri = fields.get("redirect_uri")
    if uri is None:
        if len(client.redirect_uris) != 1:
            raise RequestError("invalid_request", "The request has no redirect_uri")
        [uri] = client.redirect_uris
    client.check_redirect(uri)
    try:
        return msgspec.structs.replace(_read(fields, client, offer), redirect_uri=uri)
    except RequestError as problem:
        raise RedirectedError(problem.error, problem.description, uri, fields.get("state")) from None


def _read(fields: dict[str, str], client: KnownClient, offer: Offer) -> UserAuthorization:
    if CODE not in client.grants:
        raise RequestError("unauthorized_client", "This client may not use the authorization code grant")
    for name in ("request", "request_uri"):
        if name in fields:
            raise RequestError(f"{name}_not_supported", f"{name} is not supported")
    if required_field(fields, "response_type") != "code":
        raise RequestError("unsupported_response_type", "Only response_type=code is supported")
    if fields.get("response_mode", "query") != "query":
        raise RequestError("invalid_request", "Only response_mode=query is supported")
    if "none" in fields.get("prompt", "").split():
        raise RequestError("interaction_required", "The user must always be asked")
    challenge = fields.get("code_challenge", "")
    if fields.get("code_challenge_method") != PKCE_METHOD or not _CHALLENGE.fullmatch(challenge):
        raise RequestError("invalid_request", "PKCE with S256 is needed (code_challenge, code_challenge_method)")
    return UserAuthorization(
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
