"""Our client with a server on the low-level class of the official Python SDK: what only that class can do."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from dovetail import Client, InvalidAnswer, NotFound, Refused, RemoteError, TextContents
from dovetail.client.blocking import BlockingClient
from tests.interop.peers import ENVELOPE, HANDSHAKE, NEWEST_OF_ERAS, python_program

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=[HANDSHAKE[0], *NEWEST_OF_ERAS])
def client(request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    command = python_program("mcp", "mcp_lowlevel_server.py")
    with Client.blocking(command, revision=request.param, timeout=50) as client:
        yield client


def test_lists_are_read_over_all_their_pages(client: BlockingClient) -> None:
    """The server gives two items a page."""
    tools = [tool.name for tool in client.tools()]
    assert tools[:6] == ["tool_0", "tool_1", "tool_2", "tool_3", "tool_4", "named"]
    assert [resource.uri for resource in client.resources()] == ["low://0", "low://1", "low://2"]


def test_icons_annotations_and_metadata_are_kept(client: BlockingClient) -> None:
    first = client.tools()[0]
    assert first.icons is not None
    assert (first.icons[0].src, first.icons[0].sizes) == ("https://x.test/icon.png", ["48x48"])
    assert first.meta == {"x.test/order": 1}
    resource = client.resources()[0]
    assert resource.annotations is not None
    assert (resource.size, resource.annotations.audience, resource.annotations.priority) == (3, ["user"], 0.5)


def test_metadata_of_results_is_kept(client: BlockingClient) -> None:
    result = client.call("named", name="x")
    assert result.data == {"name": "x"}
    assert (result.meta or {})["x.test/kept"] == "yes"


def test_capabilities_beyond_the_core_are_read(client: BlockingClient) -> None:
    """The SDK declares extensions only on the newest revision, and experimental ones only before it."""
    capabilities = client.capabilities
    if client.revision == ENVELOPE:
        assert capabilities.extensions == {"x.test/colours": {"shades": 3}}
    else:
        assert capabilities.experimental == {"x.test/try": {}}


def test_data_that_breaks_its_schema_is_not_passed_on(client: BlockingClient) -> None:
    """The SDK's low-level class lets a handler break its own output schema."""
    with pytest.raises(InvalidAnswer, match="name: must be of type string"):
        client.call("named", name=1)


def test_an_error_keeps_its_code_and_its_data(client: BlockingClient) -> None:
    with pytest.raises(RemoteError, match="Unknown tool: nowhere") as caught:
        client.call("nowhere")
    assert caught.value.code == -32602
    assert caught.value.data["known"][0] == "tool_0"


def test_what_is_not_there_is_told_apart(client: BlockingClient) -> None:
    with pytest.raises(NotFound, match="Resource not found") as caught:
        client.read("low://gone")
    assert caught.value.data == {"uri": "low://gone"}
    assert client.prompts() == [], "a list that the server does not offer is empty"


def test_a_resource_may_have_several_parts(client: BlockingClient) -> None:
    parts = client.read("low://1").contents
    assert [(part.uri, part.text) for part in parts if isinstance(part, TextContents)] == [
        ("low://1/a", "a"),
        ("low://1/b", "b"),
    ]


async def test_what_only_the_newest_revision_has() -> None:
    """Data that is no object; and a question, which is forbidden since our client declares no elicitation."""
    async with Client(python_program("mcp", "mcp_lowlevel_server.py"), revision=ENVELOPE) as client:
        assert (await client.call("numbers")).data == [1, 2, 3]
        with pytest.raises(Refused, match="on_elicit"):
            await client.call("ask")


async def test_a_server_may_ping_us_and_is_told_what_we_cannot_do() -> None:
    """The tool pings and then asks for roots, which our client has not declared."""
    command = python_program("mcp", "mcp_server.py")
    async with Client(command, revision=HANDSHAKE[-1]) as client:
        with pytest.raises(NotFound, match="roots/list"):
            await client.call("ask_back")
        await client.ping()


@pytest.mark.parametrize("revision", NEWEST_OF_ERAS)
async def test_only_what_is_watched_is_heard(revision: str) -> None:
    acknowledged = asyncio.Event()

    def trace(direction: str, line: bytes) -> None:
        if b"notifications/subscriptions/acknowledged" in line:
            acknowledged.set()

    async with Client(python_program("mcp", "mcp_lowlevel_server.py"), revision=revision, trace=trace) as client:

        async def first() -> str:
            async with contextlib.aclosing(client.watch(tools=True)) as changes:
                async for change in changes:
                    return change.kind
            return "none"

        watching = asyncio.create_task(first())
        if revision == ENVELOPE:
            await acknowledged.wait()
        await client.call("announce")
        assert await watching == "tools"
