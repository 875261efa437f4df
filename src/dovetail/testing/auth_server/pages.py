"""HTML pages for the user: without scripts, with all text of clients escaped."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from urllib.parse import urlsplit

from .authorize_request import UserAuthorization

WARNING = "For development only: everyone can log in here as any user."

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:34em;margin:3em auto;padding:0 1em}"
    ".warning{background:#fe9;border:1px solid #b80;padding:.5em 1em}"
    "button{font:inherit;padding:.3em 1em;margin:.5em .5em 0 0}code{word-break:break-all}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()


def headers(returns_to: str = "") -> dict[str, str]:
    """Headers of a page; `returns_to` is the redirect URI that its form may lead to.

    Browsers apply `form-action` to redirects after a form, too.
    """
    parts = urlsplit(returns_to)
    targets = f"'self' {parts.scheme}://{parts.netloc}" if returns_to else "'self'"
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": (
            f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {targets}; "
            "frame-ancestors 'none'; base-uri 'none'"
        ),
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }


def login(action: str, ticket: str, authorization: UserAuthorization, users: tuple[str, ...]) -> bytes:
    """The login page."""
    if users:
        names = "".join(f'<button name="user" value="{escape(user)}">{escape(user)}</button>' for user in users)
    else:
        names = (
            '<label>User name <input name="user" required maxlength="100" autocomplete="username" autofocus></label> '
            "<button>Log in</button>"
        )
    return _page(
        "Log in",
        f"<p>To let <b>{escape(authorization.client.name)}</b> in, say who you are. There are no passwords here.</p>"
        f'<form method="post" action="{escape(action)}">{_ticket(ticket)}{names}</form>',
    )


def consent(action: str, ticket: str, authorization: UserAuthorization, user: str) -> bytes:
    """The consent page."""
    place = urlsplit(authorization.redirect_uri).netloc
    boxes = "".join(
        f'<li><label><input type="checkbox" name="scope.{number}" value="{escape(scope)}" checked> '
        f"<code>{escape(scope)}</code></label></li>"
        for number, scope in enumerate(authorization.scopes)
    )
    wanted = f"<p>It asks for these scopes:</p><ul>{boxes}</ul>" if boxes else "<p>It asks for no scopes.</p>"
    return _page(
        "Allow access?",
        f"<p><b>{escape(authorization.client.name)}</b> wants to use <code>{escape(authorization.resource)}</code> "
        f"as <b>{escape(user)}</b>.</p>"
        f'<form method="post" action="{escape(action)}">{_ticket(ticket)}{wanted}'
        f"<p>You will be sent back to <code>{escape(place)}</code>. "
        f"The client is <code>{escape(authorization.client.id[:200])}</code>.</p>"
        '<button name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button>'
        '<button name="decision" value="switch">Switch user</button></form>',
    )


def error(description: str) -> bytes:
    """The error page."""
    return _page("Error", f"<p>{escape(description)}.</p><p>Go back to the program and try again.</p>")


def welcome(issuer: str) -> bytes:
    """The start page."""
    return _page("An authorization server", f"<p>The issuer is <code>{escape(issuer)}</code>.</p>")


def _ticket(ticket: str) -> str:
    return f'<input type="hidden" name="ticket" value="{escape(ticket)}">'


def _page(title: str, content: str) -> bytes:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f'<p class="warning">{WARNING}</p><h1>{escape(title)}</h1>{content}</html>'
    ).encode()
