"""Tasks at servers that get a token in exchange for the caller's: each uses that of its caller, and belongs to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from dovetail import Client, Context, Gateway, JWTVerifier, RemoteError, Server
from dovetail.auth import jwt
from dovetail.gateway import Credentials, ServerSettings
from dovetail.server.tasks import running_places
from dovetail.server.tasks import tasks as tasks_module
from dovetail.storage import Store
from tests.gateway.exchanging_auth import SECRET, ExchangingAuth, Recorder, behind, exchanging
from tests.support.http import serving
from tests.support.replica_clients import OpenStore

ERAS = ["2025-11-25", "2026-07-28"]

AUDIENCE = "https://gateway.example/mcp"


class Notes:
    """A server behind a gateway that exchanges tokens, with a tool that works until a test lets it end."""

    def __init__(self, back: str) -> None:
        self.back = back
        self.free = asyncio.Event()
        self.address = ""
        self.auth: ExchangingAuth
        self.recorder: Recorder

    def make(self, auth: JWTVerifier) -> Server:
        server = Server("behind", auth=auth, revisions=[self.back])

        @server.tool(task="optional")
        async def hold(ctx: Context) -> str:
            await self.free.wait()
            return str(ctx.principal)

        @server.tool(task="optional")
        async def whoami(ctx: Context) -> str:
            return str(ctx.principal)

        return server

    @contextlib.asynccontextmanager
    async def gateway(self, store: Store | None = None) -> AsyncGenerator[str]:
        """The URL of a gateway."""
        issuer = self.auth.dev.issuer
        credentials = Credentials(type="token-exchange", client_id="gateway", client_secret=SECRET, issuer=issuer)
        gateway = Gateway(
            {"notes": self.address},
            auth=JWTVerifier(issuer=issuer, audience=AUDIENCE),
            settings={"notes": ServerSettings(credentials=credentials)},
        )
        async with serving(gateway.asgi(store=store)) as url:
            yield f"{url}/mcp"
        await gateway.close()

    def client(self, url: str, user: str, revision: str, *scopes: str) -> Client:
        """A client with a token of a user that has some scopes."""
        return Client(url, auth=self.auth.dev.token(user, AUDIENCE, scopes=scopes), revision=revision, timeout=10)

    def scopes_of_calls(self) -> list[str]:
        """The scopes of the tokens that were exchanged for those of all tool calls so far."""
        used = [header.removeprefix("Bearer ") for method, header in self.recorder.seen if method == "tools/call"]
        return [str(jwt.parse_unverified(self.auth.subject_tokens[token]).claims["scope"]) for token in used]


@contextlib.asynccontextmanager
async def notes_at(back: str) -> AsyncGenerator[Notes]:
    notes = Notes(back)
    async with (
        exchanging(AUDIENCE) as notes.auth,
        behind(notes.make, notes.auth.dev.issuer) as (notes.address, notes.recorder),
    ):
        yield notes


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
async def test_a_task_uses_the_credential_of_its_caller_and_is_found_by_no_other(front: str, back: str) -> None:
    async with (
        notes_at(back) as notes,
        notes.gateway() as url,
        notes.client(url, "ann", front) as ann,
        notes.client(url, "bob", front) as bob,
    ):
        await asyncio.gather(ann.tools(), bob.tools())
        tasks = [await ann.start("notes__hold"), await bob.start("notes__hold")]
        methods = ["tasks/get", "tasks/cancel", "tasks/result" if front == ERAS[0] else "tasks/update"]
        for client, foreign in ((ann, tasks[1]), (bob, tasks[0])):
            for method in methods:
                given = {"inputResponses": {}} if method == "tasks/update" else {}
                with pytest.raises(RemoteError, match="Task not found"):
                    await client.request(method, {"taskId": foreign.id, **given})
        notes.free.set()
        assert [(await task.result()).text for task in tasks] == ["ann", "bob"]
        assert notes.recorder.callers("tools/call") == {"ann", "bob"}


@pytest.mark.parametrize("front", ERAS)
async def test_a_task_that_waited_uses_the_credential_of_its_own_token(
    front: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tokens of one user have other scopes, and so may what they are exchanged for."""
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS_EACH", 1)
    async with (
        notes_at("2025-11-25") as notes,
        notes.gateway() as url,
        notes.client(url, "ann", front, "admin") as strong,
        notes.client(url, "ann", front, "read") as weak,
    ):
        await asyncio.gather(strong.tools(), weak.tools())
        tasks = [await strong.start("notes__hold"), await weak.start("notes__whoami")]
        notes.free.set()
        assert [(await task.result()).text for task in tasks] == ["ann", "ann"]
        assert notes.scopes_of_calls() == ["admin", "read"]


@pytest.mark.parametrize("front", ERAS)
async def test_a_task_that_another_process_runs_without_a_token_says_what_is_missing(
    front: str, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 0)
    stores = store(), store()
    async with notes_at("2025-11-25") as notes:
        async with notes.gateway(stores[0]) as url, notes.client(url, "ann", front, "admin") as ann:
            await ann.tools()
            reference = (await ann.start("notes__whoami")).reference
        monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 1)
        async with notes.gateway(stores[1]) as url, notes.client(url, "ann", front, "read") as weak:
            await weak.tools()
            with pytest.raises(RemoteError, match="needs the token of the caller, which gateways neither store"):
                await weak.task(reference).result()
        assert notes.scopes_of_calls() == []
    for one in stores:
        await one.close()
