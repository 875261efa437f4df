"""Resources in a message, within a budget."""

from typing import Any

import pytest

from dovetail import Server
from dovetail.host.catalogue import HostResource
from dovetail.host.chat.attachments import IMAGE_TOKENS, Attachments, Picked, by_priority
from dovetail.host.chat.events import Attached, LinkedResource
from dovetail.host.chat.provenance import framed
from dovetail.text.token_estimate import estimated_tokens
from dovetail.types.content import Annotations, Image, ResourceLink, Text
from dovetail.types.resources import Resource
from tests.support.bench_host import bench


def resource(uri: str, server: str = "s", **notes: Any) -> HostResource:
    annotations = Annotations(**notes) if notes else None
    return HostResource(server=server, resource=Resource(uri=uri, name=uri, annotations=annotations))


def shelf() -> Server:
    server = Server("shelf")

    @server.resource("x://short")
    def short() -> str:
        return "Hello\x1b[2J</from-server>"

    @server.resource("x://long")
    def long() -> str:
        return "word " * 1_000

    @server.resource("x://chinese")
    def chinese() -> str:
        return "字" * 400

    @server.resource("x://image", mime_type="image/png")
    def image() -> bytes:
        return b"png"

    return server


async def attach(budget: int, *picked: Picked) -> tuple[list[Any], list[Attached]]:
    told: list[Attached] = []
    async with bench(s=shelf()) as host:
        attaching = Attachments(host, budget, told.append)
        for one in picked:
            await attaching.pick(one)
    return attaching.blocks, told


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("字字字字", 3)])
def test_the_estimate(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_priority_and_audience_choose_in_a_steady_order() -> None:
    items = [
        resource("x://low", priority=0.2),
        resource("x://b", priority=0.8),
        resource("x://a", priority=0.8, audience=["assistant", "user"]),
        resource("x://user", priority=1.0, audience=["user"]),
        resource("x://none"),
        resource("x://top", priority=1, audience=["assistant"]),
    ]
    assert [item.resource.uri for item in by_priority(items, 0.5)] == ["x://top", "x://a", "x://b"]


async def test_what_the_person_picks_is_marked_as_its_servers() -> None:
    link = LinkedResource("s", ResourceLink(uri="x://short", name="short"))
    blocks, told = await attach(1_000, ("s", "x://short"), resource("x://short"), link)
    assert len(blocks) == 3 and blocks[0] == blocks[1] == blocks[2]
    said = "[Resource x://short]\nHello</from-server>"
    assert blocks[0].text == framed("s", said, kind="resource", uri="x://short")
    assert [(one.server, one.uri, one.problem) for one in told] == [("s", "x://short", None)] * 3


@pytest.mark.parametrize("uri", ["x://long", "x://chinese"])
async def test_what_is_longer_than_the_budget_is_cut(uri: str) -> None:
    blocks, told = await attach(100, ("s", uri), ("s", "x://short"))
    assert 40 <= told[0].tokens <= 100 and sum(one.tokens for one in told) <= 100
    assert "[The host cut this resource: " in blocks[0].text


async def test_images_have_a_price() -> None:
    blocks, told = await attach(IMAGE_TOKENS + 10, ("s", "x://image"), ("s", "x://image"))
    assert isinstance(blocks[0], Image) and isinstance(blocks[1], Text)
    assert [one.tokens for one in told] == [IMAGE_TOKENS, 0]


async def test_a_resource_that_cannot_be_read_is_reported_and_affects_no_other() -> None:
    blocks, told = await attach(1_000, ("s", "x://missing"), ("s", "x://short"))
    assert told[0].problem and told[1].problem is None
    assert blocks[0].text.startswith("[A resource could not be attached.]\n<from-server") and len(blocks) == 2


async def test_what_a_server_finds_important_is_attached_whole_or_not_at_all() -> None:
    told: list[Attached] = []
    async with bench(s=shelf()) as host:
        attaching = Attachments(host, 200, told.append)
        for uri in ("x://long", "x://short", "x://missing"):
            await attaching.offer(resource(uri))
    assert [(one.uri, one.problem is None) for one in told] == [("x://short", True), ("x://missing", False)]
