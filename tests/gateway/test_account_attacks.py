"""Attacks on the accounts of users: by other users of the gateway, by unknown clients, and by servers behind it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from dovetail import Client, Context, Gateway, JWTVerifier, OAuth, RemoteError, Server
from dovetail.client.auth.token_store import FileTokens
from dovetail.gateway import Credentials, ServerSettings
from dovetail.storage import MemoryStore
from dovetail.storage.contract import StoreUnavailable
from tests.gateway.account_scene import AccountScene, account_scene, query_of
from tests.gateway.exchanging_auth import Recorder, behind
from tests.gateway.test_credentials import ERAS, make_server
from tests.support.http import serving
from tests.support.raw_http import Site, modern_meta, text_of

ACCOUNT = ServerSettings(credentials=Credentials(type="user-account"))


def make_task_server(revision: str, auth: JWTVerifier) -> Server:
    """A server whose calls may be tasks."""
    server = Server("behind", auth=auth, revisions=[revision])

    @server.tool(task="optional")
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(task="optional")
    async def wait(ctx: Context) -> str:
        await asyncio.sleep(3600)
        return "late"

    return server


async def connect(at: AccountScene, *users: str) -> None:
    """Connect the accounts of some users."""
    for user in users:
        async with at.browser(user) as browser:
            await browser.connect(f"{at.url}/accounts?server=notes")


TASK_METHODS = {
    "2025-11-25": ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"),
    "2026-07-28": ("tasks/get", "tasks/update", "tasks/cancel"),
}


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize(("front", "method"), [(front, method) for front in ERAS for method in TASK_METHODS[front]])
async def test_no_method_of_tasks_uses_the_account_of_another_user(front: str, method: str, back: str) -> None:
    async with account_scene(make_task_server, back) as at:
        await connect(at, "ann", "bob")
        async with at.client("ann", revision=front) as ann, at.client("bob", revision=front) as bob:
            hers, waiting = await ann.start("notes__whoami"), await ann.start("notes__wait")
            assert (await hers.result()).text == "ann"
            his = await bob.start("notes__whoami")
            assert (await his.result()).text == "bob"
            at.recorder.seen.clear()
            if method == "tasks/list":
                assert {task.id for task in await bob.tasks()} == {his.id}
                assert {task.id for task in await ann.tasks()} == {hers.id, waiting.id}
            else:
                more = {"inputResponses": {}} if method == "tasks/update" else {}
                for task in (hers, waiting):
                    with pytest.raises(RemoteError) as refused:
                        await bob.request(method, {"taskId": task.id, **more})
                    with pytest.raises(RemoteError) as unknown:
                        await bob.request(method, {"taskId": "no-such-task", **more})
                    assert (refused.value.code, refused.value.message.replace(str(task.id), "ID")) == (
                        unknown.value.code,
                        unknown.value.message.replace("no-such-task", "ID"),
                    )
            # Whatever the gateway does for her task meanwhile, it does with her token.
            assert at.recorder.callers() <= {"ann"}
            assert (await waiting.refresh()).status == "working"
            assert (await ann.task(hers.reference).result()).text == "ann"
            at.recorder.seen.clear()
            await waiting.cancel()
            assert at.recorder.callers() <= {"ann"}


@pytest.mark.parametrize("back", ERAS)
async def test_the_question_for_a_login_of_another_user_cannot_be_answered(back: str) -> None:
    """Mallory answers what ann was asked: neither is her call sent, nor does hers count as one of bob's."""
    meta = modern_meta(elicitation={"url": {}})
    call: dict[str, Any] = {"name": "notes__whoami", "arguments": {}}
    async with account_scene(make_server, back) as at:
        sites = [Site(at.url, Authorization=f"Bearer {at.token(user)}") for user in ("ann", "bob")]
        async with sites[0] as ann, sites[1] as bob:
            asked = (await (await ann.modern("tools/call", meta=meta, **call)).answer())["result"]
            assert asked["resultType"] == "input_required"
            answers = {key: {"action": "accept"} for key in asked["inputRequests"]}
            await connect(at, "ann", "bob")
            at.recorder.seen.clear()
            retry = {**call, "inputResponses": answers}
            if "requestState" in asked:
                retry["requestState"] = asked["requestState"]
                assert "error" in await (await bob.modern("tools/call", meta=meta, **retry)).answer()
                assert at.recorder.seen == []
            else:
                # Without a state an answer says nothing but that its sender has logged in, whose account counts.
                assert text_of(await (await bob.modern("tools/call", meta=meta, **retry)).answer()) == "bob"
                assert at.recorder.callers() == {"bob"}
            assert text_of(await (await ann.modern("tools/call", meta=meta, **retry)).answer()) == "ann"


@pytest.mark.parametrize("back", ERAS)
async def test_a_server_whose_url_has_changed_gets_no_account_of_the_old_url(back: str) -> None:
    async with account_scene(make_server, back) as at, at.client("ann") as ann:
        await connect(at, "ann")
        assert (await ann.call("notes__whoami")).text == "ann"
        async with behind(lambda auth: make_server(back, auth), at.away.issuer) as (elsewhere, recorder):
            await at.gateways[0].update({"notes": elsewhere}, settings={"notes": ACCOUNT})
            with pytest.raises(RemoteError, match="needs your account there"):
                await ann.call("notes__whoami")
            assert not any(recorder.headers)
            await at.gateways[0].update({"notes": at.server_url}, settings={"notes": ACCOUNT})
            assert (await ann.call("notes__whoami")).text == "ann"


@pytest.mark.parametrize("revision", ERAS)
async def test_an_unknown_client_never_uses_the_login_of_the_user_who_runs_the_gateway(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without authentication a gateway is refused such a server when it starts, but the file can change later."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DOVETAIL_LOGIN", "never")
    async with account_scene(make_task_server) as at:
        login = OAuth(
            open_page=lambda url: at.away.agree(url, "owner"),
            redirect_uri="http://127.0.0.1:1/callback",
            store=FileTokens(),
            account="",
        )
        await login.login(at.server_url)
        gateway = Gateway({})
        async with serving(gateway.asgi()) as url, Client(f"{url}/mcp", revision=revision, timeout=10) as client:
            await gateway.update({"notes": at.server_url}, settings={"notes": ACCOUNT})
            at.recorder.headers.clear()
            # Tasks and renewed subscriptions go on without the request, whose address tells it from a local one.
            assert not gateway._state.account_servers()["notes"].serves_local

            async def run_task() -> Any:
                task = await client.start("notes__whoami")
                return await task.result(timeout=5)

            for attempt in (client.call("notes__whoami"), run_task()):
                with pytest.raises(RemoteError, match="without authentication"):
                    await attempt
            assert not any(at.recorder.headers)


async def test_an_answer_for_the_gateway_is_not_handed_to_the_authorization_server_of_a_server() -> None:
    """RFC 9700, section 4.4: the authorization server of a hostile server redirects the browser to that of callers."""
    async with account_scene(make_server) as at, at.browser("ann") as browser:
        page = await browser.press(await browser.open(f"{at.url}/accounts"), "login")
        of_gateway = next(query_of(url) for url in browser.visited if "/authorize" in url)
        browser.stop_at = urlsplit(at.away.issuer).netloc
        begun = query_of((await browser.press(page, "connect")).url)
        taken = {name: begun[name] for name in ("state", "code_challenge")}
        answer = await at.home.agree(f"{at.home.issuer}/authorize?{urlencode({**of_gateway, **taken})}", "ann")
        # An authorization server that does not name itself in its answer (RFC 9207) would not be told apart by that.
        fields = {name: text for name, text in query_of(answer).items() if name != "iss"}
        assert fields["code"]
        page = await browser.open(f"{answer.partition('?')[0]}?{urlencode(fields)}")
        assert (page.status, page.title) == (400, "This login cannot be continued · team")


@pytest.mark.parametrize("issuer", ["", "&issuer=0123456789abcdef", "&issuer=%26"])
async def test_an_answer_at_the_address_of_another_authorization_server_is_refused(issuer: str) -> None:
    async with account_scene(make_server) as at, at.browser("ann") as browser:
        page = await browser.press(await browser.open(f"{at.url}/accounts"), "login")
        browser.stop_at = urlsplit(at.away.issuer).netloc
        answer = await at.away.agree((await browser.press(page, "connect")).url, "ann")
        fields = {name: text for name, text in query_of(answer).items() if name != "issuer"}
        page = await browser.open(f"{at.url}/accounts/callback?{urlencode(fields)}{issuer}")
        assert page.status == 400
        assert at.away.logins == 0


async def test_no_secret_of_a_login_is_in_the_log_or_on_a_page(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with account_scene(make_server) as at:
            async with at.connecting_client("ann") as ann:
                await ann.call("notes__whoami")
            async with at.browser("ann") as browser:
                await browser.connect(f"{at.url}/accounts?server=notes")
                page = await browser.open(f"{at.url}/accounts")
                secrets = {query_of(url).get(name, "") for url in browser.visited for name in ("code", "state")}
            secrets |= {*at.recorder.tokens, at.token("ann")}
    # The tool that runs the browser of the test logs what it fetches; a server's log has no queries.
    told = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("dovetail"))
    for secret in secrets - {""}:
        assert secret not in told
        assert secret not in page.text


async def test_the_cookie_of_before_a_logout_or_another_login_is_of_no_use() -> None:
    store = MemoryStore()
    async with account_scene(make_server, stores=(store, store)) as at, at.browser("ann") as browser:
        accounts = f"{at.url}/accounts"
        for action in ("logout", "login"):
            page = await browser.press(await browser.open(accounts), "login")
            assert page.title.startswith("Your accounts")
            ((name, stolen),) = ((name, value) for (host, name), value in browser.cookies if host in at.url)
            await browser.open(accounts, {"action": action, "form_token": page.fields("logout")["form_token"]})
            for url in at.urls:
                async with at.browser("eve") as thief:
                    thief.set_cookie(url, name, stolen)
                    assert (await thief.open(f"{url}/accounts")).title.startswith("Log in")


async def test_a_page_fails_where_it_cannot_be_known_whether_its_session_was_ended() -> None:
    store = FailingStore()
    async with account_scene(make_server, stores=(store,)) as at, at.browser("ann") as browser:
        page = await browser.press(await browser.open(f"{at.url}/accounts"), "login")
        store.fails = True
        for answer in (await browser.open(f"{at.url}/accounts"), await browser.press(page, "logout")):
            assert (answer.status, answer.title) == (503, "Try again later · team")


class FailingStore(MemoryStore):
    """A store that cannot be reached for a while."""

    fails = False

    async def get(self, key: str) -> bytes | None:
        if self.fails:
            raise StoreUnavailable("gone")
        return await super().get(key)


class Refuses:
    """Refuses every request with a token of one user."""

    def __init__(self, app: Any, user: str, status: int) -> None:
        self._app, self._user, self._status = app, user, status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        if scope["type"] == "http" and Recorder.caller(("", authorization)) == self._user:
            header = (b"www-authenticate", b'Bearer error="invalid_token"')
            await send({"type": "http.response.start", "status": self._status, "headers": [header]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("back", ERAS)
async def test_a_user_whom_the_server_refuses_does_not_disturb_others(back: str, status: int) -> None:
    async with account_scene(make_server, back) as at:
        await connect(at, "ann", "bob")
        async with at.client("ann") as ann, at.client("bob") as bob:
            assert (await bob.call("notes__whoami")).text == "bob"
            at.recorder.app = Refuses(at.recorder.app, "bob", status)
            for _ in range(8):
                with pytest.raises(RemoteError):
                    await bob.call("notes__whoami")
                assert (await ann.call("notes__whoami")).text == "ann"
            assert at.gateways[0].status["servers"]["notes"]["state"] == "ready"
        async with at.client("bob") as bob, at.client("ann") as ann:
            for _ in range(8):
                with pytest.raises(RemoteError):
                    await bob.call("notes__whoami")
            assert (await ann.call("notes__whoami")).text == "ann"
            assert at.gateways[0].status["servers"]["notes"]["state"] == "ready"
