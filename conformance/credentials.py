"""Credentials for the authorization scenarios."""

import asyncio
import contextlib
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from dovetail import ClientCredentials, DovetailError, OAuth
from dovetail.client import EnterpriseLogin, WorkloadIdentity

DOCUMENT = "https://conformance-test.local/client-metadata.json"
BACK = "http://127.0.0.1:9876/callback"

Context = dict[str, Any]


def _visit(url: str) -> str:
    parts = urlsplit(url)
    with contextlib.closing(HTTPConnection(parts.netloc, timeout=10)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        back = answer.getheader("location")
    if back is None:
        raise DovetailError(f"The page of the login answered {answer.status} and sends nobody back")
    return back


async def consent(url: str) -> str:
    """Open the login page of the suite, which redirects at once."""
    return await asyncio.to_thread(_visit, url)


def browser(context: Context, **more: Any) -> OAuth:
    """A login in the browser."""
    return OAuth(open_page=consent, redirect_uri=BACK, document=DOCUMENT, **more)


def preregistered(context: Context) -> OAuth:
    """A login in the browser with a client that the authorization server knows."""
    known = {"client_id": context["client_id"], "client_secret": context.get("client_secret")}
    return OAuth(open_page=consent, redirect_uri=BACK, **known)


def own_credentials(context: Context) -> OAuth:
    """Client credentials."""
    secret, key = context.get("client_secret"), context.get("private_key_pem")
    return OAuth(ClientCredentials(context["client_id"], secret=secret, private_key=key))


def workload(context: Context) -> OAuth:
    """Workload identity."""
    return OAuth(WorkloadIdentity(context["client_id"], context["valid_jwt"]))


def enterprise(context: Context) -> OAuth:
    """Enterprise-managed authorization."""
    grant = EnterpriseLogin(
        context["client_id"],
        context["idp_id_token"],
        secret=context["client_secret"],
        idp_issuer=context["idp_issuer"],
        idp_client_id=context["idp_client_id"],
    )
    return OAuth(grant)


KINDS: dict[str, Callable[[Context], OAuth]] = {
    "auth/pre-registration": preregistered,
    "auth/client-credentials-basic": own_credentials,
    "auth/client-credentials-jwt": own_credentials,
    "auth/wif-jwt-bearer": workload,
    "auth/enterprise-managed-authorization": enterprise,
    "auth/dpop": lambda context: browser(context, dpop=True),
    "auth/dpop-nonce": lambda context: browser(context, dpop=True),
}


def credentials(scenario: str, context: Context) -> OAuth:
    """The credentials of a scenario."""
    return KINDS.get(scenario, browser)(context)
