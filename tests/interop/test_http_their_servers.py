"""Our client with servers on the official SDKs over HTTP: both eras, by probing, and the transport with two endpoints.

Each server must stand all checks of `test_their_servers.py`, and those of what goes on around calls.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dovetail import Client
from tests.interop import test_their_servers
from tests.interop.peers import ENVELOPE, HANDSHAKE, NEWEST_OF_ERAS, everything_command, node_program, python_program
from tests.interop.test_http_their_clients import checks
from tests.support.http import free_port, serving_command
from tests.support.waiting import until

pytestmark = pytest.mark.interop

COMMANDS: dict[str, Callable[[], list[str]]] = {
    "python-2 /mcp": lambda: [*python_program("mcp", "mcp_server.py"), "http"],
    "python-2 /sse": lambda: [*python_program("mcp", "mcp_server.py"), "sse"],
    "python-1 /mcp": lambda: [*python_program("mcp1", "mcp_server.py"), "http"],
    "python-1 /sse": lambda: [*python_program("mcp1", "mcp_server.py"), "sse"],
    "typescript /mcp": lambda: [*node_program("typescript_server.mjs"), "http"],
}
# Which server, what our client asks for (it finds out if nothing), and what they agree on.
WAYS: list[tuple[str, str | None, str]] = [
    *[("python-2 /mcp", revision, revision) for revision in (*HANDSHAKE[1:], ENVELOPE)],
    ("python-2 /mcp", None, ENVELOPE),
    ("python-2 /sse", None, HANDSHAKE[-1]),
    ("python-1 /mcp", None, HANDSHAKE[-1]),
    ("python-1 /sse", HANDSHAKE[0], HANDSHAKE[0]),
    *[("typescript /mcp", revision, revision) for revision in (HANDSHAKE[-1], ENVELOPE)],
    ("typescript /mcp", None, ENVELOPE),
]
EVERY_WAY = pytest.mark.parametrize(
    ("kind", "revision", "agreed"), WAYS, ids=[f"{way[0].replace(' /', '-')}-{way[1] or 'probe'}" for way in WAYS]
)


@contextlib.contextmanager
def served(kind: str) -> Any:
    """The address of one of these servers."""
    with serving_command(COMMANDS[kind]()) as server:
        yield server.url + kind.split()[1]


@EVERY_WAY
def test_the_server_stands_all_checks(kind: str, revision: str | None, agreed: str) -> None:
    with served(kind) as url, Client.blocking(url, revision=revision, timeout=50) as client:
        peer = test_their_servers.Peer(kind.split()[0], agreed, client)
        for check in checks(test_their_servers, "peer"):
            check(peer)
        for name in ("review", "nowhere"):
            test_their_servers.test_a_prompt_unknown_or_without_its_arguments_is_refused(peer, name)


@EVERY_WAY
async def test_what_goes_on_around_calls(kind: str, revision: str | None, agreed: str) -> None:
    """Completion, logs, changes of resources and lists, and a call that is given up."""
    logs: list[Any] = []
    with served(kind) as url:
        async with Client(url, revision=revision, on_log=lambda *told: logs.append(told)) as client:
            assert client.revision == agreed
            completed = await client.complete("review", "language", "p")
            assert list(completed.values) == ["pascal", "perl", "python"]
            await client.call("talk")
            await until(lambda: logs)
            assert logs[0][:2] == ("info", "told")
            assert await kinds_heard(client) == {"tools", "resources", "prompts"}
            if "typescript" in kind or agreed == ENVELOPE:
                assert await uri_heard(client, "note://static") == "note://static"
        await test_their_servers.give_up(url, agreed)


async def kinds_heard(client: Client) -> set[str]:
    """What is heard of when the lists change; they change until it is, for the stream may open later than the call."""
    kinds: set[str] = set()

    async def listen() -> None:
        async with contextlib.aclosing(client.watch(tools=True, resources=True, prompts=True)) as changes:
            async for change in changes:
                kinds.add(change.kind)
                if len(kinds) == 3:
                    break

    async for _ in while_running(listen()):
        await client.call("grow", name=f"t{time.monotonic_ns()}")
    return kinds


async def uri_heard(client: Client, uri: str) -> str | None:
    """The resource of which a change is heard."""
    heard: list[str | None] = []

    async def listen() -> None:
        async with contextlib.aclosing(client.watch(uri)) as changes:
            async for change in changes:
                heard.append(change.uri)
                break

    async for _ in while_running(listen()):
        await client.call("touch", uri=uri)
    return heard[0]


async def while_running(work: Any) -> AsyncIterator[None]:
    """Again and again until some work is done."""
    task = asyncio.create_task(work)
    while not task.done():
        yield
        await asyncio.wait((task,), timeout=0.05)
    await task


ASKING = {
    "python /mcp": lambda: [*python_program("mcp", "mcp_asking_server.py"), "http"],
    "python /sse": lambda: [*python_program("mcp", "mcp_asking_server.py"), "sse"],
    "typescript /mcp": lambda: [*node_program("typescript_server.mjs"), "http"],
}


@pytest.mark.parametrize(
    ("kind", "revision"),
    [
        (kind, revision)
        for kind in ASKING
        for revision in NEWEST_OF_ERAS
        if (kind, revision) != ("python /sse", ENVELOPE)
    ],
)
async def test_their_handlers_ask_and_we_answer(kind: str, revision: str) -> None:
    tool = "ask_in_rounds" if revision == ENVELOPE else "ask_directly"
    answers: dict[str, Any] = {"on_elicit": lambda _: {"name": "Ann"}, "on_sample": lambda _: "Hi", "roots": ["/"]}
    with serving_command(ASKING[kind]()) as server:
        async with Client(server.url + kind.split()[1], revision=revision, **answers) as client:
            said = (await client.call(tool)).text
    assert said.startswith("accept")
    assert "Ann" in said
    assert "Hi" in said
    assert said.endswith("as it was") == (revision == ENVELOPE)


@pytest.mark.parametrize("mode", ["json", "stateless"])
@pytest.mark.parametrize(
    ("environment", "agreed"), [("mcp", ENVELOPE), ("mcp", HANDSHAKE[-1]), ("mcp1", HANDSHAKE[-1])]
)
async def test_servers_that_answer_in_json_or_keep_no_sessions(environment: str, agreed: str, mode: str) -> None:
    with serving_command([*python_program(environment, "mcp_server.py"), mode]) as server:
        async with Client(f"{server.url}/mcp", revision=agreed) as client:
            assert (await client.call("point", x=1)).data == {"x": 1, "y": 0.5}
            assert "counted" in (await client.call("count", steps=3, progress=lambda *_: None)).text


async def test_questions_on_the_stream_of_the_session_are_answered() -> None:
    """The TypeScript SDK asks there unless it is told which call a question belongs to."""
    answers: dict[str, Any] = {"on_elicit": lambda _: {"name": "Ann"}, "on_sample": lambda _: "Hi"}
    with served("typescript /mcp") as url:
        async with Client(url, revision=HANDSHAKE[-1], **answers) as client:
            assert await kinds_heard(client) == {"tools", "resources", "prompts"}  # so the stream is open
            assert (await client.call("ask_elsewhere")).text == "accept Ann Hi"


@pytest.mark.parametrize(("way", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_the_reference_server(way: str, path: str) -> None:
    """Built on version 1 of the TypeScript SDK, which most servers in TypeScript out there run on."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *everything_command()[:-1],
        way,
        env={"PORT": str(port), "PATH": ""},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        while str(port).encode() not in (line := await process.stderr.readline()):
            assert line, "the server ended"
        async with Client(f"http://127.0.0.1:{port}{path}") as client:
            assert client.revision in HANDSHAKE
            assert (await client.call("echo", message="hello")).text == "Echo: hello"
            assert len(await client.prompts()) > 2
            assert len(await client.resources()) > 2
    finally:
        process.kill()
        await process.communicate()
