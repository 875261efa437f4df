"""Credentials of a gateway at its servers: its own, and those that the tokens of callers are exchanged for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import Client, Context, Gateway, JWTVerifier, LocalError, Principal, RemoteError, Server
from dovetail.gateway import Credentials, ServerSettings
from dovetail.gateway.settings import read_settings, server_settings
from tests.gateway.exchanging_auth import SECRET, ExchangingAuth, Recorder, behind, exchanging
from tests.support.http import listening, serving, url_of

ERAS = ["2025-11-25", "2026-07-28"]


def make_server(revision: str, auth: JWTVerifier) -> Server:
    """A server that shows each principal things of its own."""

    def sees(principal: str | None, kind: str, name: str) -> bool:
        return not name.startswith("of_") or name == f"of_{principal}"

    server = Server("behind", auth=auth, revisions=[revision], visible=sees, instructions="Mind the gap.")

    @server.tool
    async def whoami(ctx: Context) -> str:
        await ctx.log.warning("asked")
        return str(ctx.principal)

    for user in ("ann", "bob"):
        server.tool(_nothing, name=f"of_{user}")
        server.prompt(_nothing, name=f"of_{user}")
        server.resource(f"note://{user}", name=f"of_{user}")(_nothing)

    @server.prompt
    async def greeting(style: str, ctx: Context) -> str:
        return f"Greet {ctx.principal}"

    @server.completion("greeting", "style")
    async def styles(value: str, ctx: Context) -> list[str]:
        return [str(ctx.principal)]

    @server.resource("me://now")
    async def me(ctx: Context) -> str:
        return str(ctx.principal)

    @server.resource("item://{id}")
    async def item(id: str, ctx: Context) -> str:
        return str(ctx.principal)

    return server


async def _nothing() -> str:
    return ""


class Scene:
    """A gateway that exchanges tokens, with an authorization server and a server behind it that notes its callers."""

    def __init__(self, url: str, auth: ExchangingAuth, gateway: Gateway, recorder: Recorder) -> None:
        self.url = url
        self.auth = auth
        self.gateway = gateway
        self.recorder = recorder
        self.inbound: set[str] = set()

    def client(self, user: str, **options: Any) -> Client:
        """A client of the gateway with a token of a user."""
        scopes = options.pop("scopes", ())
        token = self.auth.dev.token(user, f"{self.url}/mcp", scopes=scopes)
        self.inbound.add(token)
        return Client(f"{self.url}/mcp", auth=token, timeout=10, on_log=lambda level, data, name: None, **options)


@contextlib.asynccontextmanager
async def one_server(back: str = "2026-07-28") -> AsyncGenerator[tuple[ExchangingAuth, str, Recorder]]:
    """An authorization server, and a server that wants its tokens."""
    async with (
        exchanging("unused") as auth,
        behind(functools.partial(make_server, back), auth.dev.issuer) as (address, recorder),
    ):
        yield auth, address, recorder


@contextlib.asynccontextmanager
async def scene(
    back: str = "2026-07-28", verifier: type[JWTVerifier] = JWTVerifier, **settings: Any
) -> AsyncGenerator[Scene]:
    sock = listening()
    url = url_of(sock)
    async with exchanging(f"{url}/mcp") as auth:
        issuer = auth.dev.issuer
        async with behind(functools.partial(make_server, back), issuer) as (address, recorder):
            credentials = Credentials(type="token-exchange", client_id="gateway", client_secret=SECRET, issuer=issuer)
            gateway = Gateway(
                {"notes": address},
                auth=verifier(issuer=issuer, audience=f"{url}/mcp"),
                settings={"notes": ServerSettings(credentials=credentials, **settings)},
            )
            async with serving(gateway.asgi(), sock):
                yield Scene(url, auth, gateway, recorder)


Act = Callable[[Client, str], Awaitable[None]]


async def list_tools(client: Client, user: str) -> None:
    assert {tool.name for tool in await client.tools()} == {"notes__whoami", f"notes__of_{user}"}


async def call_tool(client: Client, user: str) -> None:
    assert (await client.call("notes__whoami")).text == user


async def list_prompts(client: Client, user: str) -> None:
    assert {prompt.name for prompt in await client.prompts()} == {"notes__greeting", f"notes__of_{user}"}


async def get_prompt(client: Client, user: str) -> None:
    prompt = await client.prompt("notes__greeting", style="warm")
    assert prompt.messages[0].content.text == f"Greet {user}"  # type: ignore[union-attr]


async def list_resources(client: Client, user: str) -> None:
    assert "me://now" in {resource.uri for resource in await client.resources()}


async def list_templates(client: Client, user: str) -> None:
    assert [template.uri_template for template in await client.resource_templates()] == ["item://{id}"]


async def read_resource(client: Client, user: str) -> None:
    assert (await client.read("me://now")).contents[0].text == user  # type: ignore[union-attr]
    assert (await client.read("item://5")).contents[0].text == user  # type: ignore[union-attr]


async def complete(client: Client, user: str) -> None:
    assert (await client.complete("notes__greeting", "style", "w")).values == [user]


async def subscribe(client: Client, user: str) -> None:
    changes = client.watch("me://now")
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0.3)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await changes.aclose()


async def set_level(client: Client, user: str) -> None:
    await client.set_log_level("warning")
    await call_tool(client, user)


METHODS: dict[str, tuple[Act, str]] = {
    "tools/list": (list_tools, "tools/list"),
    "tools/call": (call_tool, "tools/call"),
    "prompts/list": (list_prompts, "prompts/list"),
    "prompts/get": (get_prompt, "prompts/get"),
    "resources/list": (list_resources, "resources/list"),
    "resources/templates/list": (list_templates, "resources/templates/list"),
    "resources/read": (read_resource, "resources/read"),
    "completion/complete": (complete, "completion/complete"),
    "subscriptions": (subscribe, ""),
    "logging": (set_level, "tools/call"),
}


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("method", METHODS)
async def test_no_method_uses_the_credential_of_another_principal(method: str, front: str, back: str) -> None:
    act, sent = METHODS[method]
    if method == "subscriptions":
        sent = "subscriptions/listen" if back == "2026-07-28" else "resources/subscribe"
    async with scene(back) as at:
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
            await act(ann, "ann")
        assert at.recorder.callers() <= {"ann", "bob"}
        assert not at.recorder.tokens & at.inbound


@pytest.mark.parametrize("back", ERAS)
async def test_the_token_of_a_caller_is_exchanged_and_never_sent_on(back: str) -> None:
    async with scene(back) as at:
        async with at.client("ann") as ann:
            for _ in range(3):
                await call_tool(ann, "ann")
        (exchange,) = at.auth.exchanged
        assert exchange[0] == "ann" and exchange[1].endswith("/mcp")
        assert at.recorder.tokens == at.auth.issued
        assert not at.recorder.tokens & at.inbound


async def test_a_token_is_exchanged_again_before_it_expires() -> None:
    async with scene() as at:
        at.auth.seconds = 1
        async with at.client("ann") as ann:
            await call_tool(ann, "ann")
            before = len(at.auth.exchanged)
            await asyncio.sleep(1)  # as long as it lasts
            await call_tool(ann, "ann")
        assert len(at.auth.exchanged) > before


async def test_a_principal_whose_token_is_not_exchanged_does_not_disturb_others() -> None:
    async with scene() as at:
        at.auth.refused.add("bob")
        async with at.client("bob") as bob, at.client("ann") as ann:
            assert await bob.tools() == []
            with pytest.raises(RemoteError, match="bob has no account there"):
                await bob.call("notes__whoami")
            await call_tool(ann, "ann")
            assert at.gateway.status["servers"]["notes"]["state"] == "ready"


async def test_clients_of_one_principal_with_other_scopes_have_other_credentials() -> None:
    async with scene() as at:
        async with at.client("ann", scopes=["read"]) as narrow, at.client("ann", scopes=["read", "write"]) as wide:
            await call_tool(wide, "ann")
            await call_tool(narrow, "ann")
        assert len(at.auth.exchanged) == 2
        assert len(at.recorder.tokens) == 2


class FirstIsAdmin(JWTVerifier):
    """Tokens with groups: the first one is from the time when its user was in `admins`."""

    first = ""

    async def __call__(self, token: str) -> Principal:
        principal = await super().__call__(token)
        self.first = self.first or token
        groups = ["admins"] if token == self.first else []
        return msgspec.structs.replace(principal, claims={**principal.claims, "groups": groups})


async def test_a_user_who_has_left_a_group_does_not_use_what_the_token_from_before_was_exchanged_for() -> None:
    async with scene(verifier=FirstIsAdmin) as at, at.client("ann") as admin:
        await call_tool(admin, "ann")
        first, at.recorder.seen[:] = at.recorder.tokens, []
        async with at.client("ann") as later:
            await call_tool(later, "ann")
            assert not at.recorder.tokens & first
        await call_tool(admin, "ann")
        assert len(at.auth.exchanged) == 2


@pytest.mark.parametrize("back", ERAS)
async def test_callers_beyond_the_limit_take_the_place_of_those_unused_the_longest(
    back: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.servers.caller_upstream.MAX_CALLERS", 1)
    async with scene(back) as at, at.client("ann") as ann, at.client("bob") as bob:
        for _ in range(2):
            await call_tool(ann, "ann")
            await call_tool(bob, "bob")
        assert at.gateway.status["servers"]["notes"]["connections"] == 1
        assert at.recorder.callers() == {"ann", "bob"}


async def test_a_token_that_comes_back_unchanged_is_not_used() -> None:
    async with scene() as at:
        at.auth.returns_subject_token = True
        async with at.client("ann") as ann:
            with pytest.raises(RemoteError, match="returned the token that it was to exchange"):
                await ann.call("notes__whoami")
        assert at.recorder.headers == []


async def test_the_instructions_for_one_principal_are_not_shown_to_others() -> None:
    async with scene() as at, at.client("ann") as ann:
        await call_tool(ann, "ann")
        assert "Mind the gap" not in (ann.instructions or "")


async def test_a_caller_without_a_token_is_told_that_it_needs_one() -> None:
    credentials = Credentials(type="token-exchange", client_id="g", client_secret="s", issuer="https://auth.example")
    settings = {"notes": ServerSettings(credentials=credentials)}
    async with Client(Gateway({"notes": "https://notes.example/mcp"}, settings=settings), timeout=10) as client:
        with pytest.raises(RemoteError, match="needs the token of the caller"):
            await client.call("notes__whoami")


@pytest.mark.parametrize("back", ERAS)
async def test_client_credentials_are_those_of_the_gateway_for_all_callers(back: str) -> None:
    async with one_server(back) as (auth, address, recorder):
        credentials = Credentials(
            type="client-credentials", client_id="gateway", client_secret=SECRET, issuer=auth.dev.issuer
        )
        gateway = Gateway({"notes": address}, settings={"notes": ServerSettings(credentials=credentials)})
        async with Client(gateway, timeout=10) as client:
            assert (await client.call("notes__whoami")).text == "gateway"
        assert recorder.callers() <= {"", "gateway"}  # the first request learns where to get a token


@pytest.mark.parametrize("secret", ["${env:GATEWAY_SECRET}", "${input:gateway-secret}"])
async def test_headers_and_secrets_come_from_the_configuration(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mcp.json"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GATEWAY_SECRET", SECRET)
    monkeypatch.setenv("DOVETAIL_INPUT_GATEWAY_SECRET", SECRET)
    monkeypatch.setenv("DOVETAIL_INPUT_FILES", str(config))
    inputs = [{"id": "gateway-secret", "type": "promptString", "password": True}]
    async with one_server() as (auth, address, recorder):
        credentials = {
            "type": "client-credentials",
            "clientId": "gateway",
            "clientSecret": secret,
            "issuer": auth.dev.issuer,
        }
        token = auth.dev.token("cy", address)
        servers = {
            "own": {"url": address, "gateway": {"credentials": credentials}},
            "fixed": {"url": address, "headers": {"Authorization": f"Bearer {token}"}},
        }
        config.write_text(json.dumps({"inputs": inputs, "mcpServers": servers}))
        gateway = Gateway.from_config(config, trust=True)
        try:
            async with Client(gateway, timeout=10) as client:
                assert (await client.call("own__whoami")).text == "gateway"
                assert (await client.call("fixed__whoami")).text == "cy"
        finally:
            await gateway.close()
        assert token in recorder.tokens


async def test_a_server_behind_a_url_gets_no_account_of_the_user_who_runs_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOVETAIL_LOGIN", "browser")
    async with one_server() as (_, address, recorder):
        async with Client(Gateway({"notes": address}), timeout=10) as client:
            assert await client.tools() == []
        assert recorder.headers and not any(recorder.headers)


def test_credentials_that_lack_something_say_what() -> None:
    for given, message in (
        ({"type": "token-exchange", "clientId": "a"}, "need an issuer"),
        ({"type": "client-credentials", "clientId": "a", "issuer": "https://x.example"}, "need a clientSecret"),
        ({"type": "client-credentials", "clientId": "a", "clientSecret": "b"}, "and the issuer that it is sent to"),
        ({"type": "magic", "clientId": "a"}, "magic"),
    ):
        with pytest.raises(LocalError, match=message):
            server_settings({"gateway": {"credentials": given}}, "mcp.json:3")


def test_a_secret_does_not_stand_in_the_text_of_credentials() -> None:
    values = {"type": "client-credentials", "clientId": "a", "clientSecret": "hush", "issuer": "https://x.example"}
    credentials = read_settings(Credentials, values, "here")
    assert "hush" not in repr(credentials) + repr(ServerSettings(credentials=credentials))
