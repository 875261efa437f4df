"""`/accounts`: list the stored logins, and log out."""

from __future__ import annotations

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Row


async def accounts(session: ChatSession, words: list[str]) -> None:
    """List the logins, never a token, and log out from the chosen ones."""
    from dovetail.client.auth.accounts import StoredLogin, list_logins
    from dovetail.client.auth.token_store import default_tokens

    store = default_tokens()
    while True:
        logins = await list_logins(store)
        choice = await session.ui.pick("Accounts", [_row(login) for login in logins], {"x": "log out"})
        if choice is None:
            return
        login: StoredLogin = logins[choice.row]
        if await session.ui.key({"y": f"log out at {login.server}", "n": "no"}) == "y":
            await _log_out(session, login.server, login.account)


def _row(login: object) -> Row:
    from dovetail.client.auth.accounts import StoredLogin

    assert isinstance(login, StoredLogin)
    name = login.account or "(no name)"
    return Row(f"{name} {login.user or ''}".strip(), login.server, note=" ".join(login.scopes))


async def _log_out(session: ChatSession, server: str, account: str) -> None:
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    try:
        await OAuth(store=default_tokens(), account=account).logout(server)
        session.ui.say(f"  Logged out at {server}.")
    except AuthorizationFailed as problem:
        session.ui.say(
            ("warn", f"  The login is deleted here, but the authorization server could not revoke it: {problem}")
        )
