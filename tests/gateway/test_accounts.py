"""Accounts of users at servers: each user logs in there once, by URL elicitation, and is the only one to use it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import Audit, Client, Gateway, LocalError, RemoteError, Server, StaticTokens
from dovetail.auth import jwt
from dovetail.gateway import AccountSettings, Credentials, ServerSettings
from dovetail.policy import read_records
from dovetail.server.session import ServerCall
from dovetail.server.tasks.task_call import NoSink
from dovetail.wire.jsonrpc import Request
from tests.gateway.account_scene import KEY, account_scene
from tests.gateway.test_credentials import ERAS, METHODS, make_server
from tests.support.http import listening, serving, url_of
from tests.support.replica_clients import OpenStore
from tests.support.waiting import until

ASKING = ["2025-11-25", "2026-07-28"]
"""The revisions on which a client can be asked to open a page."""


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ASKING)
async def test_a_user_without_an_account_logs_in_and_the_call_goes_on(front: str, back: str) -> None:
    async with account_scene(make_server, back) as at, at.connecting_client("ann", revision=front) as ann:
        assert (await ann.call("notes__whoami")).text == "ann"
        assert (await ann.call("notes__whoami")).text == "ann"
        (page,) = at.asked
        assert page.startswith(f"{at.url}/accounts?server=notes&for=")
        assert "ann" not in page
        assert at.away.logins == 1


@pytest.mark.parametrize("front", ASKING)
async def test_prompts_and_resources_ask_for_the_account_too(front: str) -> None:
    async with account_scene(make_server) as at:
        async with at.connecting_client("ann", revision=front) as ann:
            prompt = await ann.prompt("notes__greeting", style="warm")
            assert prompt.messages[0].content.text == "Greet ann"  # type: ignore[union-attr]
        async with at.connecting_client("bob", revision=front) as bob:
            assert (await bob.read("me://now")).contents[0].text == "bob"  # type: ignore[union-attr]
        assert len(at.asked) == 2


@pytest.mark.parametrize("front", ASKING)
async def test_until_the_user_has_logged_in_one_tool_is_listed_which_connects_the_account(front: str) -> None:
    async with account_scene(make_server) as at, at.connecting_client("ann", revision=front) as ann:
        page = await ann.request("tools/list")
        assert [tool["name"] for tool in page["tools"]] == ["notes__connect_account"]
        missing = page["_meta"]["dovetail/servers"]["notes"]
        assert (
            missing["status"] == "waiting for your account" and f"{at.url}/accounts?server=notes" in missing["reason"]
        )
        assert "is connected" in (await ann.call("notes__connect_account")).text
        assert {tool.name for tool in await ann.tools()} == {"notes__whoami", "notes__of_ann"}
        # It can still be called, and has nothing to do.
        assert "is connected" in (await ann.call("notes__connect_account")).text
        assert len(at.asked) == 1


async def test_clients_of_a_user_are_told_that_the_tools_of_the_server_are_there() -> None:
    async with account_scene(make_server) as at, at.client("ann") as ann, at.client("bob") as bob:

        async def next_change(client: Client) -> str:
            async for change in client.watch(tools=True):
                return change.kind
            raise AssertionError

        hers, his = asyncio.ensure_future(next_change(ann)), asyncio.ensure_future(next_change(bob))
        async with at.browser("ann") as browser:
            for _ in range(2):  # the first time may be before the subscription is open
                await browser.connect(f"{at.url}/accounts?server=notes")
                await asyncio.wait([hers], timeout=2)
        assert await hers == "tools"
        assert not his.done()
        his.cancel()


@pytest.mark.parametrize("front", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_client_that_cannot_show_a_page_is_told_its_address(front: str) -> None:
    async with account_scene(make_server) as at, at.client("ann", revision=front) as ann:
        with pytest.raises(RemoteError, match="needs your account there") as raised:
            await ann.call("notes__whoami")
        data: Any = raised.value.data
        assert data["server"] == "notes"
        async with at.browser("ann") as browser:
            assert (await browser.connect(data["url"])).title.startswith("Your account is connected")
        assert (await ann.call("notes__whoami")).text == "ann"


@pytest.mark.parametrize("front", ASKING)
async def test_a_user_who_does_not_agree_is_not_asked_twice_and_nothing_is_sent(front: str) -> None:
    async def decline(url: str) -> None:
        return None

    async with account_scene(make_server) as at, at.client("ann", decline, revision=front) as ann:
        with pytest.raises(RemoteError, match="you did not agree to log in"):
            await ann.call("notes__whoami")
        assert len(at.asked) == 1
        assert "tools/call" not in {method for method, _ in at.recorder.seen}


@pytest.mark.parametrize("front", ASKING)
async def test_a_login_that_nobody_finishes_ends_the_call(front: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.gateway.accounts.account_upstream.WAIT_SECONDS", 0.3)

    async def look_away(url: str) -> str:
        return url

    async with account_scene(make_server) as at, at.client("ann", look_away, revision=front) as ann:
        with pytest.raises(RemoteError, match="nobody logged in"):
            await ann.call("notes__whoami")


async def test_completion_and_subscriptions_name_the_page_since_they_cannot_ask() -> None:
    async with account_scene(make_server) as at, at.connecting_client("ann") as ann:
        with pytest.raises(RemoteError, match="Connect it at http"):
            await ann.complete("notes__greeting", "style", "w")
        assert at.asked == []


async def test_the_client_is_notified_that_the_user_is_done() -> None:
    """2025-11-25 client/elicitation, "Completion Notifications for URL Mode Elicitation"."""
    heard: list[str] = []

    def trace(direction: str, data: bytes) -> None:
        heard.extend(re.findall(r'"elicitationId":"([0-9a-f]+)"', data.decode()))

    async with (
        account_scene(make_server) as at,
        at.connecting_client("ann", revision="2025-11-25", trace=trace) as ann,
    ):
        await ann.call("notes__whoami")
        await until(lambda: len(heard) >= 2)
    asked, completed = heard[0], heard[-1]
    assert asked == completed


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("method", METHODS)
async def test_no_method_uses_the_account_of_another_user(method: str, front: str, back: str) -> None:
    act, sent = METHODS[method]
    if method == "subscriptions":
        sent = "subscriptions/listen" if back == "2026-07-28" else "resources/subscribe"
    async with account_scene(make_server, back) as at:
        for user in ("ann", "bob"):
            async with at.browser(user) as browser:
                await browser.connect(f"{at.url}/accounts?server=notes")
        seen = at.recorder.seen
        async with at.client("ann", revision=front) as ann, at.client("bob", revision=front) as bob:
            seen.clear()
            await act(ann, "ann")
            assert at.recorder.callers(sent) == {"ann"}
            assert at.recorder.callers() == {"ann"}
            seen.clear()
            await act(bob, "bob")
            assert at.recorder.callers(sent) == {"bob"}
            # What ann has begun ends with her own token, perhaps only now.
            assert {at.recorder.caller(one) for one in seen if one[0] != "resources/unsubscribe"} == {"bob"}
            seen.clear()
            await asyncio.gather(act(ann, "ann"), act(bob, "bob"))
        assert at.recorder.callers() <= {"ann", "bob"}
        inbound = {at.token("ann"), at.token("bob")}
        assert not at.recorder.tokens & inbound


async def test_a_user_without_an_account_gets_nothing_of_that_of_another() -> None:
    async with account_scene(make_server) as at, at.connecting_client("ann") as ann, at.client("bob") as bob:
        await ann.call("notes__whoami")
        for act, _ in METHODS.values():
            await act(ann, "ann")
        at.recorder.seen.clear()
        assert [tool.name for tool in await bob.tools()] == ["notes__connect_account"]
        assert await bob.prompts() == []
        assert await bob.resources() == []
        assert await bob.resource_templates() == []
        for request in (
            bob.call("notes__whoami"),
            bob.call("notes__of_ann"),
            bob.prompt("notes__greeting", style="warm"),
            bob.read("me://now"),
            bob.read("note://ann"),
            bob.complete("notes__greeting", "style", "w"),
        ):
            with pytest.raises(RemoteError, match="needs your account"):
                await request
        assert at.recorder.seen == []


class TestRenewal:
    """A refresh token can be used once, so that of all gateways one renews an account."""

    @pytest.mark.parametrize("back", ERAS)
    async def test_gateways_renew_an_account_once(self, back: str, store: OpenStore) -> None:
        async with account_scene(make_server, back, stores=[store() for _ in range(3)]) as at:
            at.away.token_seconds = 2
            async with at.connecting_client("ann") as ann:
                await ann.call("notes__whoami")
            clients = [at.client("ann", at=number) for number in range(3)]
            for client in clients:
                await client.__aenter__()
            try:
                for _ in range(3):
                    before = at.away.refreshes
                    await asyncio.sleep(2)  # as long as a token lasts
                    at.away.token_seconds = 60 if before else 2
                    texts = await asyncio.gather(*(client.call("notes__whoami") for client in clients * 3))
                    assert {one.text for one in texts} == {"ann"}
                    assert at.away.refreshes <= before + 1
            finally:
                for client in clients:
                    await client.__aexit__(None, None, None)
            assert at.away.refreshes >= 1
            assert at.away.logins == 1

    @pytest.mark.parametrize("front", ASKING)
    async def test_an_account_that_has_ended_is_asked_for_again_and_the_call_goes_on(self, front: str) -> None:
        async with account_scene(make_server) as at, at.connecting_client("ann", revision=front) as ann:
            at.away.token_seconds = 1
            await ann.call("notes__whoami")
            at.away.revoke_all()
            await asyncio.sleep(1.1)  # as long as its token lasts
            at.away.token_seconds = 60
            assert (await ann.call("notes__whoami")).text == "ann"
            assert len(at.asked) == 2
            assert at.away.logins == 2

    @pytest.mark.parametrize("front", ASKING)
    async def test_a_server_that_wants_more_scopes_has_the_user_asked_again(self, front: str) -> None:
        async with account_scene(make_server) as at, at.connecting_client("ann", revision=front) as ann:
            app = at.recorder.app
            at.recorder.app = NeedsScope(app, "notes:write")
            assert (await ann.call("notes__whoami")).text == "ann"
            assert len(at.asked) == 2, "once to connect, and once more for the scope"
            assert (await ann.call("notes__whoami")).text == "ann"
            assert len(at.asked) == 2


class NeedsScope:
    """Refuses calls of tools with tokens that lack a scope, as servers do that list their tools for all."""

    def __init__(self, app: Any, scope: str) -> None:
        self._app, self._scope = app, scope

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            message = await receive()
            token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
            granted = str(jwt.parse_unverified(token).claims.get("scope", "")).split() if token else []
            if token and b'"tools/call"' in message.get("body", b"") and self._scope not in granted:
                header = f'Bearer error="insufficient_scope", scope="{self._scope}"'.encode()
                await send({"type": "http.response.start", "status": 403, "headers": [(b"www-authenticate", header)]})
                await send({"type": "http.response.body", "body": b""})
                return
            first = [message]

            async def again() -> Any:
                return first.pop() if first else await receive()

            await self._app(scope, again, send)
            return
        await self._app(scope, receive, send)


class TestSharing:
    """Gateways that share a store share the accounts, and nobody else can read them."""

    async def test_a_call_at_one_gateway_goes_on_when_the_user_has_logged_in_at_another(self, store: OpenStore) -> None:
        async with account_scene(make_server, stores=[store(), store()]) as at:
            async with at.connecting_client("ann", at=1) as ann:
                assert (await ann.call("notes__whoami")).text == "ann"
            async with at.client("ann", at=0) as ann:
                assert (await ann.call("notes__whoami")).text == "ann"

    async def test_an_account_that_is_disconnected_is_used_by_no_gateway_any_more(self, store: OpenStore) -> None:
        async with (
            account_scene(make_server, stores=[store(), store()]) as at,
            at.connecting_client("ann", at=1) as ann,
            at.browser("ann") as browser,
        ):
            await ann.call("notes__whoami")
            page = await browser.press(await browser.open(f"{at.url}/accounts"), "login")
            assert "Disconnect" in page.text
            page = await browser.press(page, "disconnect")
            assert "not connected" in page.text
            gone = at.gateways[1]
            await until(lambda: gone.status["servers"]["notes"]["connections"] == 0)
            at.recorder.seen.clear()
            async with at.client("ann", at=1) as other:
                with pytest.raises(RemoteError, match="needs your account"):
                    await other.call("notes__whoami")
            assert at.recorder.seen == []

    async def test_the_store_has_no_token_in_a_form_that_others_can_read(self, tmp_path: Path) -> None:
        from dovetail.storage import SqliteStore

        store = SqliteStore(tmp_path / "shared.db")
        async with account_scene(make_server, stores=[store]) as at, at.connecting_client("ann") as ann:
            await ann.call("notes__whoami")
            (token,) = at.recorder.tokens - {""}
        await store.close()
        kept = b"".join(file.read_bytes() for file in tmp_path.glob("shared.db*"))
        assert b"account:" in kept
        for secret in (token, token.split(".")[1], "refresh_token", "ann"):
            assert secret.encode() not in kept

    async def test_with_other_keys_an_account_is_of_no_use_and_its_user_is_asked_again(self, store: OpenStore) -> None:
        keys = (KEY, "another key of the gateway")
        async with account_scene(make_server, stores=[store(), store()], keys=keys) as at:
            for number, url in enumerate(at.urls):
                async with at.connecting_client("ann", at=number) as ann:
                    assert (await ann.call("notes__whoami")).text == "ann"
                assert len(at.asked) == number + 1
                assert at.asked[-1].startswith(url)
            assert at.away.logins == 2


class TestApproval:
    """A login at a server is no approval of a call."""

    @pytest.mark.parametrize("front", ASKING)
    async def test_a_call_that_needs_approval_is_approved_once_after_the_login(self, front: str) -> None:
        approvals: list[bool] = [False, True]
        asked: list[str] = []

        async def answer(question: Any) -> Any:
            if question.url is not None:
                asked.append("login")
                async with at.browser("ann") as browser:
                    await browser.connect(question.url)
                return "accept"
            asked.append("approval")
            return {"approve": approvals.pop(0)}

        rules = {"rules": [{"verdict": "ask", "tool": "whoami"}]}
        async with (
            account_scene(make_server, policy=rules) as at,
            at.client("ann", revision=front, on_elicit=answer) as ann,
        ):
            with pytest.raises(RemoteError, match="did not approve"):
                await ann.call("notes__whoami")
            assert asked == ["login", "approval"]
            assert (await ann.call("notes__whoami")).text == "ann"
            assert asked == ["login", "approval", "approval"]

    async def test_the_audit_log_tells_who_has_connected_which_account(self, tmp_path: Path) -> None:
        audit = Audit(tmp_path / "audit.jsonl", folder=tmp_path)
        async with account_scene(make_server, audit=audit) as at:
            async with at.browser("ann") as browser:
                await browser.connect(f"{at.url}/accounts?server=notes")
                await browser.press(await browser.open(f"{at.url}/accounts"), "disconnect")
            await at.gateways[0].close()
        records = [one for one in read_records(audit.path) if one.event == "account"]
        told = [(one.details["principal"], one.server, one.details["outcome"]) for one in records]
        assert told == [("ann", "notes", "connected"), ("ann", "notes", "disconnected")]


class TestLocalUser:
    """Over stdio, and in a program, there is one user, whose logins are those of the command line."""

    async def test_a_local_client_uses_the_login_of_the_user_who_runs_the_gateway(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.setenv("DOVETAIL_LOGIN", "never")
        async with account_scene(make_server) as at:
            from dovetail import OAuth
            from dovetail.client.auth.token_store import FileTokens

            address = at.server_url
            settings = {"notes": ServerSettings(credentials=Credentials(type="user-account"))}
            gateway = Gateway({"notes": address}, settings=settings)
            async with Client(gateway, timeout=10) as client:
                with pytest.raises(RemoteError, match=f"dovetail login {address}"):
                    await client.call("notes__whoami")
            login = OAuth(
                open_page=lambda url: at.away.agree(url, "cy"),
                redirect_uri="http://127.0.0.1:1/callback",
                store=FileTokens(),
                account="",
            )
            await login.login(address)
            gateway = Gateway({"notes": address}, settings=settings)
            async with Client(gateway, timeout=10) as client:
                assert (await client.call("notes__whoami")).text == "cy"


class TestSettings:
    """What is missing is said when the gateway starts."""

    @pytest.mark.parametrize(
        ("options", "served", "message"),
        [
            ({}, {}, "need authentication of callers"),
            ({"auth": StaticTokens({"a": "ann"})}, {}, "need the public URL"),
            (
                {"auth": StaticTokens({"a": "ann"}), "accounts": AccountSettings(url="http://127.0.0.1:1")},
                {"store": "sqlite:///shared.db"},
                "need `keys`",
            ),
            (
                {"auth": StaticTokens({"a": "ann"}), "accounts": AccountSettings(url="http://tools.example.com")},
                {},
                "https",
            ),
            (
                {
                    "auth": StaticTokens({"a": "ann"}),
                    "accounts": AccountSettings(url="https://tools.example.com", keys=("short",)),
                },
                {},
                "at least 16 bytes",
            ),
        ],
    )
    def test_settings_that_lack_something_say_what(
        self, options: dict[str, Any], served: dict[str, Any], message: str
    ) -> None:
        settings = {"notes": ServerSettings(credentials=Credentials(type="user-account"))}
        gateway = Gateway({"notes": "https://notes.example/mcp"}, settings=settings, **options)
        with pytest.raises(LocalError, match=message):
            gateway.asgi(**served)

    async def test_the_public_url_is_that_of_the_endpoint_if_it_is_given(self) -> None:
        settings = {"notes": ServerSettings(credentials=Credentials(type="user-account"))}
        auth = StaticTokens({"ann-secret": "ann"})
        gateway = Gateway({"notes": "http://127.0.0.1:1/mcp"}, settings=settings, auth=auth)
        sock = listening()
        url = url_of(sock)
        async with (
            serving(gateway.asgi(resource=f"{url}/mcp"), sock),
            Client(f"{url}/mcp", auth="ann-secret", timeout=10) as client,
        ):
            with pytest.raises(RemoteError, match=re.escape(f"{url}/accounts?server=notes")):
                await client.call("notes__whoami")

    def test_secrets_do_not_stand_in_the_text_of_settings(self) -> None:
        settings = AccountSettings(
            url="https://a.example", keys=("hush-hush-hush-hush",), client_id="gateway", client_secret="whisper"
        )
        assert "hush" not in repr(settings)
        assert "whisper" not in repr(settings)


async def test_what_a_local_client_is_listed_is_listed_for_no_caller_who_is_not_known() -> None:
    """Work that goes on without the token of its request has no caller either, and the listing was kept for both."""
    server = Server("wiki")

    @server.tool
    def secret() -> str:
        return "of the user who runs the gateway"

    async with serving(server.asgi()) as url:
        gateway = Gateway(
            {"wiki": f"{url}/mcp"},
            auth=StaticTokens({"token": "ann"}),
            settings={"wiki": ServerSettings(credentials=Credentials(type="user-account"))},
        )
        core = gateway._state.view("")
        async with Client(gateway, timeout=10, revision=ASKING[0]) as client:
            for _ in range(2):  # the first time it is not known yet that all clients can share a connection
                assert [tool.name for tool in await client.tools()] == ["wiki__secret"]
            (session,) = core._sessions
            assert session.lifecycle.terms is not None
            terms = msgspec.structs.replace(session.lifecycle.terms, principal="ann")
            listing = await core.listing(ServerCall(Request("1", "tools/list", {}), terms, NoSink(), None, session))
            assert list(listing.catalogue.tools) == []
            assert "without authentication" in listing.missing["wiki"]["reason"]
            assert [tool.name for tool in await client.tools()] == ["wiki__secret"]
        await gateway.close()
