"""Tokens for one view of a gateway: accepted there, refused at other views and at the endpoint of all servers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import aiohttp
import pytest

from dovetail import Gateway, Introspection, JWTVerifier, LocalError, Server, Verifier
from dovetail.auth.errors import TokenRefused
from dovetail.auth.token_verification import Principal
from dovetail.gateway import Profile
from dovetail.gateway.access_control.inbound import MAX_GROUPS, CallerVerifier, ViewEndpoint, make_verifier
from dovetail.gateway.settings import AuthSettings
from dovetail.testing import DevAuth
from tests.gateway.served import ServedGateway, served, tokens
from tests.support.http import listening, serving, url_of
from tests.support.issuer import issuing

VIEWS = ["", "/server/files", "/server/a%2Fb", "/server/a/b", "/profile/readers", "/profile/writers"]
SECRET: dict[str, Any] = {"client_id": "gateway", "client_secret": "hush"}


class Site:
    """A gateway with views, and the issuer of its tokens."""

    def __init__(self, url: str, dev: DevAuth) -> None:
        self.url, self.dev = url, dev

    async def accepting(self, audience: str) -> list[str]:
        """The views, by their paths, that accept a token for an audience."""
        token = self.dev.token("ann", audience)
        found: list[str] = []
        async with aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as http:
            for path in VIEWS:
                async with http.post(f"{self.url}/mcp{path}", json={}) as answer:
                    assert answer.status in (400, 401)
                    found += [path] if answer.status == 400 else []
        return found

    async def resource(self, path: str) -> str:
        """The resource in the metadata of a view."""
        url = f"{self.url}/.well-known/oauth-protected-resource/mcp{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            return (await answer.json())["resource"]


def make_auth(kind: str, issuer: str, audience: str | Sequence[str]) -> Verifier:
    if kind == "jwt":
        return JWTVerifier(issuer=issuer, audience=audience)
    if kind == "introspection":
        return Introspection(issuer=issuer, audience=audience, **SECRET)
    given = audience if isinstance(audience, str) else tuple(audience)
    return make_verifier(AuthSettings(type="jwt", issuer=issuer, audience=given))


@contextlib.asynccontextmanager
async def site(kind: str, *audience: str, resource: bool = False) -> AsyncGenerator[Site]:
    """A gateway with these audiences, in which URL stands for its own."""
    sock = listening()
    url = url_of(sock)
    async with DevAuth().serving() as dev:
        dev.add_client("gateway", secret="hush")
        given = [one.replace("URL", url) for one in audience]
        auth = make_auth(kind, dev.issuer, given[0] if len(given) == 1 else given)
        servers = {"files": Server("files"), "a/b": Server("files")}
        gateway = Gateway(servers, auth=auth, profiles={"readers": Profile(), "writers": Profile()})
        app = gateway.asgi(resource=f"{url}/mcp") if resource else gateway.asgi()
        async with serving(app, sock):
            yield Site(url, dev)


KINDS = ["jwt", "introspection", "file"]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_for_a_view_is_accepted_there_only(kind: str, resource: bool) -> None:
    async with site(kind, "URL/mcp", resource=resource) as at:
        assert await at.accepting(f"{at.url}/mcp") == VIEWS
        assert await at.accepting(f"{at.url}/mcp/profile/readers") == ["/profile/readers"]
        assert await at.accepting(f"{at.url}/mcp/server/files") == ["/server/files"]
        for form in ("a%2Fb", "a/b"):
            assert await at.accepting(f"{at.url}/mcp/server/{form}") == ["/server/a%2Fb", "/server/a/b"]
        for other in ("https://other.example/mcp/profile/readers", f"{at.url}/mcp/profile", f"{at.url}/mcp/profile/x"):
            assert await at.accepting(other) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_audience_of_a_view_among_those_that_are_given_counts_at_this_view_only(kind: str) -> None:
    async with site(kind, "URL/mcp/profile/readers", "URL/mcp") as at:
        assert await at.accepting(f"{at.url}/mcp") == VIEWS
        assert await at.accepting(f"{at.url}/mcp/profile/readers") == ["/profile/readers"]


async def test_without_an_audience_of_the_endpoint_only_the_named_view_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "dovetail"):
        async with site("jwt", "URL/mcp/profile/readers") as at:
            assert await at.accepting(f"{at.url}/mcp/profile/readers") == ["/profile/readers"]
            assert await at.accepting(f"{at.url}/mcp/profile/writers") == []
            assert await at.accepting(f"{at.url}/mcp") == []
    assert "No token is accepted at /mcp, because all audiences are URLs of views" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_an_audience_that_is_no_url_counts_at_every_view(kind: str) -> None:
    async with site(kind, "api://tools") as at:
        assert await at.accepting("api://tools") == VIEWS
        assert await at.accepting("api://tools/profile/readers") == []
        assert await at.accepting(f"{at.url}/mcp/profile/readers") == []


@pytest.mark.parametrize("resource", [False, True])
async def test_clients_request_a_token_for_the_view_that_they_use(resource: bool) -> None:
    async with site("jwt", "URL/mcp", resource=resource) as at:
        for path in VIEWS:
            assert await at.resource(path) == f"{at.url}/mcp{path}"


@pytest.mark.parametrize("kind", ["function", "verifier"])
async def test_a_verifier_of_the_user_decides_by_itself(kind: str) -> None:
    class Own(Verifier):
        issuer = "https://auth.example.com"
        audience = ("https://tools.example.com/mcp",)

        async def __call__(self, token: str) -> Principal:
            return Principal(subject=token)

    gateway = Gateway({"files": Server("files")}, auth=Own() if kind == "verifier" else lambda token: token)
    async with served(gateway) as at:
        headers = {"authorization": "Bearer ann"}
        async with aiohttp.ClientSession(headers=headers) as http:
            for path in ("", "/server/files"):
                async with http.post(f"{at.url}/mcp{path}", json={}) as answer:
                    assert answer.status == 400


async def test_a_verifier_that_adds_checks_to_ours_keeps_them_at_each_view() -> None:
    class Few(JWTVerifier):
        async def __call__(self, token: str) -> Principal:
            principal = await super().__call__(token)
            if principal.subject != "ada":
                raise TokenRefused("not one of the few")
            return principal

    async with issuing() as issuer:
        verifier = CallerVerifier(Few(issuer=issuer.url, audience="https://x.example/mcp"))
        view = verifier.for_view(ViewEndpoint("/mcp", None, "profile/a", ("profile/a",)))
        audience = "https://x.example/mcp/profile/a"
        principal = await view(issuer.token(aud=audience))
        assert principal is not None
        assert principal.subject == "ada"
        with pytest.raises(TokenRefused, match="not one of the few"):
            await view(issuer.token(aud=audience, sub="bob"))


async def test_all_views_share_the_keys_and_the_introspections() -> None:
    async with issuing() as issuer:
        audience = "https://x.example/mcp"
        for given in (
            JWTVerifier(issuer=issuer.url, audience=audience),
            Introspection(issuer=issuer.url, audience=audience, **SECRET),
        ):
            issuer.asked.clear()
            token = issuer.token(aud=audience)
            issuer.active[token] = {"aud": audience, "sub": "ada"}
            for name in ("a", "b", "c"):
                view = ViewEndpoint("/mcp", None, f"profile/{name}", (f"profile/{name}",))
                await CallerVerifier(given).for_view(view)(token)
            assert set(issuer.asked.values()) == {1}


AT = ViewEndpoint("/mcp", None, "profile/a", ("profile/a",))


@pytest.mark.parametrize(
    ("view", "given", "accepted"),
    [
        (AT, ["https://x.example/t/mcp/"], ["https://x.example/t/mcp/profile/a", "https://x.example/t/mcp/"]),
        (AT, ["https://x.example"], ["https://x.example"]),
        (AT, ["https://x.example/mcp?t=1"], ["https://x.example/mcp?t=1"]),
        (AT, ["https://[broken/mcp"], ["https://[broken/mcp"]),
        (AT, ["https://x.example/mcp/profile/%61"], ["https://x.example/mcp/profile/%61"]),
        (AT, ["https://x.example/mcp/server/mcp"], []),
        (AT._replace(view="server/mcp"), ["https://x.example/mcp/server/mcp"], ["https://x.example/mcp/server/mcp"]),
        (ViewEndpoint("/mcp"), ["https://x.example/mcp/server/a", "api://x", "https://x.example/mcp/serve/a"],
         ["api://x", "https://x.example/mcp/serve/a"]),
        (ViewEndpoint("/mcp", "https://x.example/mcp/server/mcp"), ["https://X.example:443/mcp/server/mcp"],
         ["https://X.example:443/mcp/server/mcp"]),
        (AT._replace(resource="https://x.example/mcp"), ["https://X.example:443/mcp"],
         ["https://x.example/mcp/profile/a", "https://X.example:443/mcp/profile/a", "https://X.example:443/mcp"]),
        (AT._replace(endpoint="/"), ["https://x.example"], ["https://x.example/profile/a", "https://x.example"]),
    ],
)  # fmt: skip
def test_the_audiences_of_a_view_follow_from_those_of_the_gateway(
    view: ViewEndpoint, given: list[str], accepted: list[str]
) -> None:
    assert view.audience(given) == tuple(accepted)


class TestGroups:
    """Groups that decide who reads the status, and too many of them."""

    async def test_a_token_with_too_many_groups_is_refused_and_the_client_told_why(self) -> None:
        groups = [f"g{number}" for number in range(MAX_GROUPS)]
        auth = tokens(ann=[*groups, "contractors"], bob=[*groups, *groups])
        async with served(Gateway({"files": Server("files")}, auth=auth)) as at:
            status, challenge = await post(at, "ann")
            assert status == 401
            assert f"the token names {MAX_GROUPS + 1} groups, and at most {MAX_GROUPS} are accepted" in challenge
            assert (await post(at, "bob"))[0] == 400

    @pytest.mark.sends_wrong("a page as JSON, which is no message")
    @pytest.mark.parametrize("path", ["/status", "/metrics"])
    async def test_the_status_is_for_the_groups_that_are_named(self, path: str) -> None:
        auth = tokens(ann=["ops"], bob=["dev"], eve=[])
        for groups, readers in (((), {"ann", "bob", "eve"}), (("ops", "sre"), {"ann"})):
            gateway = Gateway({"files": Server("files")}, auth=auth, status_groups=groups)
            async with served(gateway) as at:
                statuses = {user: await get(at, path, user) for user in ("ann", "bob", "eve")}
                assert statuses == {user: 200 if user in readers else 403 for user in statuses}
                assert await get(at, path, "nobody") == 401
                assert await get(at, path, "ann") == (200 if "ann" in readers else 403)

    def test_groups_of_the_status_need_authentication_and_a_list(self) -> None:
        with pytest.raises(LocalError, match="status_groups need authentication"):
            Gateway({}, status_groups=["ops"]).asgi()
        with pytest.raises(LocalError, match="must be a list"):
            Gateway({}, status_groups="ops")


async def post(at: ServedGateway, user: str) -> tuple[int, str]:
    """The status of an empty message of a user, and the challenge."""
    headers = {"authorization": f"Bearer token-of-{user}"}
    async with aiohttp.ClientSession(headers=headers) as http, http.post(f"{at.url}/mcp", json={}) as answer:
        return answer.status, answer.headers.get("www-authenticate", "")


async def get(at: ServedGateway, path: str, user: str) -> int:
    """The status of a page for a user."""
    headers: dict[str, Any] = {"authorization": f"Bearer token-of-{user}"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(at.url + path) as answer:
        return answer.status
