"""The pages of `/accounts`, and what a user who is not the one they are for can do with them."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from dovetail import Audit, Client, Gateway, Principal, RemoteError, StaticTokens
from dovetail.auth import scopes
from dovetail.client.auth.token_store import account_name
from dovetail.gateway import AccountSettings, Credentials, ServerSettings
from dovetail.gateway.accounts.account_store import AccountStore, account_label
from dovetail.gateway.accounts.account_upstream import shown_host
from dovetail.gateway.accounts.browser_session import SESSION_SECONDS, BrowserSessions
from dovetail.gateway.accounts.logins import Logins
from dovetail.gateway.accounts.views import AccountRow, accounts_page, login_page
from dovetail.policy import read_records
from dovetail.protocol.seal import KeyRing
from dovetail.storage import MemoryStore, StoreUnavailable
from tests.gateway.account_scene import AccountScene, Browser, Page, account_scene, query_of
from tests.gateway.exchanging_auth import behind
from tests.gateway.test_credentials import make_server
from tests.support.http import listening, serving, url_of


async def link_of(at: AccountScene, user: str) -> str:
    """The link that a user's application shows."""
    async with at.client(user) as client:
        with pytest.raises(RemoteError) as raised:
            await client.call("notes__whoami")
    data: Any = raised.value.data
    return data["url"]


async def log_in(at: AccountScene, browser: Browser) -> Page:
    """Log in to the gateway; the page with all accounts."""
    return await browser.press(await browser.open(f"{at.url}/accounts"), "login")


async def has_account(at: AccountScene, user: str) -> bool:
    async with at.client(user) as client:
        return "notes__whoami" in {tool.name for tool in await client.tools()}


class TestUse:
    """What a user does."""

    async def test_a_user_logs_in_connects_and_disconnects(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            page = await browser.open(f"{at.url}/accounts")
            assert page.title == "Log in · team"
            assert at.home.issuer in page.text
            page = await browser.press(page, "login")
            assert page.title == "Your accounts · team"
            assert "logged in as ann" in page.text
            assert "not connected" in page.text
            page = await browser.press(page, "connect")
            assert page.title == "Your account is connected · team"
            page = await browser.open(f"{at.url}/accounts")
            assert "Disconnect" in page.text
            page = await browser.press(page, "disconnect")
            assert "not connected" in page.text
            page = await browser.press(page, "logout")
            assert page.title == "Log in · team"

    async def test_a_user_who_denies_at_the_server_is_told_so_and_can_try_again(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            page = await log_in(at, browser)
            browser.agrees = False
            page = await browser.press(page, "connect")
            assert page.status == 502
            assert "access_denied" in page.text
            browser.agrees = True
            assert (await browser.press(await browser.open(f"{at.url}/accounts"), "connect")).status == 200

    async def test_without_an_issuer_a_user_proves_who_they_are_with_the_token_of_their_application(self) -> None:
        sock = listening()
        url = url_of(sock)
        from dovetail.testing import DevAuth

        async with (
            DevAuth().serving() as away,
            behind(lambda auth: make_server("2026-07-28", auth), away.issuer) as (
                address,
                _,
            ),
        ):
            gateway = Gateway(
                {"notes": address},
                auth=StaticTokens({"ann-secret": "ann", "bound": Principal(subject="bob", thumbprint="x")}),
                settings={"notes": ServerSettings(credentials=Credentials(type="user-account"))},
                accounts=AccountSettings(url=url),
            )
            async with serving(gateway.asgi(), sock), Browser("ann", away) as browser:
                page = await browser.open(f"{url}/accounts?server=notes")
                for wrong in ("guess", "", "bound"):
                    page = await browser.press(page, "login", token=wrong)
                    assert "not accepted" in page.text
                page = await browser.press(page, "login", token="ann-secret")
                assert page.title == "Connect your account at notes · gateway"
                await browser.press(page, "connect")
                async with Client(f"{url}/mcp", auth="ann-secret", timeout=10) as client:
                    assert (await client.call("notes__whoami")).text == "ann"

    async def test_names_with_odd_letters_are_those_of_the_same_user_and_server_everywhere(self) -> None:
        user, key = 'Ann "<b>" O\'Néill [1], \u202eadmin; x=y', 'notes & "co" <b>/é?#%41'
        settings = {key: ServerSettings(credentials=Credentials(type="user-account"))}
        async with account_scene(make_server) as at, at.browser(user) as browser, at.browser("bob") as other:
            await at.gateways[0].update({key: at.server_url}, settings=settings)
            page = await browser.connect(f"{at.url}/accounts?server={quote(key, safe='')}")
            assert page.title == "Your account is connected · team"
            assert escape(key) in page.text
            page = await browser.open(f"{at.url}/accounts")
            assert f"logged in as {escape(user)}" in page.text
            assert "Disconnect" in page.text
            assert "Disconnect" not in (await log_in(at, other)).text
            async with at.client(user) as client:
                (tool,) = [tool.name for tool in await client.tools() if "whoami" in tool.name]
                assert (await client.call(tool)).text == user
            assert "not connected" in (await browser.press(page, "disconnect")).text

    async def test_an_unknown_server_is_named_as_such(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            await log_in(at, browser)
            assert (await browser.open(f"{at.url}/accounts?server=nothing")).status == 404

    async def test_no_page_is_kept_framed_or_allowed_to_load_anything(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            pages = [
                await browser.open(f"{at.url}{path}")
                for path in ("/accounts", "/accounts/login?state=x", "/accounts/callback?code=x")
            ]
            for page in (*pages, await log_in(at, browser)):
                assert page.headers["referrer-policy"] == "same-origin"
                assert page.headers["x-content-type-options"] == "nosniff"
                assert page.headers["cache-control"] == "no-store"
                assert page.headers["x-frame-options"] == "DENY"
                assert "default-src 'none'" in page.headers["content-security-policy"]
                assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


class TestAttacks:
    """Other people's links, forms, redirects and cookies."""

    async def test_a_link_of_another_user_connects_nothing(self) -> None:
        """2026-07-28 elicitation, "Phishing": mallory sends bob the link that mallory's application has shown."""
        async with account_scene(make_server) as at, at.browser("bob") as browser:
            link = await link_of(at, "mallory")
            page = await browser.press(await browser.open(link), "login")
            assert page.status == 403
            assert "made for another user" in page.title
            assert not await has_account(at, "mallory")
            assert not await has_account(at, "bob")

    async def test_without_the_tag_of_the_link_the_account_is_that_of_the_user_of_the_browser(self) -> None:
        async with account_scene(make_server) as at, at.browser("bob") as browser:
            link = (await link_of(at, "mallory")).partition("&for=")[0]
            await browser.connect(link)
            assert await has_account(at, "bob")
            assert not await has_account(at, "mallory")

    async def test_a_login_is_continued_only_in_the_browser_in_which_it_began(self) -> None:
        """Mallory begins a login and has bob open the page of the authorization server, or its redirect."""
        async with account_scene(make_server) as at, at.browser("mallory") as hers, at.browser("bob") as his:
            await log_in(at, his)
            page = await log_in(at, hers)
            hers.stop_at = urlsplit(at.away.issuer).netloc
            login = await hers.press(page, "connect")
            answered = await at.away.agree(login.url, "bob")
            assert (await his.open(answered)).status == 400
            assert not await has_account(at, "bob")
            # The same redirect in the browser of mallory would connect bob's account: the code was bob's to give,
            # and a code is sent to the browser that has agreed, so that mallory does not have it.
            assert query_of(answered)["state"] == query_of(login.url)["state"]

    async def test_an_answer_is_taken_once(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            page = await log_in(at, browser)
            await browser.press(page, "connect")
            redirect = next(url for url in reversed(browser.visited) if "/accounts/callback" in url)
            page = await browser.open(redirect)
            assert page.status == 400
            assert at.away.logins == 1

    async def test_a_login_that_another_user_of_the_browser_began_connects_nothing(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            page = await log_in(at, browser)
            browser.stop_at = urlsplit(at.away.issuer).netloc
            login = await browser.press(page, "connect")
            browser.stop_at = ""
            page = await browser.open(f"{at.url}/accounts")
            browser.user = "bob"
            await browser.press(await browser.press(page, "logout"), "login")
            assert (await browser.open(await at.away.agree(login.url, "ann"))).status == 400
            assert not await has_account(at, "bob")

    @pytest.mark.parametrize("what", ["origin", "token", "no token"])
    async def test_a_form_of_another_site_is_refused(self, what: str) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            page = await browser.connect(f"{at.url}/accounts?server=notes")
            page = await browser.open(f"{at.url}/accounts")
            fields = page.fields("disconnect")
            if what == "token":
                fields["form_token"] = "0" * 32
            elif what == "no token":
                del fields["form_token"]
            page = await browser.open(page.url, fields, "https://evil.example" if what == "origin" else None)
            assert page.status == 403
            assert await has_account(at, "ann")

    async def test_a_cookie_of_ones_own_making_is_that_of_nobody(self) -> None:
        async with account_scene(make_server) as at, at.browser("mallory") as browser:
            await browser.open(f"{at.url}/accounts")
            name = f"dovetail-gateway-{urlsplit(at.url).port}"
            for value in ("", "x", "AAAA", "a" * 5000, '{"principal":"ann"}'):
                browser.set_cookie(at.url, name, value)
                assert (await browser.open(f"{at.url}/accounts")).title.startswith("Log in")

    async def test_attempts_are_limited(self) -> None:
        async with account_scene(make_server) as at, at.browser("mallory") as browser:
            page = await browser.open(f"{at.url}/accounts")
            states = [(await browser.open(page.url, {"action": "login", "token": "guess"})).status for _ in range(25)]
            assert states[:20] == [403] * 20
            assert set(states[20:]) == {429}

    @pytest.mark.parametrize(
        ("method", "status"), [("DELETE", 405), ("PUT", 405), ("POST", 415)], ids=["delete", "put", "json"]
    )
    async def test_other_requests_are_refused(self, method: str, status: int) -> None:
        import aiohttp

        async with account_scene(make_server) as at, aiohttp.ClientSession() as http:
            json = {} if method == "POST" else None
            async with http.request(method, f"{at.url}/accounts", json=json) as answer:
                assert answer.status == status
            async with http.get(f"{at.url}/accounts", headers={"host": "evil.example"}) as answer:
                assert answer.status == 421


class TestTokens:
    """A token proves who a user is only if the endpoint would accept it."""

    @pytest.mark.parametrize(
        "token",
        ["narrow", "bound", "revoked", "unknown"],
    )
    async def test_a_token_that_the_endpoint_would_refuse_logs_nobody_in(self, token: str) -> None:
        principals = {
            "good": Principal(subject="ann", scopes=("tools",)),
            "narrow": Principal(subject="ann"),
            "bound": Principal(subject="ann", scopes=("tools",), thumbprint="x"),
            "revoked": Principal(subject="ann", scopes=("tools",)),
        }
        sock = listening()
        gateway = Gateway(
            {"notes": "http://127.0.0.1:1/mcp"},
            auth=StaticTokens(principals, scopes=["tools"]),
            settings={"notes": ServerSettings(credentials=Credentials(type="user-account"))},
            accounts=AccountSettings(url=url_of(sock)),
        )
        async with serving(gateway.asgi(), sock), Browser("ann") as browser:
            await gateway._state.view("").revoked_tokens.revoke("revoked", None)
            page = await browser.open(f"{url_of(sock)}/accounts")
            page = await browser.press(page, "login", token=token)
            assert "not accepted" in page.text
            page = await browser.press(page, "login", token=" good ")
            assert "logged in as ann" in page.text

    async def test_a_user_whose_token_is_not_accepted_after_the_login_is_told_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            verifier = at.gateways[0]._state.verifier
            assert verifier is not None
            monkeypatch.setattr(verifier, "scopes", ("tools",))
            monkeypatch.setattr(scopes, "implied", lambda granted, implies: frozenset())
            page = await log_in(at, browser)
            assert page.status == 403
            assert page.title == "You are not logged in · team"
            assert (await browser.open(f"{at.url}/accounts")).title.startswith("Log in")


class TestFaults:
    """The store is away, or another request holds an account."""

    async def test_while_the_store_is_away_pages_say_so_and_browsers_may_try_again(self) -> None:
        store = BreakingStore()
        async with account_scene(make_server, stores=[store]) as at, at.browser("ann") as browser:
            page = await log_in(at, browser)
            store.is_away = True
            for answer in (await browser.open(page.url), await browser.press(page, "connect")):
                assert answer.status == 503
                assert answer.headers["retry-after"] == "1"
                assert "away for a moment" not in answer.text
            store.is_away = False
            await browser.press(page, "connect")
            assert await has_account(at, "ann")

    async def test_an_account_that_could_not_be_removed_is_not_called_disconnected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dovetail.gateway.accounts.account_store.LOCK_SECONDS", 0.2)
        audit, store = Audit(tmp_path / "audit.jsonl", folder=tmp_path), MemoryStore()
        async with account_scene(make_server, stores=[store], audit=audit) as at, at.browser("ann") as browser:
            await browser.connect(f"{at.url}/accounts?server=notes")
            page = await browser.open(f"{at.url}/accounts")
            accounts = at.gateways[0]._state.accounts.store
            assert accounts is not None
            async with accounts.held(account_name(at.server_url, account_label("notes", "ann"))):
                assert (await browser.press(page, "disconnect")).status == 503
            assert await has_account(at, "ann")
            assert "not connected" in (await browser.press(page, "disconnect")).text
            await at.gateways[0].close()
        told = [one.details["outcome"] for one in read_records(audit.path) if one.event == "account"]
        assert told == ["connected", "disconnected"]

    async def test_a_browser_that_does_not_come_back_is_sent_as_a_new_client(self) -> None:
        """An authorization server that has forgotten its clients says so on its own page only."""
        async with account_scene(make_server) as at, at.browser("ann") as browser, at.browser("bob") as other:

            async def connect(browser: Browser) -> str:
                page = await browser.press(await browser.open(f"{at.url}/accounts?server=notes"), "connect")
                assert page.status == 200
                return query_of(next(url for url in reversed(browser.visited) if "/authorize" in url))["client_id"]

            await log_in(at, browser)
            await log_in(at, other)
            away = urlsplit(at.away.issuer).netloc
            browser.stop_at = away
            first, second = await connect(browser), await connect(browser)
            assert first != second
            assert await connect(other) == second, "the newest registration is used by all"
            browser.stop_at = ""
            third = await connect(browser)
            assert await connect(browser) == third, "an answer has arrived"
            assert await has_account(at, "ann")
            assert await has_account(at, "bob")


class TestBrowserSessions:
    """The cookie, with values."""

    def sessions(self, base: str = "https://tools.example.com", issuer: str | None = None) -> BrowserSessions:
        return BrowserSessions(AccountStore(KeyRing([b"k" * 32]), MemoryStore, issuer), base)

    async def test_a_session_is_read_until_it_expires(self) -> None:
        sessions, now = self.sessions(), time.time()
        session = sessions.new(now, "ann")
        cookie = sessions.write(session).partition(";")[0].encode()
        assert await sessions.read(b"a=b; " + cookie, now + SESSION_SECONDS - 1) == session
        assert (await sessions.read(cookie, now + SESSION_SECONDS + 1)).principal is None
        assert (await sessions.read(b"", now)).id != (await sessions.read(b"", now)).id

    @pytest.mark.parametrize(
        ("base", "issuer"),
        [("https://trial.example.com", None), ("https://tools.example.com", "https://trial.example")],
    )
    async def test_a_session_of_another_gateway_or_issuer_is_that_of_nobody(
        self, base: str, issuer: str | None
    ) -> None:
        """They may have the same keys, and a user of the same name who is someone else."""
        here, there, now = self.sessions(), self.sessions(base, issuer), time.time()
        cookie = there.write(there.new(now, "ann")).partition(";")[0].encode()
        assert (await there.read(cookie, now)).principal == "ann"
        assert (await here.read(cookie, now)).principal is None

    async def test_cookies_of_other_applications_do_not_hide_a_session(self) -> None:
        sessions, now = self.sessions(), time.time()
        cookie = sessions.write(sessions.new(now, "ann")).partition(";")[0].encode()
        for others in (
            b'settings={"a": [1, 2]}; ',
            b'open="; ',
            b"caf\xe9; =; ",
            b"__Host-dovetail-gateway=x; ",
            b"a=b, ",
        ):
            assert (await sessions.read(others + cookie, now)).principal == "ann"
            assert (await sessions.read(cookie + b"; " + others, now)).principal == "ann"

    async def test_a_session_of_another_version_is_that_of_nobody(self) -> None:
        store, base, now = AccountStore(KeyRing([b"k" * 32]), MemoryStore), "https://tools.example.com", time.time()
        value = store.seal(msgspec.msgpack.encode([1]), f"browser session {base}".encode())
        cookie = f"__Host-dovetail-gateway={value}".encode()
        assert (await BrowserSessions(store, base).read(cookie, now)).principal is None

    def test_over_https_the_cookie_belongs_to_the_host_alone(self) -> None:
        cookie = self.sessions().write(self.sessions().new(0.0))
        assert cookie.startswith("__Host-")
        assert cookie.endswith("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure")

    async def test_gateways_on_other_ports_of_a_machine_have_other_cookies(self) -> None:
        one, other = self.sessions("http://127.0.0.1:8000"), self.sessions("http://127.0.0.1:8001")
        cookie = one.write(one.new(time.time(), "ann")).partition(";")[0].encode()
        assert (await other.read(cookie, time.time())).principal is None

    async def test_a_session_that_was_ended_is_that_of_nobody_at_each_gateway(self) -> None:
        store, base, now = MemoryStore(), "https://tools.example.com", time.time()
        here, there = (BrowserSessions(AccountStore(KeyRing([b"k" * 32]), lambda: store), base) for _ in range(2))
        ended, other = here.new(now, "ann"), here.new(now, "ann")
        cookies = [here.write(one).partition(";")[0].encode() for one in (ended, other)]
        await here.end(ended, now)
        assert [(await there.read(cookie, now)).principal for cookie in cookies] == [None, "ann"]

    async def test_an_ended_session_is_stored_only_until_its_cookie_would_have_expired(self) -> None:
        kept: list[float | None] = []

        class Noting(MemoryStore):
            async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
                kept.append(ttl)

        store, now = Noting(), time.time()
        sessions = BrowserSessions(AccountStore(KeyRing([b"k" * 32]), lambda: store), "https://tools.example.com")
        await sessions.end(sessions.new(now, "ann"), now + 600)
        assert kept == [pytest.approx(SESSION_SECONDS - 600)]
        await sessions.end(sessions.new(now, "ann"), now + SESSION_SECONDS + 1)
        await sessions.end(sessions.new(now), now)
        assert len(kept) == 1, "a session that has expired, or is that of nobody, needs no entry"


class TestViews:
    """The pages, with values."""

    def test_what_others_have_named_is_text_and_no_markup(self) -> None:
        evil = '"><script>alert(1)</script>'
        row = AccountRow(evil, evil, "connected")
        for page in (accounts_page(evil, "t", evil, [row]), login_page(evil, "t", evil, evil, None, evil)):
            assert "<script" not in page

    def test_a_server_that_is_not_available_has_no_buttons(self) -> None:
        page = accounts_page("team", "t", "ann", [AccountRow("wiki", "", "not available")])
        assert "not available" in page
        assert 'value="connect"' not in page
        assert 'value="disconnect"' not in page

    def test_the_host_that_is_shown_has_no_user_name_and_no_password(self) -> None:
        assert shown_host("https://ann:secret@wiki.example.com:8443/mcp") == "wiki.example.com:8443"

    def test_a_gateway_without_such_servers_says_so(self) -> None:
        assert "No server of this gateway" in accounts_page("team", "t", "ann", [])


class TestClientDocument:
    """The client metadata document, by which authorization servers know the gateway without registration."""

    def test_it_names_the_gateway_and_its_redirect(self) -> None:
        store = AccountStore(KeyRing([b"k" * 32]), MemoryStore)
        logins = Logins(store, "https://tools.example.com", "Gateway team")
        document = logins.describe_client("account")
        assert document is not None
        assert b'"client_id":"https://tools.example.com/accounts/client.json"' in document
        assert b'"redirect_uris":["https://tools.example.com/accounts/callback"]' in document

    def test_it_is_another_one_for_logins_at_the_gateway(self) -> None:
        store = AccountStore(KeyRing([b"k" * 32]), MemoryStore)
        document = Logins(store, "https://tools.example.com", "Gateway team").describe_client("gateway")
        assert document is not None
        assert b'"client_id":"https://tools.example.com/accounts/login.json"' in document
        assert b'"redirect_uris":["https://tools.example.com/accounts/login"]' in document

    async def test_there_is_none_where_others_could_not_read_it(self) -> None:
        async with account_scene(make_server) as at, at.browser("ann") as browser:
            assert (await browser.open(f"{at.url}/accounts/client.json")).status == 404


class TestAccountStore:
    """What is kept in the store, with values."""

    async def test_an_entry_that_was_moved_to_another_user_cannot_be_read_there(self) -> None:
        memory = NotingStore()
        accounts = AccountStore(KeyRing([b"k" * 32]), lambda: memory)
        ann, bob = "https://a.example ann", "https://a.example bob"
        await accounts.save(ann, b"token of ann")
        await accounts.save(bob, b"token of bob")
        (one, first), (other, second) = memory.written.items()
        await memory.put(one, second)
        await memory.put(other, first)
        assert await accounts.load(ann) is None
        assert await accounts.load(bob) is None

    async def test_a_user_of_the_same_name_at_another_issuer_has_none_of_the_accounts(self) -> None:
        memory, ring = MemoryStore(), KeyRing([b"k" * 32])
        before = AccountStore(ring, lambda: memory, "https://old.example")
        after = AccountStore(ring, lambda: memory, "https://new.example")
        await before.connected("https://a.example label", "label", b"token of ann")
        assert await before.is_connected("https://a.example label", "label")
        assert await after.load("https://a.example label") is None
        assert not await after.is_connected("https://a.example label", "label")
        await after.save("https://a.example label", None)
        assert await before.load("https://a.example label") == b"token of ann"

    async def test_an_account_that_the_keys_do_not_open_is_not_connected(self) -> None:
        memory = MemoryStore()
        old = AccountStore(KeyRing([b"o" * 32]), lambda: memory)
        new = AccountStore(KeyRing([b"n" * 32]), lambda: memory)
        await old.connected("name", "label", b"account")
        assert not await new.is_connected("name", "label")
        assert await AccountStore(KeyRing([b"n" * 32, b"o" * 32]), lambda: memory).is_connected("name", "label")

    def test_labels_of_other_servers_and_users_differ(self) -> None:
        labels = {account_label(*pair) for pair in (("a", "b"), ("a b", ""), ("", "a b"), ("a", " b"), ("b", "a"))}
        assert len(labels) == 5

    def test_a_tag_is_for_one_account_and_survives_a_new_key(self) -> None:
        old = AccountStore(KeyRing([b"o" * 32]), MemoryStore)
        new = AccountStore(KeyRing([b"n" * 32, b"o" * 32]), MemoryStore)
        assert new.is_tag(old.tag("ann"), "ann")
        assert not new.is_tag(old.tag("ann"), "bob")
        assert not old.is_tag(new.tag("ann"), "ann")

    async def test_a_login_is_taken_once_and_by_its_browser(self) -> None:
        memory = MemoryStore()
        accounts = AccountStore(KeyRing([b"k" * 32]), lambda: memory)
        await accounts.put_login("state", "browser", b"login")
        assert await accounts.take_login("state", "another") is None
        assert await accounts.take_login("state", "browser") == b"login"
        assert await accounts.take_login("state", "browser") is None


class BreakingStore(MemoryStore):
    """A store in memory that cannot be reached for a while."""

    is_away = False

    async def get(self, key: str) -> bytes | None:
        self._check()
        return await super().get(key)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        self._check()
        await super().put(key, value, ttl)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("away for a moment")


class NotingStore(MemoryStore):
    """A store in memory that notes what is written to it first."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, bytes] = {}

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        self.written.setdefault(key, value)
        await super().put(key, value, ttl)
