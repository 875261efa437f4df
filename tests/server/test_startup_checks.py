"""Mistakes that concern a server as a whole are reported when it starts, at the latest."""

import contextlib
import logging
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dovetail import Client, ConnectionLost, LocalError, Server
from dovetail.server.startup_checks import check_before_start


def names(value: str) -> list[str]:
    return [value]


def compare(one: str, other: str = "emma") -> str:
    """Compare two books."""
    return one + other


def book(name: str) -> str:
    """A book."""
    return name


def test_a_completion_of_an_unknown_argument_is_refused_at_registration() -> None:
    server = Server("library")
    server.prompt(compare)
    server.resource("library://{name}")(book)
    with pytest.raises(LocalError, match=r"for 'ohter' of 'compare', but it has one, other; did you mean 'other'\?"):
        server.completion("compare", "ohter")(names)
    with pytest.raises(LocalError, match=r"for 'nam' of 'library://\{name\}', but it has name; did you mean 'name'\?"):
        server.completion("library://{name}", "nam")(names)
    server.completion("compare", "one")(names)


async def test_a_completion_of_an_unknown_prompt_is_refused_when_the_server_starts() -> None:
    server = Server("library")
    server.completion("compere", "one")(names)
    server.prompt(compare)
    expected = "for 'compere', but there is no such prompt or template; did you mean 'compare'?"
    with pytest.raises(LocalError) as refused:
        server.run()
    assert expected in str(refused.value)
    with pytest.raises(LocalError):
        await server.run_async()
    with pytest.raises(ConnectionLost) as lost:
        await Client(server).open()
    assert expected in str(lost.value)


async def test_the_prompt_may_be_registered_after_its_completion() -> None:
    server = Server("library")
    server.completion("compare", "one")(names)
    server.prompt(compare)
    async with Client(server) as client:
        assert (await client.complete("compare", "one", "p")).values == ["p"]


async def test_a_lifespan_may_register_the_prompt() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        server.prompt(compare)
        yield

    server = Server("library", lifespan=lifespan)
    server.completion("compare", "one")(names)
    async with Client(server) as client:
        assert (await client.complete("compare", "one", "p")).values == ["p"]


async def test_completions_of_mounted_prompts_have_their_names_there() -> None:
    inner, outer = Server("inner"), Server("outer")
    inner.prompt(compare)
    inner.completion("compare", "one")(names)
    outer.mount(inner, prefix="books")
    outer.completion("books_compare", "other")(names)
    async with Client(outer) as client:
        assert (await client.complete("books_compare", "one", "p")).values == ["p"]


async def test_tools_without_a_description_are_named_once_when_the_server_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")
    for number in range(7):
        server.tool(lambda: None, name=f"t{number}")
    server.tool(compare)
    with caplog.at_level(logging.INFO, "dovetail"):
        async with Client(server) as client:
            await client.tools()
        assert not caplog.records, "tests are not bothered"
        check_before_start(server._core)  # pyright: ignore[reportPrivateUsage]
    [record] = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage() == (
        "No description: t0, t1, t2, t3, t4 and 2 more. Models choose tools by their descriptions; write docstrings."
    )


def test_a_program_warns_of_them_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "from dovetail import Server\nserver = Server('s')\n"
        "@server.tool\ndef a(x: int) -> int:\n    return x\n"
        "@server.tool\ndef b(ctx) -> int:\n    'B.'\n    return 1\nserver.run()\n"
    )
    master, terminal = pty.openpty()
    for stderr in (subprocess.PIPE, terminal):
        command = [sys.executable, "server.py"]
        done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
        shown = done.stderr if stderr != terminal else os.read(master, 10_000)
        assert (
            shown.decode().splitlines()
            == [
                "b(): ctx has no type hint, so that clients have to give it; write ctx: Context",
                "No description: a. Models choose tools by their descriptions; write docstrings.",
            ][: 1 if stderr != terminal else 2]
        )
    os.close(master)
    os.close(terminal)


@pytest.mark.parametrize("option", ["auth", "middleware", "lifespan", "instructions"])
def test_an_option_that_is_assigned_to_a_server_is_refused(option: str) -> None:
    server = Server("s")
    with pytest.raises(AttributeError, match=rf"{option} is an option of Server, .*; write Server\(…, {option}=…\)"):
        setattr(server, option, None)
    server.mine = 1  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
