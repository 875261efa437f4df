"""Our client with servers on the official SDKs, in Python and TypeScript, on every revision and by probing.

They offer the same (programs/mcp_server.py, programs/typescript_server.mjs). Where they leave the
specification, the test that meets it says so. All send fields, content and schemas that the older revisions
do not know; our client takes them. Version 1 of the Python SDK, on which most servers out there run, has the
handshake era only.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dovetail import Client, RemoteError, Timeout, ToolFailed
from dovetail.client.blocking import BlockingClient
from dovetail.types.content import Audio, BlobContents, Embedded, Image, ResourceLink, Text, TextContents
from tests.interop.peers import ENVELOPE, HANDSHAKE, NEWEST_OF_ERAS, node_program, python_program

pytestmark = pytest.mark.interop

COMMANDS = {
    "python-2": lambda: python_program("mcp", "mcp_server.py"),
    "python-1": lambda: python_program("mcp1", "mcp_server.py"),
    "typescript": lambda: node_program("typescript_server.mjs"),
}
REVISIONS = {
    "python-2": (*HANDSHAKE, ENVELOPE),
    "python-1": (HANDSHAKE[0], HANDSHAKE[-1]),
    "typescript": (*HANDSHAKE, ENVELOPE),
}
EVERY_WAY = [(kind, revision) for kind in COMMANDS for revision in (*REVISIONS[kind], None)]
EITHER_ERA = [way for way in EVERY_WAY if way[1] in NEWEST_OF_ERAS]


class Peer:
    """A server of another implementation, and our client connected to it."""

    def __init__(self, kind: str, asked_for: str | None, client: BlockingClient) -> None:
        self.kind = kind
        self.asked_for = asked_for
        self.client = client

    @property
    def modern(self) -> bool:
        return self.client.revision == ENVELOPE


@pytest.fixture(scope="module", params=EVERY_WAY, ids=lambda way: f"{way[0]}-{way[1] or 'probe'}")
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    kind, revision = request.param
    with Client.blocking(COMMANDS[kind](), revision=revision, timeout=50) as client:
        yield Peer(kind, revision, client)


def test_the_server_says_who_it_is(peer: Peer) -> None:
    client = peer.client
    assert client.revision == (peer.asked_for or REVISIONS[peer.kind][-1])
    assert client.server is not None
    assert client.server.name == ("typed" if peer.kind == "typescript" else "high")
    assert client.instructions == "Ask away."
    assert client.capabilities.tools and client.capabilities.resources and client.capabilities.prompts
    client.ping()


def test_tools_are_listed_with_their_schemas(peer: Peer) -> None:
    tools = {tool.name: tool for tool in peer.client.tools()}
    point = tools["point"]
    assert point.input_schema["properties"]["x"]["type"] == "integer"
    assert point.input_schema["properties"]["y"]["default"] == 0.5
    assert point.output_schema is not None
    assert point.output_schema["required"] == ["x", "y"]
    assert tools["fail"].annotations is None
    assert point.annotations is not None
    assert point.annotations.read_only_hint is True


def test_a_call_returns_data_and_its_text_twin(peer: Peer) -> None:
    """The Python SDK wraps a bare value on every revision and does not say so; it comes as it was sent."""
    result = peer.client.call("point", x=1)
    assert result.data == {"x": 1, "y": 0.5}
    assert json.loads(result.text) == result.data
    assert not result.is_error
    if peer.kind != "typescript":
        assert peer.client.call("add", a=1, b=2).data == {"result": 3}


def test_every_kind_of_content_arrives(peer: Peer) -> None:
    kept = peer.client.call("blocks").content
    assert [type(block) for block in kept] == [Text, Image, Audio, ResourceLink, Embedded, Embedded]
    text, image, audio, link, inside, blob = kept
    assert isinstance(text, Text) and text.text == "words"
    assert isinstance(image, Image) and (image.data[1:], image.mime_type) == (b"PNG", "image/png")
    assert isinstance(audio, Audio) and (audio.data, audio.mime_type) == (b"RIFF", "audio/wav")
    assert isinstance(link, ResourceLink) and (link.uri, link.description) == ("note://static", "A note")
    assert isinstance(inside, Embedded) and isinstance(inside.resource, TextContents)
    assert inside.resource.text == "inside"
    assert isinstance(blob, Embedded) and isinstance(blob.resource, BlobContents)
    assert blob.resource.blob == b"\x00\x01\x02"


def test_a_failing_tool_raises_with_its_own_words(peer: Peer) -> None:
    with pytest.raises(ToolFailed, match="no such luck"):
        peer.client.call("fail")
    assert peer.client.call("fail", check=False).is_error


def test_an_unknown_tool_is_refused(peer: Peer) -> None:
    """The Python SDK answers with an `isError` result, where the specification has error −32602."""
    if peer.kind != "typescript":
        with pytest.raises(ToolFailed, match="Unknown tool: nowhere"):
            peer.client.call("nowhere")
    else:
        with pytest.raises(RemoteError, match="nowhere not found") as caught:
            peer.client.call("nowhere")
        assert caught.value.code == -32602


def test_wrong_arguments_are_an_error_of_the_tool(peer: Peer) -> None:
    """Both SDKs do so on every revision, though through 2025-06-18 the specification has error −32602."""
    with pytest.raises(ToolFailed, match="x"):
        peer.client.call("point", x="one")


def test_progress_arrives_in_order_before_the_result(peer: Peer) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    result = peer.client.call("count", steps=3, progress=lambda *heard: seen.append(heard))
    assert "counted" in result.text
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def test_a_call_that_times_out_does_not_go_on(peer: Peer) -> None:
    with pytest.raises(Timeout):
        peer.client.call("hang", name="timeout", timeout=0.3)
    deadline = time.monotonic() + 20
    while (hung := peer.client.call("hung").data)["running"] and time.monotonic() < deadline:
        pass
    assert hung["running"] == []


def test_many_calls_at_once_get_their_own_answers(peer: Peer) -> None:
    with ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda x: peer.client.call("point", x=x).data["x"], range(24))
        assert list(results) == list(range(24))


def test_resources_and_templates_are_listed_and_read(peer: Peer) -> None:
    client = peer.client
    static = next(resource for resource in client.resources() if resource.uri == "note://static")
    assert (static.title, static.description, static.mime_type) == ("Static", "A note", "text/markdown")
    [template] = client.resource_templates()
    assert template.uri_template == "note://{topic}/{page}"
    [text] = client.read("note://static").contents
    assert isinstance(text, TextContents) and text.text == "# note"
    [blob] = client.read("note://bytes").contents
    assert isinstance(blob, BlobContents) and blob.blob == b"\x00\x01\x02"
    [page] = client.read("note://soup/4").contents
    assert isinstance(page, TextContents) and page.text == "soup, page 4"


def test_an_unknown_resource_is_refused(peer: Peer) -> None:
    """−32602 on every revision, and 0 from the old SDK; through 2025-11-25 the specification has −32002."""
    with pytest.raises(RemoteError, match="note://gone") as caught:
        peer.client.read("note://gone")
    assert caught.value.code == (0 if peer.kind == "python-1" else -32602)


def test_prompts_are_listed_and_filled_in(peer: Peer) -> None:
    review = next(prompt for prompt in peer.client.prompts() if prompt.name == "review")
    assert review.title == "Review"
    required = {argument.name: argument.required for argument in review.arguments or []}
    assert required == {"code": True, "language": False}
    [message] = peer.client.prompt("review", code="x = 1").messages
    assert message.role == "user"
    assert isinstance(message.content, Text) and message.content.text == "Review this python: x = 1"
    attached, noted = peer.client.prompt("chat").messages
    assert isinstance(attached.content, Embedded) and attached.content.resource.uri == "note://static"
    assert noted.role == "assistant"


@pytest.mark.parametrize("name", ["review", "nowhere"])
def test_a_prompt_unknown_or_without_its_arguments_is_refused(peer: Peer, name: str) -> None:
    """The Python SDK has code 0 in the handshake era and −32603 later; the specification has −32602."""
    with pytest.raises(RemoteError) as caught:
        peer.client.prompt(name)
    python = -32603 if peer.modern else 0
    assert caught.value.code == (-32602 if peer.kind == "typescript" else python)


@pytest.mark.parametrize(("kind", "revision"), EITHER_ERA)
async def test_a_caller_that_is_cancelled_stops_the_call(kind: str, revision: str) -> None:
    await give_up(COMMANDS[kind](), revision)


async def give_up(target: str | list[str], revision: str) -> None:
    """Cancel the caller of a call that runs, and see that it runs no more."""
    started = asyncio.Event()
    async with Client(target, revision=revision) as client:
        calling = asyncio.create_task(client.call("hang", name="caller", progress=lambda *_: started.set(), timeout=50))
        await started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        while (hung := (await client.call("hung")).data)["running"]:
            pass
        assert hung["given_up"] == ["caller"]


@pytest.mark.parametrize(("kind", "revision"), EITHER_ERA)
async def test_changes_of_the_lists_are_heard(kind: str, revision: str) -> None:
    """In the handshake era the Python SDK's class says `listChanged: false`, and still sends the changes."""
    listening = asyncio.Event()

    def trace(direction: str, line: bytes) -> None:
        if b"notifications/subscriptions/acknowledged" in line:
            listening.set()

    async with Client(COMMANDS[kind](), revision=revision, trace=trace) as client:

        async def all_kinds() -> set[str]:
            kinds: set[str] = set()
            async with contextlib.aclosing(client.watch(tools=True, resources=True, prompts=True)) as changes:
                async for change in changes:
                    kinds.add(change.kind)
                    if len(kinds) == 3:
                        break
            return kinds

        watching = asyncio.create_task(all_kinds())
        if revision == ENVELOPE:
            await listening.wait()
        await client.call("grow", name="a")
        assert await watching == {"tools", "resources", "prompts"}
        assert "grown_a" in [tool.name for tool in await client.tools()]
        assert "grown://a" in [resource.uri for resource in await client.resources()]
        assert "grown_a" in [prompt.name for prompt in await client.prompts()]
