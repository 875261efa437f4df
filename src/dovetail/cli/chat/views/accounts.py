"""`/accounts`: the logins that there are, and ending one."""

from __future__ import annotations

from dovetail.cli.chat.session import Session
from dovetail.cli.chat.ui.contract import Row


async def accounts(session: Session, words: list[str]) -> None:
    """Show the logins, never a token, and revoke those that the person wants to be rid of."""
    from dovetail.client.auth.accounts import StoredLogin, list_logins
    from dovetail.client.auth.token_store import default_tokens

    store = default_tokens()
    while True:
        found = await list_logins(store)
        choice = await session.surface.pick("Accounts", [_row(login) for login in found], {"x": "log out"})
        if choice is None:
            return
        login: StoredLogin = found[choice.row]
        if await session.surface.key({"y": f"log out at {login.server}", "n": "no"}) == "y":
            await _log_out(session, login.server, login.account)


def _row(login: object) -> Row:
    from dovetail.client.auth.accounts import StoredLogin

    assert isinstance(login, StoredLogin)
    name = login.account or "(no name)"
    return Row(f"{name} {login.user or ''}".strip(), login.server, note=" ".join(login.scopes))


async def _log_out(session: Session, server: str, account: str) -> None:
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    try:
        await OAuth(store=default_tokens(), account=account).logout(server)
        session.surface.say(f"  Logged out at {server}.")
    except AuthorizationFailed as problem:
        session.surface.say(
            ("warn", f"  The login is forgotten here; the authorization server could not be told: {problem}")
        )
