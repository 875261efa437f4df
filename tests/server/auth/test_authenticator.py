"""Who is let in over HTTP, what the others are told, and what a token allows."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets

from dovetail import Context, LocalError, Server
from dovetail.auth import challenge
from dovetail.auth.dpop import Prover
from dovetail.auth.errors import Untrusted
from dovetail.auth.jwk import SigningKey
from dovetail.auth.metadata import read_protected_resource
from dovetail.auth.token_verification import Principal
from dovetail.server.auth.verifiers import JWTVerifier, StaticTokens, Verifier
from dovetail.storage.memory import MemoryStore
from tests.support.http import serving
from tests.support.issuer import US, issuing
from tests.support.raw_http import ENVELOPE, EVENTS, SESSIONS, Answer, Site, initialize, modern, request, text_of

WELL_KNOWN = "/.well-known/oauth-protected-resource"
ISSUER = "https://auth.example.com"
HOLDER = Prover(SigningKey.generate())
MCP = websockets.Subprotocol("mcp")
EVERY = pytest.mark.parametrize("revision", [*SESSIONS, ENVELOPE])


class Known(Verifier):
    """Tokens that are known here, of an issuer that is never asked."""

    issuer = ISSUER
    audience = (US,)

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)

    async def __call__(self, token: str) -> Principal | None:
        return {
            "none": Principal(subject="ada"),
            "read": Principal(subject="ada", scopes=("read",)),
            "all": Principal(subject="ada", scopes=("read", "write", "other")),
            "bob": Principal(subject="bob", scopes=("read", "write")),
            "bound": Principal(subject="ada", scopes=("read",), thumbprint=HOLDER.thumbprint),
        }.get(token)


def make_server(**options: Any) -> Server:
    server = Server("s", **options)
    server.ran = []  # type: ignore[attr-defined]

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.scopes or ()) if ctx.scopes is not None else None}"

    @server.tool(scopes=["read"])
    async def look() -> str:
        return "seen"

    @server.tool(scopes=["read", "write"])
    async def change() -> str:
        server.ran.append("change")  # type: ignore[attr-defined]
        return "changed"

    return server


@asynccontextmanager
async def at(server: Server, token: str | None = None, **options: Any) -> AsyncIterator[Site]:
    async with serving(server.asgi(**options)) as url, Site(url) as site:
        show(site, token)
        yield site


def show(site: Site, token: str | None) -> None:
    site.usual = [] if token is None else [("Authorization", f"Bearer {token}")]


async def call(site: Site, revision: str, tool: str) -> Answer:
    if revision == ENVELOPE:
        return await site.call(tool)
    return await (await site.session(revision)).call(tool)


async def names(site: Site, revision: str) -> tuple[list[str], dict[str, Any]]:
    if revision == ENVELOPE:
        answer = await site.modern("tools/list")
    else:
        answer = await (await site.session(revision)).ask("tools/list")
    result = (await answer.answer())["result"]
    return [tool["name"] for tool in result["tools"]], result


def challenged(answer: Answer) -> challenge.Challenge:
    (found,) = challenge.parse(answer.headers["www-authenticate"])
    return found


class TestChallenges:
    async def test_a_request_without_a_token_is_told_where_to_get_one(self) -> None:
        async with at(make_server(auth=Known(scopes=("read",)))) as site:
            answer = await site.modern("tools/list")
            found = challenged(answer)
            assert (answer.status, found.scheme, found.error, found.scopes) == (401, "bearer", None, ("read",))
            assert found.resource_metadata == f"{site.url}{WELL_KNOWN}/mcp"

    async def test_an_invalid_token_is_refused_with_401(self) -> None:
        async with at(make_server(auth=Known()), "wrong") as site:
            answer = await site.modern("tools/list")
            assert (answer.status, challenged(answer).error) == (401, "invalid_token")
            assert b"wrong" not in await answer.body()

    async def test_a_token_without_the_scopes_of_every_request_is_refused_with_403(self) -> None:
        async with at(make_server(auth=Known(scopes=("read", "write"))), "read") as site:
            answer = await site.modern("tools/list")
            found = challenged(answer)
            assert (answer.status, found.error, found.scopes) == (403, "insufficient_scope", ("read", "write"))
            assert found.resource_metadata == f"{site.url}{WELL_KNOWN}/mcp"

    async def test_a_plain_function_as_verifier_sends_a_challenge_without_metadata(self) -> None:
        async with at(make_server(auth={"t": "ada"}.get)) as site:
            assert (await site.modern("tools/list")).headers["www-authenticate"] == "Bearer"
            assert (await site.ask("GET", path=f"{WELL_KNOWN}/mcp")).status == 404

    async def test_a_verifier_that_fails_is_a_503_and_not_a_401(self, caplog: pytest.LogCaptureFixture) -> None:
        async with issuing() as issuer:
            issuer.pages["/keys"] = 500
            async with at(make_server(auth=JWTVerifier(issuer=issuer.url, audience=US)), issuer.token()) as site:
                answer = await site.modern("tools/list")
                assert (answer.status, "www-authenticate" in answer.headers) == (503, False)
        assert "answered 500" in caplog.text

    async def test_no_token_is_ever_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG")
        async with issuing() as issuer:
            good, bad = issuer.token(), issuer.token(aud="https://other.example")
            async with at(make_server(auth=JWTVerifier(issuer=issuer.url, audience=US)), good) as site:
                assert (await site.call("look")).status == 200
                show(site, bad)
                assert (await site.call("look")).status == 401
        assert "another audience" in caplog.text
        for token in (good, bad):
            assert not any(part in caplog.text for part in token.split(".")[1:])


class TestMetadata:
    @pytest.mark.parametrize("place", [f"{WELL_KNOWN}/mcp", WELL_KNOWN])
    async def test_metadata_need_no_token_and_are_what_our_own_client_reads(self, place: str) -> None:
        async with at(make_server(auth=Known(scopes=("read",)))) as site:
            answer = await site.ask("GET", path=place)
            assert (answer.status, answer.kind) == (200, "application/json")
            found = read_protected_resource(await answer.body(), site.url + place, f"{site.url}/mcp")
            assert found is not None
            assert (found.resource, found.authorization_servers) == (f"{site.url}/mcp", (ISSUER,))
            assert found.scopes_supported == ("read",) and not found.dpop_bound_access_tokens_required

    async def test_the_resource_is_the_audience_that_covers_the_url(self) -> None:
        async with at(make_server(auth=Known(audience=("api://us", "http://127.0.0.1:1/")))) as site:
            answer = await site.ask("GET", {"Host": "127.0.0.1:1"}, path=WELL_KNOWN)
            assert (await answer.json())["resource"] == "http://127.0.0.1:1/"

    async def test_behind_a_proxy_the_option_names_the_resource(self) -> None:
        outside = "https://mcp.example.com/deep/mcp"
        async with at(make_server(auth=Known()), resource=outside) as site:
            answer = await site.ask("GET", path=f"{WELL_KNOWN}/mcp")
            assert (await answer.json())["resource"] == outside
            named = challenged(await site.modern("tools/list")).resource_metadata
            assert named == f"https://mcp.example.com/deep{WELL_KNOWN}/mcp"

    @pytest.mark.parametrize(
        "resource", ["https://mcp.example.com/other", "mcp.example.com/mcp", "http://a.example/mcp"]
    )
    def test_an_impossible_resource_option_is_refused(self, resource: str) -> None:
        with pytest.raises((LocalError, Untrusted)):
            make_server(auth=Known()).asgi(resource=resource)

    async def test_metadata_of_an_application_that_is_mounted_in_another(self) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        app = Starlette(routes=[Mount("/api", make_server(auth=Known()).asgi())])
        async with serving(app) as url, Site(url, "/api/mcp") as site:
            named = challenged(await site.modern("tools/list")).resource_metadata
            assert named == f"{url}/api{WELL_KNOWN}/mcp"
            answer = await site.ask("GET", path=f"/api{WELL_KNOWN}/mcp")
            assert (await answer.json())["resource"] == f"{url}/api/mcp"

    async def test_metadata_are_not_served_under_a_foreign_host(self) -> None:
        async with at(make_server(auth=Known())) as site:
            assert (await site.ask("GET", {"Host": "evil.example"}, path=WELL_KNOWN)).status == 421
            assert (await site.ask("POST", path=WELL_KNOWN)).status == 405

    async def test_a_host_that_no_url_can_hold_is_replaced_by_localhost(self) -> None:
        async with at(make_server(auth=Known()), allowed_hosts=["*"]) as site:
            message = modern("tools/list")
            answer = await site.post(message, {"Host": 'a"b', "MCP-Protocol-Version": ENVELOPE})
            assert answer.status in (400, 401) and '"b' not in answer.headers.get("www-authenticate", "")

    async def test_browsers_may_read_the_metadata(self) -> None:
        page = {"Origin": "https://app.example"}
        async with at(make_server(auth=Known()), cors=["https://app.example"]) as site:
            answer = await site.ask("GET", page, path=WELL_KNOWN)
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
            asked = {**page, "Access-Control-Request-Method": "GET"}
            assert (await site.ask("OPTIONS", asked, path=WELL_KNOWN)).status == 204

    async def test_there_are_no_metadata_without_authorization(self) -> None:
        async with at(make_server()) as site:
            assert (await site.ask("GET", path=WELL_KNOWN)).status == 404


class TestScopes:
    @EVERY
    async def test_lists_show_only_tools_that_the_token_may_use(self, revision: str) -> None:
        async with at(make_server(auth=Known())) as site:
            for token, seen in (("none", ["who"]), ("read", ["who", "look"]), ("all", ["who", "look", "change"])) * 2:
                show(site, token)
                found, result = await names(site, revision)
                assert found == seen
                assert result.get("cacheScope", "private") == "private"

    @EVERY
    async def test_a_call_that_is_not_allowed_is_403_and_does_nothing(self, revision: str) -> None:
        server = make_server(auth=Known())
        async with at(server, "read") as site:
            answer = await call(site, revision, "change")
            found = challenged(answer)
            assert (answer.status, found.error, found.scopes) == (403, "insufficient_scope", ("read", "write"))
            assert found.resource_metadata == f"{site.url}{WELL_KNOWN}/mcp"
            assert "error" in await answer.json() and not server.ran  # type: ignore[attr-defined]
            show(site, "all")
            assert text_of(await (await call(site, revision, "change")).answer()) == "changed"

    @EVERY
    async def test_a_handler_sees_the_scopes_of_the_token(self, revision: str) -> None:
        async with at(make_server(auth=Known()), "read") as site:
            assert text_of(await (await call(site, revision, "who")).answer()) == "ada ['read']"

    async def test_a_session_is_served_with_what_each_token_allows(self) -> None:
        async with at(make_server(auth=Known()), "read") as site:
            session = await site.session(SESSIONS[-1])
            assert (await session.call("change")).status == 403
            show(site, "all")
            assert text_of(await (await session.call("change")).answer()) == "changed"
            show(site, "none")
            assert (await session.call("look")).status == 403
            assert text_of(await (await session.call("who")).answer()) == "ada []"

    async def test_a_batch_with_one_call_that_is_not_allowed_is_403(self) -> None:
        server = make_server(auth=Known())
        async with at(server, "read") as site:
            session = await site.session("2025-03-26")
            several = [request("tools/call", name=name, arguments={}) for name in ("look", "change")]
            assert (await session.post(several)).status == 403
            assert not server.ran  # type: ignore[attr-defined]

    async def test_scopes_hold_without_sessions_too(self) -> None:
        async with at(make_server(auth=Known()), "read", sessions=False) as site:
            answer = await site.post(request("tools/list"), {"MCP-Protocol-Version": SESSIONS[-1]})
            assert [tool["name"] for tool in (await answer.answer())["result"]["tools"]] == ["who", "look"]

    async def test_over_http_with_sse_each_message_has_its_own_token(self) -> None:
        server = make_server(auth=Known())
        async with at(server, "all") as site:
            stream = await site.ask("GET", {"Accept": EVENTS}, path="/sse")
            event = await stream.next()
            assert event is not None and event.data is not None
            await site.post(initialize("2024-11-05"), path=event.data)
            assert "result" in await stream.message()
            show(site, "read")
            refused = await site.post(request("tools/call", name="change", arguments={}), path=event.data)
            assert (refused.status, challenged(refused).scopes) == (403, ("read", "write"))
            assert (await site.post(b"{nonsense", path=event.data)).status == 400
            show(site, "all")
            await site.post(request("tools/call", name="change", arguments={}), path=event.data)
            assert "result" in await stream.message()
            show(site, "bob")
            assert (await site.post(request("ping"), path=event.data)).status == 404
        assert server.ran == ["change"]  # type: ignore[attr-defined]

    async def test_a_websocket_is_served_with_the_scopes_of_its_first_token(self) -> None:
        server = make_server(auth=Known())
        async with serving(server.asgi()) as url:
            given = {"Authorization": "Bearer read"}
            where = f"ws{url.removeprefix('http')}/mcp/ws"
            async with websockets.connect(where, additional_headers=given, subprotocols=[MCP]) as socket:
                await socket.send(json.dumps(modern("tools/list")))
                listed = json.loads(await socket.recv())
                assert [tool["name"] for tool in listed["result"]["tools"]] == ["who", "look"]
                await socket.send(json.dumps(modern("tools/call", name="change", arguments={})))
                assert "read write" in json.loads(await socket.recv())["error"]["message"]
        assert not server.ran  # type: ignore[attr-defined]

    async def test_a_tool_that_is_not_visible_is_unknown_rather_than_forbidden(self) -> None:
        server = make_server(auth=Known(), visible=lambda who, kind, name: name != "change")
        async with at(server, "read") as site:
            assert (await site.call("change")).status == 200
            assert (await names(site, ENVELOPE))[0] == ["who", "look"]
            show(site, "none")
            assert (await names(site, ENVELOPE))[0] == ["who"]

    async def test_a_principal_given_by_name_has_no_scopes(self) -> None:
        async with at(make_server(auth={"t": "ada"}.get), "t") as site:
            assert (await names(site, ENVELOPE))[0] == ["who"]
            assert text_of(await (await site.call("who")).answer()) == "ada []"

    async def test_without_authorization_scopes_are_not_checked(self) -> None:
        async with at(make_server()) as site:
            found, result = await names(site, ENVELOPE)
            assert (found, result["cacheScope"]) == (["who", "look", "change"], "public")
            assert text_of(await (await site.call("who")).answer()) == "None None"
            assert text_of(await (await site.call("change")).answer()) == "changed"

    async def test_lists_that_are_the_same_for_every_caller_are_public(self) -> None:
        server = Server("s", auth=Known())
        server.tool(lambda: 1, name="one")
        async with at(server, "read") as site:
            assert (await names(site, ENVELOPE))[1]["cacheScope"] == "public"

    async def test_a_tool_added_later_is_listed_for_callers_that_may_use_it(self) -> None:
        server = make_server(auth=Known())
        async with at(server, "read") as site:
            assert (await names(site, ENVELOPE))[0] == ["who", "look"]
            server.tool(lambda: 1, name="more", scopes=["read"])
            server.tool(lambda: 1, name="hidden", scopes=["admin"])
            assert (await names(site, ENVELOPE))[0] == ["who", "look", "more"]

    async def test_pages_of_a_list_hold_only_what_the_caller_may_use(self) -> None:
        async with at(make_server(auth=Known(), page_size=1), "read") as site:
            cursor, found = None, []
            while True:
                params = {} if cursor is None else {"cursor": cursor}
                result = (await (await site.modern("tools/list", **params)).answer())["result"]
                found += [tool["name"] for tool in result["tools"]]
                if (cursor := result.get("nextCursor")) is None:
                    break
            assert found == ["who", "look"]

    @EVERY
    async def test_a_broader_scope_includes_narrower_ones(self, revision: str) -> None:
        tokens = {"admin": Principal(subject="ada", scopes=("admin",)), "x": Principal(subject="ada", scopes=("x",))}
        verifier = StaticTokens(tokens, scopes=["read"], implies={"admin": ["write"], "write": ["read", "admin"]})
        async with at(make_server(auth=verifier), "admin") as site:
            assert (await names(site, revision))[0] == ["who", "look", "change"]
            assert text_of(await (await call(site, revision, "change")).answer()) == "changed"
            assert text_of(await (await call(site, revision, "who")).answer()) == "ada ['admin', 'read', 'write']"
            show(site, "x")
            assert (await site.call("look")).status == 403

    async def test_a_mounted_tool_keeps_its_scopes(self) -> None:
        outer = Server("outer", auth=Known())
        outer.mount(make_server(), prefix="in")
        async with at(outer, "read") as site:
            assert (await names(site, ENVELOPE))[0] == ["in_who", "in_look"]
            assert (await site.call("in_change")).status == 403

    @pytest.mark.parametrize("scopes", ["read", ["a b"], ['"'], [""]])
    def test_an_invalid_scope_is_refused(self, scopes: Any) -> None:
        with pytest.raises(LocalError):
            Server("s").tool(lambda: 1, name="t", scopes=scopes)

    def test_a_server_with_authorization_is_not_mounted_without_it(self) -> None:
        with pytest.raises(LocalError, match="authorization"):
            Server("outer").mount(make_server(auth=Known()))


class TestOtherPrincipals:
    """What belongs to one principal is not there for another, whatever ids and states they know."""

    async def test_a_stream_is_not_resumed_by_another_principal(self) -> None:
        async with at(make_server(auth=Known()), "all", always_stream=True) as site:
            session = await site.session("2025-11-25")
            events = await (await session.call("look")).all()
            first = events[0].id
            show(site, "bob")
            assert (await session.get(first)).status == 404
            assert (await session.call("look")).status == 404
            show(site, "read")
            assert (await session.get(first)).status == 200

    async def test_the_same_name_at_another_issuer_is_another_principal(self) -> None:
        own, other = Principal(subject="ada", issuer=ISSUER), Principal(subject="ada", issuer="https://b.example")
        posing = Principal(subject=other.name_for_issuer(ISSUER), issuer=ISSUER)

        class Several(Known):
            async def __call__(self, token: str) -> Principal | None:
                return {"own": own, "other": other, "posing": posing}.get(token)

        async with at(make_server(auth=Several()), "own") as site:
            session = await site.session("2025-11-25")
            names = {text_of(await (await session.call("who")).answer())}
            for token in ("other", "posing"):
                show(site, token)
                assert (await session.call("who")).status == 404
                names.add(text_of(await (await site.call("who")).answer()))
            assert len(names) == 3 and "ada []" in names

    async def test_a_request_state_is_refused_for_another_principal(self) -> None:
        server = make_server(auth=Known())

        @server.tool
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Sure?")
            return f"{ctx.principal}: {answer.accepted}"

        meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        async with at(server, "all") as site:
            asked = (await (await site.modern("tools/call", name="greet", arguments={}, meta=meta)).answer())["result"]
            (key,) = asked["inputRequests"]
            again: dict[str, Any] = {
                "name": "greet",
                "arguments": {},
                "meta": meta,
                "requestState": asked["requestState"],
                "inputResponses": {key: {"action": "accept", "content": {}}},
            }
            show(site, "bob")
            refused = await (await site.modern("tools/call", **again)).answer()
            assert "error" in refused and "ada" not in json.dumps(refused)
            show(site, "read")
            assert text_of(await (await site.modern("tools/call", **again)).answer()) == "ada: True"


class TestProofs:
    """Tokens that are bound to a key (RFC 9449)."""

    def shown(self, site: Site, **changes: Any) -> dict[str, str]:
        given = {"method": "POST", "url": f"{site.url}/mcp", "token": "bound", "prover": HOLDER, **changes}
        prover = given.pop("prover")
        return {"Authorization": "DPoP bound", "DPoP": prover.prove(**given, now=time.time(), random=os.urandom)}

    async def test_a_proof_is_accepted_once(self) -> None:
        async with at(make_server(auth=Known())) as site:
            shown = self.shown(site)
            assert text_of(await (await site.call("who", shown)).answer()) == "ada ['read']"
            again = await site.call("who", shown)
            found = challenged(again)
            assert (again.status, found.scheme, found.error) == (401, "dpop", "invalid_dpop_proof")
            assert "ES256" in found.parameters["algs"]
            assert (await site.call("who", self.shown(site))).status == 200

    @pytest.mark.parametrize("file", [True, False])
    async def test_replicas_with_one_store_refuse_each_others_proofs(self, file: bool, tmp_path: Path) -> None:
        store = str(tmp_path / "store") if file else MemoryStore()
        outside = "https://mcp.example.com/mcp"
        servers = [make_server(auth=Known()) for _ in range(2)]
        async with (
            at(servers[0], store=store, resource=outside) as one,
            at(servers[1], store=store, resource=outside) as other,
        ):
            shown = self.shown(one, url=outside)
            assert (await one.call("who", shown)).status == 200
            assert challenged(await other.call("who", shown)).error == "invalid_dpop_proof"
            assert (await other.call("who", self.shown(other, url=outside))).status == 200

    @pytest.mark.parametrize(
        "changes",
        [
            {"method": "GET"},
            {"url": "http://127.0.0.1/other"},
            {"token": "read"},
            {"prover": Prover(SigningKey.generate())},
        ],
    )
    async def test_a_proof_for_another_request_is_refused(self, changes: dict[str, Any]) -> None:
        async with at(make_server(auth=Known())) as site:
            answer = await site.call("who", self.shown(site, **changes))
            assert (answer.status, challenged(answer).error) == (401, "invalid_dpop_proof")

    async def test_a_bound_token_without_a_proof_is_refused(self) -> None:
        async with at(make_server(auth=Known()), "bound") as site:
            assert (await site.call("who")).status == 401

    async def test_a_server_may_require_bound_tokens(self) -> None:
        async with at(make_server(auth=Known(dpop=True)), "read") as site:
            for token in ("read", None):
                show(site, token)
                answer = await site.call("who")
                assert (answer.status, challenged(answer).scheme) == (401, "dpop")
            assert (await site.call("who", self.shown(site))).status == 200
            document = await (await site.ask("GET", path=WELL_KNOWN)).json()
            assert document["dpop_bound_access_tokens_required"] is True
            refused = await site.call("change", self.shown(site))
            assert (refused.status, challenged(refused).scheme) == (403, "dpop")

    async def test_behind_a_proxy_the_proof_is_for_the_public_url(self) -> None:
        outside = "https://mcp.example.com/mcp"
        async with at(make_server(auth=Known()), resource=outside) as site:
            assert (await site.call("who", self.shown(site, url=outside))).status == 200
            assert (await site.call("who", self.shown(site))).status == 401


async def test_a_login_with_a_real_issuer_works_end_to_end() -> None:
    async with issuing() as issuer:
        server = make_server(auth=JWTVerifier(issuer=issuer.url, audience=US, scopes=["read"]))
        async with at(server, issuer.token()) as site:
            assert text_of(await (await site.call("who")).answer()) == "ada ['read']"
            for token in (issuer.token(aud="https://other.example"), issuer.token(SigningKey.generate(kid="k1"))):
                show(site, token)
                assert (await site.call("who")).status == 401
            show(site, issuer.token(scope=""))
            assert (await site.call("who")).status == 403


async def test_static_tokens_authenticate_by_name() -> None:
    tokens = StaticTokens({"a": "ada", "b": Principal(subject="bob", scopes=("read",))})
    async with at(make_server(auth=tokens), "b") as site:
        assert text_of(await (await site.call("look")).answer()) == "seen"
        show(site, "a")
        assert (await site.call("look")).status == 403
        show(site, "c")
        assert (await site.call("look")).status == 401


class TestRevocation:
    async def test_a_token_revoked_at_one_replica_is_refused_at_every_replica(self, tmp_path: Path) -> None:
        store = str(tmp_path / "store")
        servers = [make_server(auth=Known()) for _ in range(3)]
        async with at(servers[0], "all", store=store) as one, at(servers[1], "all", store=store) as other:
            assert [(await site.call("who")).status for site in (one, other)] == [200, 200]
            await servers[0].revoke_token("all")
            assert (await one.call("who")).status == 401
            while (await other.call("who")).status == 200:
                await asyncio.sleep(0.01)
            refused = await other.call("who")
            assert (refused.status, challenged(refused).error) == (401, "invalid_token")
            show(other, "bob")
            assert (await other.call("who")).status == 200
        async with at(servers[2], "all", store=store) as later:
            assert (await later.call("who")).status == 401

    async def test_without_the_store_a_replica_that_has_just_started_accepts_no_token(self) -> None:
        store = MemoryStore()
        await store.close()
        async with at(make_server(auth=Known()), "all", store=store) as site:
            answer = await site.call("who")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")

    async def test_a_server_without_auth_has_nothing_to_revoke(self) -> None:
        with pytest.raises(LocalError, match="no auth"):
            await Server("s").revoke_token("all")
