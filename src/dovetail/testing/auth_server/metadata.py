"""Authorization server metadata (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dovetail.auth import scopes
from dovetail.auth.authorization_code import PKCE_METHOD
from dovetail.auth.jwk import ALGORITHMS, SigningKey

from .authorize_request import Offer
from .clients import CODE, CREDENTIALS, METHODS, REFRESH

_ENDPOINTS = {
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/token",
    "registration_endpoint": "/register",
    "revocation_endpoint": "/revoke",
    "introspection_endpoint": "/introspect",
    "jwks_uri": "/jwks",
}


def metadata_paths(issuer: str) -> tuple[str, ...]:
    """The paths at which clients look for the metadata of an issuer."""
    path = urlsplit(issuer).path.rstrip("/")
    named = [f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}"]
    return tuple(dict.fromkeys([*named, f"{path}/.well-known/openid-configuration"]))


def metadata_document(issuer: str, offer: Offer) -> dict[str, Any]:
    """The metadata document."""
    base = issuer.rstrip("/")
    supported = {} if offer.scopes is None else {"scopes_supported": scopes.union(offer.scopes, (scopes.OFFLINE,))}
    return {
        "issuer": issuer,
        **{name: base + path for name, path in _ENDPOINTS.items()},
        **supported,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [CODE, REFRESH, CREDENTIALS],
        "code_challenge_methods_supported": [PKCE_METHOD],
        "token_endpoint_auth_methods_supported": METHODS,
        "token_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "dpop_signing_alg_values_supported": ALGORITHMS,
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }


def key_set(key: SigningKey) -> dict[str, Any]:
    """The JWK set to verify tokens with."""
    return {"keys": [{**key.public.jwk, "kid": key.kid, "alg": key.alg, "use": "sig"}]}
