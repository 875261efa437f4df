"""A client that logs in when a server wants it, and stays logged in."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.auth.jwk import SigningKey
from dovetail.client.auth.grants import ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import FileTokens, MemoryTokens
from dovetail.protocol.errors import HttpStatus, LocalError
from dovetail.transports.http.aiohttp_client import AiohttpClient
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester
from tests.client.protected import BACK, Protected

LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'


def oauth(server: Protected, **how: Any) -> OAuth:
    return OAuth(open_page=server.consent, redirect_uri=BACK, **how)


@contextlib.asynccontextmanager
async def sending(server: Protected, auth: OAuth) -> AsyncGenerator[HttpRequester]:
    client = AiohttpClient(HttpOptions(), server.url)
    try:
        yield HttpRequester(client, server.url, {}, auth)
    finally:
        await client.close()


async def ask(courier: HttpRequester) -> int:
    answer = await courier.send("POST", {"content-type": "application/json"}, LIST)
    answer.close()
    return answer.status


class TestLogin:
    async def test_a_server_that_wants_a_token_gets_one(self):
        async with Protected() as server:
            async with Client(server.url, auth=oauth(server)) as client:
                assert list(await client.tools()) == []
            [login] = server.logins
            assert login["resource"] == server.url
            assert login["code_challenge_method"] == "S256"
            assert server.grants == ["authorization_code"]

    @pytest.mark.parametrize("offered", [None, [], ["plain"]])
    async def test_without_pkce_nobody_is_sent_anywhere(self, offered: list[str] | None):
        async with Protected() as server:
            server.card = {"code_challenge_methods_supported": offered}
            with pytest.raises(Untrusted, match="PKCE"):
                await Client(server.url, auth=oauth(server)).open()
            assert server.logins == [] and server.grants == []

    async def test_many_requests_at_once_wait_for_one_login(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            assert await asyncio.gather(*[ask(courier) for _ in range(8)]) == [200] * 8
            assert len(server.logins) == 1

    async def test_a_stored_login_is_used_at_the_next_start(self):
        store = MemoryTokens()
        async with Protected() as server:
            for _ in range(2):
                async with sending(server, oauth(server, store=store)) as courier:
                    assert await ask(courier) == 200
            assert len(server.logins) == 1

    async def test_two_accounts_at_one_server(self):
        store = MemoryTokens()
        async with Protected() as server:
            for name in ("work", "home", "work"):
                async with sending(server, oauth(server, store=store, account=name)) as courier:
                    assert await ask(courier) == 200
            assert len(server.logins) == 2

    async def test_a_login_outlasts_the_request_that_it_began_for(self):
        async with Protected() as server:
            began, go_on = asyncio.Event(), asyncio.Event()

            async def slowly(url: str) -> str:
                began.set()
                await go_on.wait()
                return await server.consent(url)

            async with sending(server, OAuth(open_page=slowly, redirect_uri=BACK)) as courier:
                hasty = asyncio.create_task(ask(courier))
                await began.wait()
                hasty.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await hasty
                go_on.set()
                assert await ask(courier) == 200
            assert len(server.logins) == 1

    async def test_a_token_that_is_refused_at_once_leads_to_no_second_login(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.believes = False
            with pytest.raises(AuthorizationFailed, match="refuses the token that was just given out"):
                await ask(courier)
            assert len(server.logins) == 1

    async def test_an_answer_to_another_login_is_not_used(self):
        async with Protected() as server:

            async def forged(url: str) -> str:
                return f"{BACK}?code=theirs&state=guessed&iss={server.base}"

            async with sending(server, OAuth(open_page=forged, redirect_uri=BACK)) as courier:
                with pytest.raises(Untrusted, match="state"):
                    await ask(courier)
            assert server.grants == []

    async def test_logging_out_forgets_and_revokes(self):
        store = MemoryTokens()
        async with Protected() as server:
            auth = oauth(server, store=store)
            async with sending(server, auth) as courier:
                assert await ask(courier) == 200
                await auth.logout(server.url)
                assert server.revoked == ["r1"]
                assert await ask(courier) == 200
            assert len(server.logins) == 2

    async def test_a_stored_token_that_is_bound_to_no_key_is_not_used_where_one_is_wanted(self):
        store = MemoryTokens()
        async with Protected() as server:
            async with sending(server, oauth(server, store=store)) as courier:
                assert await ask(courier) == 200
            async with sending(server, oauth(server, store=store, dpop=True)) as courier:
                with pytest.raises(Untrusted, match="of the type Bearer, where DPoP was requested"):
                    await ask(courier)
            assert [asked.headers.get("authorization") for asked in server.asked if asked.path == "/mcp"][-1] is None

    async def test_what_is_stored_and_cannot_be_read_is_passed_over(self, caplog: pytest.LogCaptureFixture):
        store = MemoryTokens()
        async with Protected() as server:
            await store.save(server.url, b"nonsense")
            async with sending(server, oauth(server, store=store)) as courier:
                assert await ask(courier) == 200
        assert "The stored login cannot be read" in caplog.text


class TestRenewal:
    async def test_it_happens_in_silence_and_once_for_all_who_wait(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.lifetimes = [0, 3600]
            assert await asyncio.gather(*[ask(courier) for _ in range(8)]) == [200] * 8
            assert server.grants == ["authorization_code", "refresh_token"]

    async def test_a_revoked_token_is_renewed(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            for _ in range(3):
                assert await ask(courier) == 200
                server.tokens.clear()
            assert server.grants == ["authorization_code", "refresh_token", "refresh_token"]
            assert len(server.logins) == 1

    @pytest.mark.parametrize("lifetime", [0, 3600])
    async def test_a_revoked_login_is_done_again(self, lifetime: int):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.lifetimes = [3600, lifetime]
            assert await ask(courier) == 200
            server.tokens.clear()
            server.refresh_tokens.clear()
            server.lifetimes = [3600]
            assert await ask(courier) == 200
            assert server.grants == ["authorization_code", "refresh_token", "authorization_code"]

    async def test_two_who_share_a_store_renew_once_each_time(self, tmp_path: Path):
        async with Protected() as server:
            stores = [FileTokens(tmp_path / "accounts", {}) for _ in range(2)]
            one, other = (oauth(server, store=store) for store in stores)
            async with sending(server, one) as first, sending(server, other) as second:
                assert await ask(first) == 200
                for _ in range(5):
                    server.tokens.clear()
                    assert await asyncio.gather(ask(first), ask(second), ask(first), ask(second)) == [200] * 4
            assert server.grants == ["authorization_code"] + ["refresh_token"] * 5


class TestStepUp:
    async def test_more_scopes_are_asked_for_when_they_are_needed(self):
        async with Protected() as server, sending(server, oauth(server, scopes=["read"])) as courier:
            server.demands = {"tools/list": "write"}
            assert await ask(courier) == 200
            assert [login["scope"] for login in server.logins] == ["read", "read write"]

    async def test_a_server_that_is_never_content_is_given_up(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.demands = {"tools/list": "write"}
            server.grudging = True
            for _ in range(3):
                with pytest.raises(AuthorizationFailed, match="refuses a token that has all the permissions"):
                    await ask(courier)
            assert len(server.logins) == 2

    async def test_another_kind_of_403_is_no_reason_to_log_in(self):
        auth = OAuth(redirect_uri=BACK)
        sent = {"authorization": "Bearer x"}
        assert not await auth.refused("http://127.0.0.1/mcp", sent, 403, {"www-authenticate": "Bearer"})


class TestPrograms:
    async def test_a_secret(self):
        async with Protected() as server:
            way = ClientCredentials("robot", secret="secret")
            async with Client(server.url, auth=OAuth(way, scopes=["read"])) as client:
                await client.tools()
            assert server.grants == ["client_credentials"]
            assert server.tokens["t1"] == {"read"}

    async def test_a_key(self):
        key = SigningKey.generate()
        async with Protected() as server:
            server.client_key = key.public
            server.card = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}
            way = ClientCredentials("robot", private_key=key.to_pem())
            async with Client(server.url, auth=OAuth(way)) as client:
                await client.tools()
            assert server.grants == ["client_credentials"]

    async def test_a_token_that_has_expired_is_got_again(self):
        async with Protected() as server:
            server.lifetimes = [3600]
            async with sending(server, OAuth(ClientCredentials("robot", secret="secret"))) as courier:
                for _ in range(2):
                    assert await ask(courier) == 200
                    server.tokens.clear()
            assert server.grants == ["client_credentials"] * 2

    async def test_credentials_are_not_shown_to_another_authorization_server(self):
        async with Protected() as server, Protected() as evil:
            async with sending(server, OAuth(ClientCredentials("robot", secret="secret"))) as courier:
                assert await ask(courier) == 200
                server.tokens.clear()
                server.metadata = {"authorization_servers": [evil.base]}
                with pytest.raises(Untrusted, match="its credentials are not for"):
                    await ask(courier)
            assert evil.grants == []


class TestRefusals:
    async def test_a_login_goes_to_no_other_server(self):
        async with Protected() as server, Protected() as other:
            auth = oauth(server)
            async with sending(server, auth) as courier:
                assert await ask(courier) == 200
            async with sending(other, auth) as courier:
                with pytest.raises(LocalError, match="another server needs an OAuth of its own"):
                    await ask(courier)
            assert other.asked == []

    @pytest.mark.parametrize(
        "place",
        [
            "https://169.254.169.254/latest",
            "https://[::ffff:169.254.169.254]/latest",
            "https://[64:ff9b::a9fe:a9fe]/latest",
            "https://[2002:a9fe:a9fe::1]/latest",
            "https://10.0.0.1",
        ],
    )
    async def test_metadata_that_lead_into_the_machine_room(self, place: str):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.metadata = {"authorization_servers": [place]}
            with pytest.raises(Untrusted, match="is not allowed as a target"):
                await ask(courier)
            assert server.logins == []

    @pytest.mark.parametrize("page", ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/login"])
    async def test_a_login_page_that_is_none(self, page: str):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.card = {"authorization_endpoint": page}
            with pytest.raises(Untrusted):
                await ask(courier)
            assert server.logins == []

    async def test_a_server_without_pkce(self):
        async with Protected() as server, sending(server, oauth(server)) as courier:
            server.card = {"code_challenge_methods_supported": ["plain"]}
            with pytest.raises(Untrusted, match="PKCE"):
                await ask(courier)
            assert server.logins == []

    async def test_a_client_without_credentials_is_told(self):
        async with Protected() as server:
            with pytest.raises(HttpStatus, match="it wants credentials: give a token with auth="):
                await Client(server.url, auth=False).open()

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ({"client_secret": "x"}, "goes with the client_id"),
            ({"open_page": print}, "redirect_uri"),
            ({"grant": ClientCredentials("a", secret="b"), "client_id": "c"}, "cannot be combined with another grant"),
        ],
    )
    def test_what_does_not_go_together(self, how: dict[str, Any], words: str):
        with pytest.raises(LocalError, match=words):
            OAuth(**how)
