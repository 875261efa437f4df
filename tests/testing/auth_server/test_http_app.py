"""The authorization server over real HTTP: documents, pages, and what is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from dovetail.auth.discovery import find_authorization_server
from dovetail.protocol.errors import LocalError
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.testing import DevAuth
from dovetail.transports.http.contract import HttpOptions
from tests.support.http import serving
from tests.support.login_browser import LoginBrowser, Page
from tests.testing.auth_server.asks import BACK, FIELDS, RESOURCE, VERIFIER


class Town:
    """The server, and a user with a browser."""

    def __init__(self, auth: DevAuth, visitor: LoginBrowser) -> None:
        self.auth = auth
        self.visitor = visitor

    def page(self, **changes: str | None) -> str:
        """The page of a login."""
        fields = {name: value for name, value in {**FIELDS, **changes}.items() if value is not None}
        return f"{self.auth.issuer}/authorize?{urlencode(fields)}"

    async def token(self, **fields: str) -> tuple[int, dict[str, Any]]:
        page = await self.visitor.post(f"{self.auth.issuer}/token", fields)
        return page.status, json.loads(page.text)

    async def exchange(self, back: str, **fields: str) -> tuple[int, dict[str, Any]]:
        [code] = parse_qs(urlsplit(back).query)["code"]
        given = {"client_id": "desk", "redirect_uri": BACK, "code_verifier": VERIFIER, "code": code}
        return await self.token(**{"grant_type": "authorization_code", **given, **fields})


@contextlib.asynccontextmanager
async def town(**options: Any) -> AsyncIterator[Town]:
    auth = DevAuth(**options)
    auth.add_client("desk", redirect_uris=[BACK], name="<b>Desk</b>")
    auth.add_client("robot", secret="secret")
    async with auth.serving(), LoginBrowser() as visitor:
        yield Town(auth, visitor)


def answer(back: str) -> dict[str, str]:
    """What a browser brings back to the client."""
    assert back.startswith(BACK + "?")
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


async def test_clients_find_it_at_every_well_known_place() -> None:
    for path in ("", "/tenant"):
        auth = DevAuth("http://127.0.0.1:1")  # until its port is known
        async with serving(auth.asgi()) as url:
            auth = DevAuth(url + path, scopes=["read"])
            async with serving(auth.asgi()) as there:
                place = there + "/.well-known/oauth-authorization-server" + path
                async with LoginBrowser() as visitor:
                    assert json.loads((await visitor.get(place)).text)["issuer"] == url + path
                    for other in (
                        "/.well-known/openid-configuration" + path,
                        path + "/.well-known/openid-configuration",
                    ):
                        assert json.loads((await visitor.get(there + other)).text)["jwks_uri"] == url + path + "/jwks"


async def test_our_own_client_reads_the_metadata() -> None:
    async with town(scopes=["read"]) as here:
        found = await OAuthHttp(here.auth.issuer, HttpOptions()).run(find_authorization_server(here.auth.issuer))
        found.check_pkce()
        assert found.authorization_response_iss_parameter_supported
        assert found.scopes_supported == ("read", "offline_access")
        assert found.registration_endpoint == f"{here.auth.issuer}/register"


async def test_a_login_through_the_pages() -> None:
    async with town() as here:
        page = await here.visitor.get(here.page())
        assert page.status == 200 and "development only" in page.text
        page = await here.visitor.submit(page, user="Ada  Lovelace")
        assert RESOURCE in page.text and "Ada Lovelace" in page.text and "read" in page.text
        page = await here.visitor.submit(page, decision="allow")
        brought = answer(page.location)
        assert (brought["state"], brought["iss"]) == ("s1", here.auth.issuer)
        status, tokens = await here.exchange(page.location)
        assert (status, tokens["scope"], tokens["token_type"]) == (200, "read write", "Bearer")
        assert here.auth.logins == 1


async def test_a_user_may_allow_less() -> None:
    async with town() as here:
        page = await here.visitor.submit(await here.visitor.get(here.page()), user="ada")
        del page.form.fields["scope.1"]
        back = (await here.visitor.submit(page, decision="allow")).location
        assert (await here.exchange(back))[1]["scope"] == "read"


async def test_a_user_may_ask_for_nothing_more_than_the_client_did() -> None:
    async with town() as here:
        page = await here.visitor.submit(await here.visitor.get(here.page()), user="ada")
        page.form.fields["scope.2"] = "admin"
        back = (await here.visitor.submit(page, decision="allow")).location
        assert (await here.exchange(back))[1]["scope"] == "read write"


async def test_a_user_says_no() -> None:
    async with town() as here:
        assert answer(await here.visitor.log_in(here.page(), decision="deny"))["error"] == "access_denied"


async def test_the_browser_remembers_the_user_until_somebody_else_comes() -> None:
    async with town() as here:
        await here.visitor.log_in(here.page())
        page = await here.visitor.get(here.page())
        assert "Allow access?" in page.text and "ada" in page.text
        page = await here.visitor.submit(page, decision="switch")
        page = await here.visitor.submit(page, user="bob")
        assert "<b>bob</b>" in page.text


async def test_only_known_users_where_some_are_named() -> None:
    async with town(users=["ada", "bob"]) as here:
        page = await here.visitor.get(here.page())
        assert page.form.buttons == [("user", "ada"), ("user", "bob")]
        assert (await here.visitor.submit(page, user="eve")).status == 400
        assert (await here.visitor.submit(page, user="bob")).status == 200


async def test_what_a_client_says_is_escaped_and_pages_cannot_be_framed() -> None:
    async with town() as here:
        page = await here.visitor.get(here.page(scope='"><script>alert(1)</script>'))
        assert page.status == 200 and "<script" not in page.text
        login = await here.visitor.get(here.page(scope="a'b<c>", resource="https://x.example/<i>"))
        consent = await here.visitor.submit(login, user="<u>ada")
        for one in (login, consent):
            assert "<b>Desk</b></b>" not in one.text and "&lt;b&gt;Desk" in one.text
            policy = one.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "script-src" not in policy
        assert "&lt;u&gt;ada" in consent.text and "https://x.example/&lt;i&gt;" in consent.text
        assert "a&#x27;b&lt;c&gt;" in consent.text


async def test_a_form_of_another_browser_is_refused() -> None:
    async with town() as here, LoginBrowser() as stranger:
        login = await here.visitor.get(here.page())
        refused = await stranger.submit(login, user="eve")
        assert refused.status == 400 and "another browser" in refused.text
        consent = await here.visitor.submit(login, user="ada")
        assert (await stranger.submit(consent, decision="allow")).status == 400
        assert (await stranger.log_in(here.page(), "eve")).startswith(BACK)  # logged in, and still
        assert (await stranger.submit(consent, decision="allow")).status == 400
        assert (await here.visitor.submit(consent, decision="allow")).status == 303


async def test_a_form_without_a_ticket_or_with_one_that_was_used_is_refused() -> None:
    async with town() as here:
        consent = await here.visitor.submit(await here.visitor.get(here.page()), user="ada")
        address = f"{here.auth.issuer}/consent"
        assert (await here.visitor.post(address, {"decision": "allow"})).status == 400
        assert (await here.visitor.post(address, {"decision": "allow", "ticket": "x"})).status == 400
        assert (await here.visitor.submit(consent, decision="perhaps")).status == 400
        assert (await here.visitor.submit(consent, decision="allow")).status == 303
        assert (await here.visitor.submit(consent, decision="allow")).status == 400


async def test_the_name_of_a_browser_changes_when_a_user_logs_in() -> None:
    async with town() as here:
        login = await here.visitor.get(here.page())
        consent = await here.visitor.submit(login, user="ada")
        assert login.headers["set-cookie"] != consent.headers["set-cookie"]
        assert "HttpOnly; SameSite=Lax" in consent.headers["set-cookie"]


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "nobody"},
        {"client_id": None},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": BACK + "/x"},
    ],
)
async def test_no_browser_is_sent_to_where_no_client_is(changes: dict[str, str | None]) -> None:
    async with town() as here:
        page = await here.visitor.get(here.page(**changes))
        assert page.status == 400 and "location" not in page.headers


async def test_a_known_client_is_told_of_its_mistake() -> None:
    async with town() as here:
        page = await here.visitor.get(here.page(code_challenge_method="plain"))
        told = answer(page.location)
        assert (told["error"], told["state"], told["iss"]) == ("invalid_request", "s1", here.auth.issuer)


async def test_another_host_is_refused() -> None:
    async with town() as here:
        assert (await here.visitor.get(here.page(), Host="evil.example")).status == 421
        assert (await here.visitor.get(here.page(), Host="localhost:1")).status == 200
        assert (await here.visitor.get(here.auth.issuer + "/nothing")).status == 404


async def registered(here: Town, **fields: Any) -> Page:
    session = here.visitor._session  # pyright: ignore[reportPrivateUsage]
    async with session.post(f"{here.auth.issuer}/register", data=json.dumps(fields)) as came:
        return Page("", came.status, came.headers, await came.text())


async def test_a_client_registers() -> None:
    async with town() as here:
        page = await registered(here, redirect_uris=[BACK], token_endpoint_auth_method="none", client_name="New")
        about = json.loads(page.text)
        assert page.status == 201 and about["grant_types"] == ["authorization_code"]
        back = await here.visitor.log_in(here.page(client_id=about["client_id"]))
        status, tokens = await here.exchange(back, client_id=about["client_id"])
        assert status == 200 and "refresh_token" not in tokens
        assert (await registered(here, redirect_uris=["ftp://x"])).status == 400
        assert json.loads((await registered(here)).text)["error"] == "invalid_redirect_uri"


async def test_a_reused_refresh_token_revokes_the_login() -> None:
    async with town() as here:
        _, tokens = await here.exchange(await here.visitor.log_in(here.page()))
        old = {"grant_type": "refresh_token", "client_id": "desk", "refresh_token": tokens["refresh_token"]}
        status, renewed = await here.token(**old, scope="read")
        assert (status, renewed["scope"], here.auth.refreshes) == (200, "read", 1)
        assert (await here.token(**old))[1]["error"] == "invalid_grant"
        again = {**old, "refresh_token": renewed["refresh_token"]}
        assert (await here.token(**again))[1]["error"] == "invalid_grant"


async def test_a_renewal_gives_no_more_and_for_no_other_server() -> None:
    async with town() as here:
        _, tokens = await here.exchange(await here.visitor.log_in(here.page()))
        old = {"grant_type": "refresh_token", "client_id": "desk", "refresh_token": tokens["refresh_token"]}
        assert (await here.token(**old, scope="admin"))[1]["error"] == "invalid_scope"


async def test_a_code_twice_ends_what_it_gave() -> None:
    async with town() as here:
        back = await here.visitor.log_in(here.page())
        _, tokens = await here.exchange(back)
        assert (await here.exchange(back))[1]["error"] == "invalid_grant"
        again = {"grant_type": "refresh_token", "client_id": "desk", "refresh_token": tokens["refresh_token"]}
        assert (await here.token(**again))[1]["error"] == "invalid_grant"


async def test_a_code_is_not_for_another_server() -> None:
    async with town() as here:
        back = await here.visitor.log_in(here.page())
        assert (await here.exchange(back, resource="https://other.example/"))[1]["error"] == "invalid_target"


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"grant_type": "password", "client_id": "desk"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials", "client_id": "desk"}, 400, "unauthorized_client"),
        ({"client_id": "desk"}, 400, "invalid_request"),
        ({"grant_type": "client_credentials", "client_id": "robot", "client_secret": "x"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
    ],
)
async def test_requests_for_tokens_that_are_refused(fields: dict[str, str], status: int, error: str) -> None:
    async with town() as here:
        came, told = await here.token(**fields)
        assert (came, told["error"]) == (status, error)
        assert told["error_description"]


async def test_a_program_gets_a_token_for_itself_and_asks_about_tokens() -> None:
    async with town() as here:
        robot = {"client_id": "robot", "client_secret": "secret"}
        _, given = await here.token(grant_type="client_credentials", resource=RESOURCE, scope="run", **robot)
        request = {"token": given["access_token"], **robot}
        told = json.loads((await here.visitor.post(f"{here.auth.issuer}/introspect", request)).text)
        assert (told["active"], told["sub"], told["aud"], told["scope"]) == (True, "robot", RESOURCE, "run")
        public = {"token": given["access_token"], "client_id": "desk"}
        assert (await here.visitor.post(f"{here.auth.issuer}/introspect", public)).status == 401
        assert (await here.visitor.post(f"{here.auth.issuer}/revoke", request)).status == 200
        told = json.loads((await here.visitor.post(f"{here.auth.issuer}/introspect", request)).text)
        assert told == {"active": False}


async def test_an_id_token_for_who_asks_with_openid() -> None:
    async with town() as here:
        back = await here.visitor.log_in(here.page(scope="openid", nonce="n1"))
        _, tokens = await here.exchange(back)
        from dovetail.auth.jwt import parse_unverified

        claims = parse_unverified(tokens["id_token"]).claims
        assert (claims["aud"], claims["sub"], claims["nonce"]) == ("desk", "ada", "n1")


async def test_pages_of_others_may_use_the_endpoints_without_cookies() -> None:
    async with town() as here:
        session = here.visitor._session  # pyright: ignore[reportPrivateUsage]
        async with session.options(f"{here.auth.issuer}/token") as came:
            assert (came.status, came.headers["access-control-allow-origin"]) == (204, "*")
            assert "access-control-allow-credentials" not in came.headers
        assert "access-control-allow-origin" not in (await here.visitor.get(here.page())).headers


async def test_a_body_that_is_too_large_or_no_form() -> None:
    async with town() as here:
        session = here.visitor._session  # pyright: ignore[reportPrivateUsage]
        async with session.post(f"{here.auth.issuer}/token", data=b"x" * 100_000) as came:
            assert came.status == 413
        async with session.post(f"{here.auth.issuer}/token", json={"grant_type": "refresh_token"}) as came:
            assert (came.status, (await came.json())["error"]) == (400, "invalid_request")


async def test_an_issuer_is_a_url_on_this_machine_or_https() -> None:
    with pytest.raises(LocalError, match="not https"):
        DevAuth("http://auth.example.com")
    with pytest.raises(LocalError):
        DevAuth().asgi()
    with pytest.raises(LocalError):
        _ = DevAuth().issuer
