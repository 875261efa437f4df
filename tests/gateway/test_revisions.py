"""A gateway between a client of every revision and servers of every revision, in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, NotFound, RemoteError, ResourceLink, Server, ToolFailed
from dovetail.protocol.revisions import REVISIONS

NAMES = list(REVISIONS)
FORMS = [name for name in NAMES if REVISIONS[name].form != "absent"]


@dataclass
class Who:
    name: str


def make_server(revision: str) -> Server:
    """A server that speaks one revision, with every feature that it has."""
    server = Server(f"of {revision}", revisions=[revision], instructions=f"Speaks {revision}.")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def numbers() -> list[int]:
        return [1, 2]

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", Who)
        return f"Hello {answer.data.name}" if answer.accepted else f"You said {answer.action}"

    @server.tool
    async def twice(ctx: Context) -> str:
        first, second = await asyncio.gather(
            ctx.elicit("First?", Who, key="first"), ctx.elicit("Second?", Who, key="second")
        )
        return f"{first.data.name} {second.data.name}"

    @server.tool
    async def poem(ctx: Context) -> str:
        return (await ctx.sample("Write", max_tokens=5)).text

    @server.tool
    async def folders(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def count(ctx: Context) -> str:
        for step in range(1, 4):
            await ctx.progress(step, 3, f"step {step}")
        await ctx.log.warning("counted", steps=3)
        return "counted"

    @server.tool
    async def fail() -> str:
        raise ValueError("no luck")

    @server.tool
    async def link() -> ResourceLink:
        return ResourceLink("same://x", "x")

    @server.resource(f"own-{revision}://x")
    def own() -> str:
        return f"own of {revision}"

    @server.resource("same://x")
    def same() -> str:
        return f"same of {revision}"

    @server.resource(f"item-{revision}://{{id}}")
    def item(id: str) -> str:
        return f"item {id}"

    @server.prompt
    def review(code: str) -> str:
        return f"Review {code} on {revision}"

    @server.completion("review", "code")
    def codes(value: str) -> list[str]:
        return [f"{value}-{revision}"]

    return server


class Joined:
    """A gateway for one server of each revision, by its date."""

    def __init__(self) -> None:
        self.servers = {name: make_server(name) for name in NAMES}
        self.gateway = Gateway(dict(self.servers))


@pytest.fixture
def joined() -> Joined:
    return Joined()


@contextlib.asynccontextmanager
async def client(joined: Joined, revision: str, **options: Any) -> AsyncGenerator[Client]:
    """A client of the gateway, which is closed after it."""
    try:
        async with Client(joined.gateway, revision=revision, timeout=10, **options) as connected:
            yield connected
    finally:
        await joined.gateway.close()


@pytest.mark.parametrize("front", NAMES)
async def test_lists_have_what_all_servers_offer(joined: Joined, front: str) -> None:
    async with client(joined, front) as c:
        tools, prompts = {tool.name for tool in await c.tools()}, {prompt.name for prompt in await c.prompts()}
        uris = {resource.uri for resource in await c.resources()}
        templates = {template.uri_template for template in await c.resource_templates()}
        assert c.instructions is not None
        for back in NAMES:
            assert {f"{back}__add", f"{back}__greet"} <= tools
            assert f"{back}__review" in prompts
            assert {f"own-{back}://x", f"gateway:{back}:same://x"} <= uris
            assert f"item-{back}://{{id}}" in templates
            assert f"# Server {back}\n\nSpeaks {back}." in c.instructions


@pytest.mark.parametrize("back", NAMES)
@pytest.mark.parametrize("front", NAMES)
class TestEachPair:
    async def test_results_are_those_of_the_server(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            assert (await c.call(f"{back}__add", a=1, b=2)).data == 3
            assert (await c.call(f"{back}__numbers")).data == [1, 2]
            with pytest.raises(ToolFailed, match="no luck"):
                await c.call(f"{back}__fail")

    async def test_progress_and_log_messages_arrive(self, joined: Joined, front: str, back: str) -> None:
        progress: list[float] = []
        messages: list[Any] = []
        async with client(joined, front, on_log=lambda level, data, name: messages.append((level, data))) as c:
            await c.call(f"{back}__count", progress=lambda done, total, text: progress.append(done))
        assert progress == [1, 2, 3]
        assert messages == [("warning", {"message": "counted", "steps": 3})]

    async def test_resources_prompts_and_completions_are_found(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            assert _text(await c.read(f"own-{back}://x")) == f"own of {back}"
            assert _text(await c.read(f"gateway:{back}:same://x")) == f"same of {back}"
            assert _text(await c.read(f"item-{back}://5")) == "item 5"
            prompt = await c.prompt(f"{back}__review", code="a")
            assert prompt.messages[0].content.text == f"Review a on {back}"  # type: ignore[union-attr]
            assert (await c.complete(f"{back}__review", "code", "b")).values == [f"b-{back}"]

    async def test_a_link_leads_back_to_its_server(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            block = (await c.call(f"{back}__link")).content[0]
            if isinstance(block, ResourceLink):
                assert _text(await c.read(block.uri)) == f"same of {back}"
            else:  # the client's revision has no links
                assert f"gateway:{back}:same://x" in block.text or "same://x" in block.text  # type: ignore[union-attr]

    async def test_sampling_and_roots_are_asked_of_the_client(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front, on_sample=lambda params: "a rhyme", roots=["/tmp"]) as c:
            assert (await c.call(f"{back}__poem")).data == "a rhyme"
            assert (await c.call(f"{back}__folders")).data == ["file:///tmp"]

    async def test_a_subscriber_hears_of_an_update(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            changes = c.watch(f"own-{back}://x")
            waiting = asyncio.ensure_future(anext(changes))
            async with asyncio.timeout(10):
                while not waiting.done():
                    joined.servers[back].notify_resource_updated(f"own-{back}://x")
                    await asyncio.sleep(0.02)
            assert waiting.result().uri == f"own-{back}://x"
            await changes.aclose()

    async def test_a_new_tool_is_announced(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            await c.tools()
            changes = c.watch(tools=True)
            waiting = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0.05)
            joined.servers[back].tool(_late, name="late")
            async with asyncio.timeout(10):
                await waiting
            assert f"{back}__late" in {tool.name for tool in await c.tools()}
            await changes.aclose()

    async def test_a_missing_resource_is_not_found(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            with pytest.raises(NotFound):
                await c.read(f"gateway:{back}:nothing://x")


@pytest.mark.parametrize("back", FORMS)
@pytest.mark.parametrize("front", FORMS)
class TestQuestions:
    async def test_a_question_is_asked_and_answered(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front, on_elicit=lambda question: {"name": "Ann"}) as c:
            assert (await c.call(f"{back}__greet")).data == "Hello Ann"

    async def test_declining_is_passed_on(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front, on_elicit=lambda question: None) as c:
            assert (await c.call(f"{back}__greet")).data == "You said decline"

    async def test_several_questions_at_once(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front, on_elicit=lambda question: {"name": question.message[:5]}) as c:
            assert (await c.call(f"{back}__twice")).data == "First Secon"

    async def test_a_client_that_cannot_be_asked_gets_an_error(self, joined: Joined, front: str, back: str) -> None:
        async with client(joined, front) as c:
            with pytest.raises((ToolFailed, RemoteError), match="does not support elicitation"):
                await c.call(f"{back}__greet")


async def _late() -> str:
    return "late"


def _text(result: Any) -> str:
    contents = getattr(result, "contents", None)
    return contents[0].text if contents else result if isinstance(result, str) else result.text
