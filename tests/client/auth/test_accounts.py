"""What may be told of the logins that a user has, and which one is meant."""

from pathlib import Path

import pytest

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.tokens import Account, Tokens
from dovetail.client.auth.accounts import StoredLogin, default_account, list_logins
from dovetail.client.auth.token_store import FileTokens, account_name

URL = "https://example.com/mcp"
CLIENT = OAuthClient(id="c", issuer="https://login.example", secret="hidden")


@pytest.fixture
def store(tmp_path: Path) -> FileTokens:
    return FileTokens(tmp_path / "accounts", {"DOVETAIL_KEYRING": "off"})


async def keep(store: FileTokens, label: str = "", url: str = URL, **tokens: object) -> None:
    account = Account(
        resource=url,
        issuer="https://login.example",
        client=CLIENT,
        tokens=Tokens(access_token="hidden", **tokens),  # type: ignore[arg-type]
        requested=("read",),
    )
    await store.save(account_name(url, label), account.encode())


async def test_what_is_told(store: FileTokens) -> None:
    await keep(store, "work", expires_at=5.0, refresh_token="hidden", scopes=("write",))
    [told] = await list_logins(store)
    assert told == StoredLogin(
        server=URL,
        account="work",
        default=True,
        user=None,
        issuer="https://login.example",
        client_id="c",
        scopes=("write",),
        expires_at=5.0,
        renewable=True,
    )
    assert "hidden" not in repr(told)


async def test_scopes_that_were_not_told_are_those_asked_for(store: FileTokens) -> None:
    await keep(store)
    assert [told.scopes for told in await list_logins(store)] == [("read",)]


async def test_of_one_server_or_of_all(store: FileTokens) -> None:
    await keep(store)
    await keep(store, url="https://example.com/mcp2")
    assert len(await list_logins(store)) == 2
    assert [told.server for told in await list_logins(store, "https://EXAMPLE.com/mcp")] == [URL]


@pytest.mark.parametrize(
    ("kept", "meant"),
    [([], ""), ([""], ""), (["work"], "work"), (["", "work"], ""), (["home", "work"], None)],
)
async def test_which_one_is_meant(kept: list[str], meant: str | None, store: FileTokens) -> None:
    for label in kept:
        await keep(store, label)
    if meant is None:
        with pytest.raises(AuthorizationFailed, match="home, work"):
            await default_account(store, URL)
    else:
        assert await default_account(store, URL) == meant
    assert [told.account for told in await list_logins(store) if told.default] == (
        [meant] if kept and meant is not None else []
    )


@pytest.mark.parametrize("id_token", ["nonsense", "a.b.c"])
async def test_an_identity_that_cannot_be_read_is_none(id_token: str, store: FileTokens) -> None:
    await keep(store, id_token=id_token)
    assert [told.user for told in await list_logins(store)] == [None]


async def test_one_that_cannot_be_read_hides_no_other(store: FileTokens, caplog: pytest.LogCaptureFixture) -> None:
    await keep(store)
    await store.save(account_name(URL, "broken"), b"nonsense")
    assert [told.account for told in await list_logins(store)] == [""]
    assert "broken" in caplog.text
