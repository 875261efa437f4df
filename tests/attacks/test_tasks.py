"""Attacks on tasks: ids that are foreign, guessed or expired, and ids that are read where they do not belong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.tasks.stored_tasks import handle_of
from tests.support.http import serving
from tests.support.http_process import HttpProcess
from tests.support.raw_http import Session, Site, modern_meta

EXTENSION = "io.modelcontextprotocol/tasks"
CORE, ENVELOPE = "2025-11-25", "2026-07-28"
META = modern_meta(elicitation={}, extensions={EXTENSION: {}})
STYLE = {"type": "object", "properties": {"style": {"type": "string"}}, "required": ["style"]}
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
GUESSED = "AAAAAAAAAAAAAAAAAAAAAA"
METHODS = {
    ENVELOPE: {
        "tasks/get": {},
        "tasks/update": {"inputResponses": {"style": {"action": "cancel"}}},
        "tasks/cancel": {},
    },
    CORE: {"tasks/get": {}, "tasks/result": {}, "tasks/cancel": {}},
}
EACH_METHOD = [(revision, method) for revision, methods in METHODS.items() for method in methods]


def make_server(**options: Any) -> Server:
    server = Server("tasks", auth={"a": "ann", "b": "bob"}.get, **options)

    @server.tool(task="optional")
    async def paint(secret: str, ctx: Context) -> str:
        await ctx.status("asking")
        answer = await ctx.elicit("Which style?", STYLE, key="style")
        return f"painted {answer.action}"

    return server


class Caller:
    """One principal, on both revisions with tasks."""

    def __init__(self, site: Site, session: Session) -> None:
        self._site = site
        self._session = session

    async def ask(self, revision: str, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        if revision == ENVELOPE:
            headers = {"Mcp-Name": params["taskId"]} if "taskId" in params else {}
            return await (await self._site.modern(method, headers, meta=META, **params)).answer()
        return await (await self._session.ask(method, **params)).answer()

    async def create(self, revision: str = ENVELOPE) -> str:
        """Create a task, and wait until it waits for an answer."""
        task = {} if revision == ENVELOPE else {"task": {}}
        made = await self.ask(revision, "tools/call", name="paint", arguments={"secret": "hush-hush"}, **task)
        id = made["result"].get("task", made["result"])["taskId"]
        while (await self.ask(revision, "tasks/get", taskId=id))["result"]["status"] != "input_required":
            await asyncio.sleep(0.01)
        return id


@contextlib.asynccontextmanager
async def two_callers(server: Server, **options: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(server.asgi(**options)))
        callers: list[Caller] = []
        for token in ("a", "b"):
            site = await stack.enter_async_context(Site(url, Authorization=f"Bearer {token}"))
            callers.append(Caller(site, await site.session(CORE, elicitation={})))
        yield callers[0], callers[1]


class TestIds:
    @pytest.mark.parametrize(("revision", "method"), EACH_METHOD)
    async def test_foreign_guessed_and_expired_ids_get_the_same_answer(self, revision: str, method: str) -> None:
        server = make_server()
        async with two_callers(server) as (ann, bob):
            expired = await bob.create(revision)
            server._core.tasks.stored.clock = lambda: time.time() + 2 * 86_400
            foreign = await ann.create(revision)
            answers: list[dict[str, Any]] = []
            for id in (foreign, GUESSED, expired, "", "x" * 4000, f"{foreign}x", foreign[:-1]):
                answer = await bob.ask(revision, method, taskId=id, **METHODS[revision][method])
                assert answer.keys() == {"jsonrpc", "id", "error"}
                answers.append(answer["error"])
            assert answers[0]["code"] == -32602
            assert answers == [answers[0]] * len(answers)
            own = (await ann.ask(revision, "tasks/get", taskId=foreign))["result"]
            assert own["status"] == "input_required", "nobody else has answered or cancelled it"

    @pytest.mark.parametrize(("revision", "other"), [(ENVELOPE, CORE), (CORE, ENVELOPE)])
    async def test_the_owner_is_checked_across_generations_too(self, revision: str, other: str) -> None:
        async with two_callers(make_server()) as (ann, bob):
            id = await ann.create(revision)
            for method, params in METHODS[other].items():
                assert (await bob.ask(other, method, taskId=id, **params))["error"]["code"] == -32602

    async def test_nobody_watches_a_foreign_task(self) -> None:
        async with two_callers(make_server()) as (ann, bob):
            foreign, own = await ann.create(), await bob.create()
            wanted = {"taskIds": [foreign, GUESSED, own]}
            stream = await bob._site.modern("subscriptions/listen", meta=META, notifications=wanted)
            acknowledged = (await stream.message())["params"]["notifications"]
            assert acknowledged["taskIds"] == [own]
            assert (await stream.message())["params"]["taskId"] == own
            await ann.ask(ENVELOPE, "tasks/cancel", taskId=foreign)
            await bob.ask(ENVELOPE, "tasks/cancel", taskId=own)
            while (pushed := (await stream.message())["params"])["status"] != "cancelled":
                assert pushed["taskId"] == own
            assert pushed["taskId"] == own

    async def test_a_list_shows_no_foreign_task(self) -> None:
        async with two_callers(make_server()) as (ann, bob):
            for revision in (CORE, ENVELOPE):
                await ann.create(revision)
            own = await bob.create(CORE)
            tasks = (await bob.ask(CORE, "tasks/list"))["result"]["tasks"]
            assert [task["taskId"] for task in tasks] == [own]

    async def test_a_tool_that_is_hidden_hides_its_tasks(self) -> None:
        """A principal whose access to a tool was taken away has no access to the tasks that it created before."""
        allowed = {"ann", "bob"}
        server = make_server(visible=lambda principal, kind, name: principal in allowed)
        async with two_callers(server) as (ann, _):
            id = await ann.create()
            unknown = (await ann.ask(ENVELOPE, "tasks/get", taskId=GUESSED))["error"]
            allowed.discard("ann")
            for method, params in METHODS[ENVELOPE].items():
                assert (await ann.ask(ENVELOPE, method, taskId=id, **params))["error"] == unknown


class TestSecrecy:
    async def test_no_id_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        for name in ("dovetail", "dovetail.http", "uvicorn", "asyncio"):
            caplog.set_level(logging.DEBUG, name)
        async with two_callers(make_server()) as (ann, bob):
            ids = [await ann.create(revision) for revision in (ENVELOPE, CORE)]
            for id in ids:
                await bob.ask(ENVELOPE, "tasks/get", taskId=id)
                await bob.ask(CORE, "tasks/result", taskId=id)
                await ann.ask(ENVELOPE, "tasks/update", taskId=id, inputResponses={"style": {"action": "cancel"}})
                await ann.ask(ENVELOPE, "tasks/cancel", taskId=id)
            text = "\n".join(record.getMessage() for record in caplog.records)
            assert "tasks/update" in text and handle_of(ids[0])[:12] in text, "the access log names tasks by their hash"
            assert not [id for id in ids if id in text or id in caplog.text]

    def test_no_id_is_in_the_log_of_a_server_at_its_most_talkative(self, tmp_path: Path) -> None:
        file = tmp_path / "server.py"
        file.write_text(
            "from dovetail import Server\n"
            "server = Server('tasks')\n"
            "@server.tool(task='optional')\n"
            "async def fail() -> str:\n"
            "    raise RuntimeError('broken')\n"
        )
        with HttpProcess(file, "--log-level", "debug", "--store", str(tmp_path / "store.sqlite")) as server:
            caller = server.client(ENVELOPE)
            params: dict[str, Any] = {"name": "fail", "arguments": {}, "_meta": {_CAPABILITIES: META[_CAPABILITIES]}}
            [made] = caller.ask("tools/call", params).messages()
            id = made["result"]["taskId"]
            for method in ("tasks/get", "tasks/cancel", "tasks/get"):
                caller.ask(method, {"taskId": id, "_meta": params["_meta"]}).messages()
            assert "tasks/get" in server.stderr
            assert id not in server.stderr

    async def test_the_store_has_neither_ids_nor_contents_in_clear(self, tmp_path: Path) -> None:
        async with two_callers(make_server(), store=str(tmp_path / "store.sqlite")) as (ann, _):
            id = await ann.create()
            content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert content and handle_of(id).encode() in content
        for secret in (id, "hush-hush", "Which style?"):
            assert secret.encode() not in content
