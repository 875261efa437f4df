"""Attacks on a login: codes, states, issuers and clients that belong to somebody else."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import pytest

from dovetail import Client
from dovetail.auth.errors import AuthorizationFailed, Denied, Untrusted
from dovetail.auth.tokens import Account
from dovetail.client.auth.browser_login import loopback
from dovetail.client.auth.grants import BrowserLogin, ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import MemoryTokens
from tests.attacks.attack_setup import (
    AUTHORIZATION_SERVER,
    BACK,
    PROTECTED,
    AttackerServer,
    SeenRequest,
    attacker_server,
    bare,
    browse,
    login_scene,
    oauth_login,
    server_metadata,
)


def wanting(stranger: Any) -> None:
    """A server of the attacker's that wants a token."""
    where = f'Bearer resource_metadata="{stranger.url}{PROTECTED}"'
    stranger.pages["/mcp"] = (401, {"www-authenticate": where}, b"")


async def test_what_is_attacked_works_by_itself() -> None:
    async with login_scene() as place:
        async with Client(place.url, auth=oauth_login()) as client:
            assert (await client.call("who")).text == "ada"
        assert place.authorization_server.grants == ["authorization_code"]


class TestMixUp:
    """RFC 9207: the answer of one authorization server is taken for that of another."""

    async def test_a_code_of_the_honest_server_does_not_go_to_the_attackers(self) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            attacker.poses(f"{attacker.url}/mcp")
            wanting(attacker)

            def send_on(seen: SeenRequest) -> tuple[int, dict[str, str], bytes]:
                changed = {**dict(parse_qsl(seen.query)), "client_id": "registered", "resource": place.url}
                return 302, {"location": f"{place.authorization_server.url}/authorize?{urlencode(changed)}"}, b""

            attacker.pages["/authorize"] = send_on
            with pytest.raises(Untrusted, match="iss"):
                await Client(f"{attacker.url}/mcp", auth=oauth_login()).open()
            assert place.authorization_server.codes and "/authorize" in attacker.paths(), (
                "the attack went as far as it could"
            )
            assert "/token" not in attacker.paths()
            assert place.authorization_server.grants == []
            for code in place.authorization_server.codes:
                assert all(code not in seen.text for seen in attacker.seen)

    @pytest.mark.parametrize("answer", ["", "&iss=", "&iss={other}", "&iss={own}/", "&iss={own}&iss={own}"])
    async def test_an_answer_that_does_not_name_its_server(self, answer: str) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            place.authorization_server.names_itself = False

            async def page(url: str) -> str:
                return await browse(url) + answer.format(other=attacker.url, own=place.authorization_server.url)

            with pytest.raises(Untrusted, match=r"iss|twice"):
                await Client(place.url, auth=oauth_login(open_page=page)).open()
            assert place.authorization_server.grants == [] and not place.ran

    async def test_errors_of_another_server_are_not_told(self) -> None:
        async with login_scene() as place, attacker_server() as attacker:

            async def page(url: str) -> str:
                state = dict(parse_qsl(urlsplit(url).query))["state"]
                told = {"error": "call-this-number", "state": state, "iss": attacker.url}
                return f"{BACK}?{urlencode(told)}"

            with pytest.raises(Untrusted) as caught:
                await Client(place.url, auth=oauth_login(open_page=page)).open()
            assert "call-this-number" not in str(caught.value)

    async def test_metadata_that_name_another_issuer(self) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            attacker.poses(f"{attacker.url}/mcp")
            wanting(attacker)
            attacker.pages[AUTHORIZATION_SERVER] = server_metadata(
                place.authorization_server.url, token_endpoint=f"{attacker.url}/token"
            )
            with pytest.raises(Untrusted, match="are those of"):
                await Client(f"{attacker.url}/mcp", auth=oauth_login()).open()
            attacker.learned_nothing(place.authorization_server)
            assert set(attacker.paths()) == {"/mcp", PROTECTED, AUTHORIZATION_SERVER}


class TestCodes:
    """Codes and states that were not meant for this login."""

    async def test_a_code_of_the_attackers_with_a_guessed_state(self) -> None:
        async with login_scene() as place:

            async def page(url: str) -> str:
                fields = dict(parse_qsl((await browse(url)).partition("?")[2]))
                return f"{BACK}?{urlencode({**fields, 'state': 'guessed'})}"

            with pytest.raises(Untrusted, match="state"):
                await Client(place.url, auth=oauth_login(open_page=page)).open()
            assert place.authorization_server.grants == []

    async def test_a_code_of_the_attackers_with_a_stolen_state_meets_pkce(self) -> None:
        async with login_scene() as place:

            async def page(url: str) -> str:
                fields = dict(parse_qsl(urlsplit(url).query))
                # The attacker logs in with a challenge of their own, and puts that code into the victim's browser.
                theirs = {**fields, "code_challenge": "A" * 43}
                return await browse(f"{place.authorization_server.url}/authorize?{urlencode(theirs)}")

            with pytest.raises(Denied, match="invalid_grant"):
                await Client(place.url, auth=oauth_login(open_page=page)).open()
            assert place.authorization_server.granted == [] and not place.ran

    async def test_the_callback_takes_no_answer_but_its_own(self) -> None:
        async with login_scene() as place:
            told: list[str] = []
            turned_away: list[tuple[int, str]] = []

            async def attack_then_agree() -> None:
                while not told:
                    await asyncio.sleep(0.01)
                url = told[0].rpartition(" ")[2]
                fields = dict(parse_qsl(urlsplit(url).query))
                to = fields["redirect_uri"]
                async with aiohttp.ClientSession() as session:
                    tries = (
                        f"{to}?code=theirs&state=guessed",
                        f"{to}?code=theirs",
                        f"{to}?code=theirs&state={fields['state']}&state=x",
                        f"{bare(to)}/elsewhere?code=theirs&state={fields['state']}",
                        f"{to}?state=x&redirect=https://evil.example/<script>",
                    )
                    for each in tries:
                        async with session.get(each, allow_redirects=False) as answer:
                            assert "location" not in answer.headers
                            turned_away.append((answer.status, await answer.text()))
                    rebound = {"host": "evil.example"}
                    async with session.get(f"{to}?code=theirs&state={fields['state']}", headers=rebound) as answer:
                        turned_away.append((answer.status, await answer.text()))
                    async with session.get(url) as answer:
                        assert answer.status == 200

            way = BrowserLogin(lambda: loopback(browser=[], show=told.append), name="Dovetail")
            async with asyncio.TaskGroup() as together:
                together.create_task(attack_then_agree())
                async with Client(place.url, auth=OAuth(way)) as client:
                    assert (await client.call("who")).text == "ada"
            assert [status for status, _ in turned_away] == [400, 400, 400, 404, 400, 421]
            assert all("evil" not in page and "theirs" not in page for _, page in turned_away)
            assert [seen.fields["code"] for seen in place.authorization_server.seen if seen.path == "/token"] != [
                "theirs"
            ]

    @pytest.mark.parametrize("methods", [None, [], ["plain"], ["s256"]])
    @pytest.mark.parametrize("openid", [False, True])
    async def test_pkce_is_not_talked_away(self, methods: list[str] | None, openid: bool) -> None:
        async with login_scene() as place:
            changed = server_metadata(place.authorization_server.url, code_challenge_methods_supported=methods)
            if openid:
                place.authorization_server.pages[AUTHORIZATION_SERVER] = 404
                place.authorization_server.pages["/.well-known/openid-configuration"] = changed
            else:
                place.authorization_server.changes = changed
            with pytest.raises(Untrusted, match="PKCE"):
                await Client(place.url, auth=oauth_login()).open()
            assert not {"/authorize", "/token", "/register"} & set(place.authorization_server.paths())

    @pytest.mark.parametrize(
        "query",
        [
            "redirect_uri=https://evil.example/",
            "code_challenge_method=plain",
            "code_challenge=x",
            "state=fixed",
            "response_mode=web_message",
            "request_uri=https://evil.example/r",
            "client_id=theirs",
        ],
    )
    async def test_what_the_client_says_is_not_said_for_it(self, query: str) -> None:
        async with login_scene() as place:
            place.authorization_server.changes = {
                "authorization_endpoint": f"{place.authorization_server.url}/authorize?{query}"
            }
            with pytest.raises(Untrusted, match="must set itself"):
                await Client(place.url, auth=oauth_login()).open()
            assert not {"/authorize", "/token"} & set(place.authorization_server.paths())


class TestClients:
    """Client credentials belong to the authorization server that gave them out."""

    async def test_a_registration_that_gives_out_another_client(self) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            attacker.poses(f"{attacker.url}/mcp")
            wanting(attacker)
            attacker.pages["/register"] = {
                "client_id": "registered",  # as the honest server knows its client
                "redirect_uris": ["https://evil.example/"],
                "token_endpoint": "https://evil.example/token",
                "client_secret": "chosen-by-the-attacker",
            }
            attacker.pages["/token"] = 400
            pages: list[dict[str, str]] = []

            async def page(url: str) -> str:
                fields = dict(parse_qsl(urlsplit(url).query))
                pages.append(fields)
                return f"{BACK}?{urlencode({'code': 'c', 'state': fields['state'], 'iss': attacker.url})}"

            store = MemoryTokens()
            with pytest.raises(AuthorizationFailed):
                await Client(f"{attacker.url}/mcp", auth=oauth_login(open_page=page, store=store)).open()
            assert [fields["redirect_uri"] for fields in pages] == [BACK]
            async with Client(place.url, auth=oauth_login(store=store)) as client:
                await client.call("who")
            assert "/register" in place.authorization_server.paths(), "it has a client of its own there"
            assert all("chosen-by-the-attacker" not in seen.text for seen in place.authorization_server.seen)
            content = await store.load(place.url)
            assert content is not None and Account.decode(content).client.issuer == place.authorization_server.url

    @pytest.mark.parametrize("expired", [True, False])
    async def test_a_refresh_token_does_not_go_to_another_server(self, expired: bool) -> None:
        """The server was taken over: it refuses its tokens, and says that others give them out now."""
        async with login_scene() as place, attacker_server() as attacker:
            store = MemoryTokens()
            async with Client(place.url, auth=oauth_login(store=store)) as client:
                await client.call("who")
            if expired:
                known = json.loads(await store.load(place.url) or b"")
                known["tokens"]["expires_at"] = 1.0
                await store.save(place.url, json.dumps(known).encode())
            taken = place.app[0] = AttackerServer()
            attacker.poses(place.url)
            taken.pages[PROTECTED] = {"resource": place.url, "authorization_servers": [attacker.url]}
            taken.pages["/mcp"] = (401, {"www-authenticate": "Bearer"}, b"")
            pages: list[str] = []

            async def refuse(url: str) -> str:
                pages.append(bare(url))
                raise Denied("access_denied", "the user does not know this page")

            with pytest.raises(Denied):
                await Client(place.url, auth=oauth_login(store=store, open_page=refuse)).open()
            assert pages == [attacker.url], "a new login is all that it can ask for"
            attacker.learned_nothing(place.authorization_server)
            assert set(attacker.paths()) == {AUTHORIZATION_SERVER, "/register"}
            assert place.authorization_server.grants == ["authorization_code"]

    async def test_given_credentials_stay_with_their_server(self) -> None:
        async with login_scene() as place, attacker_server() as attacker:
            attacker.poses(f"{attacker.url}/mcp")
            wanting(attacker)
            ways = [
                OAuth(ClientCredentials("robot", secret="hush-hush", issuer=place.authorization_server.url)),
                oauth_login(client_id="robot", client_secret="hush-hush", issuer=place.authorization_server.url),
            ]
            for auth in ways:
                with pytest.raises(Untrusted, match="its credentials are not for"):
                    await Client(f"{attacker.url}/mcp", auth=auth).open()
            attacker.learned_nothing(place.authorization_server)
            assert all("hush" not in seen.text for seen in attacker.seen)


class TestResources:
    """A token for one server is not got for another."""

    @pytest.mark.parametrize("by_header", [True, False])
    async def test_metadata_of_another_server(self, by_header: bool) -> None:
        """A server of the attacker's says that it is the honest one, to be sent the honest one's token."""
        async with login_scene() as place, attacker_server() as attacker:
            honest = f"{bare(place.url)}{PROTECTED}"
            where = f'Bearer resource_metadata="{honest}"' if by_header else "Bearer"
            attacker.pages["/mcp"] = (401, {"www-authenticate": where}, b"")
            attacker.pages[PROTECTED] = {
                "resource": place.url,
                "authorization_servers": [place.authorization_server.url],
            }
            with pytest.raises(Untrusted, match="are those of"):
                await Client(f"{attacker.url}/mcp", auth=oauth_login()).open()
            attacker.learned_nothing(place.authorization_server)
            assert place.authorization_server.grants == [] and place.authorization_server.codes == {}

    @pytest.mark.parametrize(
        "resource", ["{url}/mcp/other", "{url}/mc", "{url}.evil.example/mcp", "https://evil.example"]
    )
    async def test_a_resource_that_only_looks_like_the_server(self, resource: str) -> None:
        async with attacker_server() as attacker:
            attacker.poses(resource.format(url=attacker.url))
            wanting(attacker)
            with pytest.raises(Untrusted, match="are those of"):
                await Client(f"{attacker.url}/mcp", auth=oauth_login()).open()
            attacker.learned_nothing()
