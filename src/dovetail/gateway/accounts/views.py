"""Pages on which users of a gateway connect their accounts: HTML from values."""

from __future__ import annotations

from html import escape
from typing import Literal, NamedTuple

from dovetail.gateway.html import html_page

_STYLE = """
body { max-width: 44rem } h1 { margin-bottom: .6rem } p { color: inherit } .note { color: #6b6b6b; font-size: .9rem }
p.note { margin: .8rem 0 } td { vertical-align: middle; overflow-wrap: anywhere } td + td { width: 1% }
td form { display: flex; gap: .4rem; justify-content: flex-end } td .state, td button { white-space: nowrap }
button { font: inherit; padding: .35rem .9rem; border: 1px solid #8886; border-radius: .4rem; cursor: pointer }
button.main { background: #0b62d0; border-color: #0b62d0; color: #fff }
input { font: inherit; padding: .35rem .5rem; width: 100%; max-width: 24rem; margin: .3rem 0 .8rem; display: block }
@media (prefers-color-scheme: dark) { .note { color: #a0a0a0 } }
@media (max-width: 34rem) {
  tr, td, td + td { display: block; width: auto } td { border: 0; padding: .1rem 0 }
  tr { border-bottom: 1px solid #8883; padding: .6rem 0 }
  td form { justify-content: flex-start; margin-top: .3rem }
}
"""

AccountState = Literal["connected", "not connected", "log in again", "not available"]
_STATE_CLASSES: dict[AccountState, str] = {
    "connected": "ready",
    "not connected": "idle",
    "log in again": "failing",
    "not available": "failing",
}
_CONNECT: dict[AccountState, str] = {"not connected": "Connect", "log in again": "Log in again"}
_REMOVABLE: tuple[AccountState, ...] = ("connected", "log in again")


class AccountRow(NamedTuple):
    """One server on the page, and the account of the user there."""

    server: str
    host: str
    state: AccountState


def message_page(gateway: str, title: str, text: str, accounts: str) -> str:
    """A page that only says something, with a link to the page of all accounts."""
    return _page(gateway, title, f'<p>{escape(text)}</p><p><a href="{escape(accounts)}">Your accounts</a></p>')


def login_page(
    gateway: str, form_token: str, server: str, tag: str, issuer: str | None, problem: str | None = None
) -> str:
    """The page on which a user proves who they are: at the issuer of tokens, or with a token."""
    why = f"You have been asked to connect your account at {server}. " if server else ""
    hidden = _hidden(form_token, server=server, tag=tag)
    said = "" if problem is None else f'<p class="failing">{escape(problem)}</p>'
    if issuer is not None:
        text = f"{why}First log in, so that the gateway knows who you are."
        form = f'<form method="post">{hidden}{_button("login", "Log in", main=True)}</form>'
        note = f'<p class="note">You log in at {escape(issuer)}, as for any other use of this gateway.</p>'
        return _page(gateway, "Log in", f"<p>{escape(text)}</p>{said}{form}{note}")
    text = f"{why}First enter the token that your application uses for this gateway, so that it knows who you are."
    field = '<input type="password" name="token" autocomplete="off" required autofocus aria-label="Token">'
    form = f'<form method="post">{hidden}{field}{_button("login", "Continue", main=True)}</form>'
    return _page(gateway, "Log in", f"<p>{escape(text)}</p>{said}{form}")


def connect_page(gateway: str, form_token: str, principal: str, row: AccountRow) -> str:
    """The page on which a user agrees to connect the account at one server."""
    text = (
        f"The gateway will use the server {row.server} ({row.host}) with your account there, for calls of your "
        f"applications only. You log in at that server; the gateway never sees your password."
    )
    again = " again" if row.state == "connected" else ""
    hidden = _hidden(form_token, server=row.server)
    button = _button("connect", f"Connect{again}", main=True)
    form = f'<form method="post">{hidden}{button}</form>'
    return _page(gateway, f"Connect your account at {row.server}", f"<p>{escape(text)}</p>{form}{_who(principal)}")


def accounts_page(gateway: str, form_token: str, principal: str, rows: list[AccountRow]) -> str:
    """The accounts of a user at all servers."""
    lines = "".join(_row(form_token, row) for row in rows)
    table = f'<div class="scrolls"><table><tbody>{lines}</tbody></table></div>'
    logout = f'<form method="post">{_hidden(form_token)}{_button("logout", "Log out")}</form>'
    empty = "<p>No server of this gateway is used with accounts of users.</p>"
    return _page(gateway, "Your accounts", f"{table if rows else empty}{_who(principal)}{logout}")


def _row(form_token: str, row: AccountRow) -> str:
    connect = _button("connect", _CONNECT[row.state], main=True) if row.state in _CONNECT else ""
    disconnect = _button("disconnect", "Disconnect") if row.state in _REMOVABLE else ""
    form = ""
    if connect or disconnect:
        form = f'<form method="post">{_hidden(form_token, server=row.server)}{connect}{disconnect}</form>'
    state = f'<span class="state {_STATE_CLASSES[row.state]}">{row.state}</span>'
    name = f'<strong>{escape(row.server)}</strong><div class="note">{escape(row.host)}</div>'
    return f"<tr><td>{name}</td><td>{state}</td><td>{form}</td></tr>"


def _page(gateway: str, title: str, body: str) -> str:
    head = f'<p class="note">Gateway {escape(gateway)}</p><h1>{escape(title)}</h1>'
    return html_page(f"{title} · {gateway}", head + body, _STYLE)


def _who(principal: str) -> str:
    return f'<p class="note">You are logged in as {escape(principal)}.</p>'


def _hidden(form_token: str, **fields: str) -> str:
    given = {"form_token": form_token, **fields}
    return "".join(
        f'<input type="hidden" name="{name}" value="{escape(text)}">' for name, text in given.items() if text
    )


def _button(action: str, words: str, *, main: bool = False) -> str:
    style = ' class="main"' if main else ""
    return f'<button name="action" value="{action}"{style}>{escape(words)}</button>'
