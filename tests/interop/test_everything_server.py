"""Our client with npm's server-everything, which speaks the handshake era only."""

import asyncio
import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail import (
    BlobContents,
    Client,
    ConnectionLost,
    Embedded,
    Image,
    RemoteError,
    ResourceLink,
    Text,
    TextContents,
    Timeout,
    ToolFailed,
)
from dovetail.client.blocking import BlockingClient
from tests.interop.peers import ENVELOPE, HANDSHAKE, everything_command

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=[None, HANDSHAKE[0]], ids=["probe", HANDSHAKE[0]])
def client(request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    with Client.blocking(everything_command(), revision=request.param, timeout=50) as client:
        assert client.revision == (request.param or HANDSHAKE[-1])
        yield client


def test_the_lists_of_the_server_are_read(client: BlockingClient) -> None:
    """On 2024-11-05 it sends the capabilities and fields of later revisions, too."""
    assert client.server is not None
    assert client.server.name == "mcp-servers/everything"
    assert {"echo", "get-sum", "get-structured-content"} <= {tool.name for tool in client.tools()}
    assert "demo://resource/static/document/features.md" in [item.uri for item in client.resources()]
    assert [item.uri_template for item in client.resource_templates()] == [
        "demo://resource/dynamic/text/{resourceId}",
        "demo://resource/dynamic/blob/{resourceId}",
    ]
    assert {"simple-prompt", "args-prompt"} <= {prompt.name for prompt in client.prompts()}
    client.ping()


def test_tools_of_the_server_are_called(client: BlockingClient) -> None:
    assert client.call("echo", message="Привет, 世界 🌍").text == "Echo: Привет, 世界 🌍"
    assert client.call("get-sum", a=1, b=2).text == "The sum of 1 and 2 is 3."
    weather = client.call("get-structured-content", location="Chicago")
    assert weather.data == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}


def test_content_of_every_kind_is_read(client: BlockingClient) -> None:
    [text] = client.call("get-annotated-message", messageType="success").content
    assert isinstance(text, Text) and text.annotations is not None
    assert (text.annotations.priority, text.annotations.audience) == (0.7, ["user"])
    image = client.call("get-tiny-image").content[1]
    assert isinstance(image, Image) and image.data.startswith(b"\x89PNG")
    links = client.call("get-resource-links", count=2).content
    assert [type(block) for block in links] == [Text, ResourceLink, ResourceLink]
    embedded = client.call("get-resource-reference", resourceType="Blob", resourceId=1).content[1]
    assert isinstance(embedded, Embedded) and isinstance(embedded.resource, BlobContents)
    assert embedded.resource.blob.startswith(b"Resource 1")


def test_progress_of_a_long_operation(client: BlockingClient) -> None:
    seen: list[tuple[float, float | None]] = []
    operation = {"duration": 0.2, "steps": 4}
    result = client.call(
        "trigger-long-running-operation",
        operation,
        progress=lambda done, total, _: seen.append((done, total)),
    )
    assert "completed" in result.text
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_long_operation_is_given_up(client: BlockingClient) -> None:
    with pytest.raises(Timeout):
        client.call("trigger-long-running-operation", duration=3, steps=1, timeout=0.2)
    assert client.call("echo", message="still here").text == "Echo: still here"


def test_errors_of_the_server_are_raised(client: BlockingClient) -> None:
    """It answers unknown tools, for which the specification has error −32602, and wrong arguments with `isError`."""
    with pytest.raises(ToolFailed, match="expected number"):
        client.call("get-sum", a="one")
    with pytest.raises(ToolFailed, match="nowhere not found"):
        client.call("nowhere")
    with pytest.raises(RemoteError, match="not found") as caught:
        client.read("demo://nowhere")
    assert caught.value.code == -32602


def test_a_tool_that_runs_as_a_task_only_is_called_as_one_where_the_revision_has_tasks(client: BlockingClient) -> None:
    if client.revision == HANDSHAKE[-1]:
        assert "moss" in client.call("simulate-research-query", topic="moss").text
    else:
        with pytest.raises(ToolFailed, match="requires task"):
            client.call("simulate-research-query", topic="moss")


def test_resources_of_the_server_are_read(client: BlockingClient) -> None:
    [text] = client.read("demo://resource/dynamic/text/7").contents
    assert isinstance(text, TextContents) and text.text.startswith("Resource 7")
    [blob] = client.read("demo://resource/dynamic/blob/7").contents
    assert isinstance(blob, BlobContents) and blob.blob.startswith(b"Resource 7")


def test_prompts_of_the_server_are_read(client: BlockingClient) -> None:
    [message] = client.prompt("args-prompt", city="Lima", state="Peru").messages
    assert isinstance(message.content, Text) and message.content.text == "What's weather in Lima, Peru?"
    _, attached = client.prompt("resource-prompt", resourceType="Text", resourceId="3").messages
    assert isinstance(attached.content, Embedded) and isinstance(attached.content.resource, TextContents)
    with pytest.raises(RemoteError) as caught:
        client.prompt("args-prompt")
    assert caught.value.code == -32602


async def test_a_resource_made_at_run_time_is_announced_and_read() -> None:
    async with Client(everything_command(), revision=HANDSHAKE[-1]) as client:

        async def first() -> str:
            async with contextlib.aclosing(client.watch(resources=True)) as changes:
                async for change in changes:
                    return change.kind
            return "none"

        watching = asyncio.create_task(first())
        [link] = (await client.call("gzip-file-as-resource", name="a.gz", data="data:,hello")).content
        assert await watching == "resources"
        assert isinstance(link, ResourceLink)
        [blob] = (await client.read(link.uri)).contents
        assert isinstance(blob, BlobContents) and gzip.decompress(blob.blob) == b"hello"


async def test_methods_without_a_wrapper_can_be_called() -> None:
    async with Client(everything_command(), revision=HANDSHAKE[-1]) as client:
        ref = {"type": "ref/prompt", "name": "completable-prompt"}
        argument = {"name": "department", "value": "E"}
        found = await client.request("completion/complete", {"ref": ref, "argument": argument})
        assert found["completion"]["values"] == ["Engineering"]


async def test_the_era_of_the_server_is_remembered(tmp_path: Path) -> None:
    """Nobody started it in this folder before, so the first client has to find out."""
    first_words: list[bytes] = []
    for _ in range(2):
        sent: list[bytes] = []

        def trace(direction: str, line: bytes, sent: list[bytes] = sent) -> None:
            if direction == "sent":
                sent.append(line)

        async with Client(everything_command(), cwd=tmp_path, trace=trace) as client:
            assert client.revision == HANDSHAKE[-1]
        first_words.append(sent[0])
    assert b'"server/discover"' in first_words[0]
    assert b'"initialize"' in first_words[1]


async def test_the_other_era_is_refused_with_a_typed_error() -> None:
    with pytest.raises(ConnectionLost):
        async with Client(everything_command(), revision=ENVELOPE):
            pass
