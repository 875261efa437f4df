"""Calling a handler of a resource or a prompt: whatever it does, it hurts only its call."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.errors import ProtocolError, RemoteError, ToolFailed
from dovetail.protocol.revisions import REVISIONS
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)


class Harmful(BaseException): ...


def offering(function: Any) -> Server:
    server = Server("s")
    server.resource("x://y")(function)
    server.prompt(function, name="p")
    server.resource("x://alive")(lambda: "alive")
    return server


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("problem", [ValueError("no"), Harmful("no"), SystemExit("no")], ids=repr)
async def test_an_exception_is_an_internal_error_that_names_it(
    problem: BaseException, is_async: bool, caplog: pytest.LogCaptureFixture
):
    def fail() -> str:
        raise problem

    async def fail_on_loop() -> str:
        raise problem

    async with Client(offering(fail_on_loop if is_async else fail)) as client:
        for doing, ask in (("Reading x://y", client.read("x://y")), ("Prompt 'p'", client.prompt("p"))):
            with pytest.raises(RemoteError) as caught:
                await ask
            assert caught.value.code == -32603
            assert caught.value.message == f"{doing} failed: {type(problem).__name__}: no"
        assert len((await client.read("x://alive")).contents) == 1
    assert "Traceback" in caplog.text


class Address(msgspec.Struct):
    street: str


class Order(msgspec.Struct):
    address: Address


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_form_that_cannot_be_asked_is_logged_with_the_line_of_the_handler_only(
    revision: str, caplog: pytest.LogCaptureFixture
):
    server = Server("s")

    @server.tool
    async def order(ctx: Context) -> None:
        await ctx.elicit("Where to?", form=Order)

    async with Client(server, revision=revision, on_elicit=lambda _: "decline") as client:
        with pytest.raises(ToolFailed, match="address"):
            await client.call("order")
    [record] = [record for record in caplog.records if record.exc_info]
    shown = logging.Formatter().format(record)
    assert [line for line in shown.splitlines() if line.startswith("  File")] == [
        line for line in shown.splitlines() if "in order" in line
    ]
    assert "the above exception" not in shown.lower() and "LocalError: " in shown


@EVERY
async def test_the_same_on_every_revision(name: str):
    def fail() -> str:
        raise ValueError("no")

    async with Client(offering(fail), revision=name) as client:
        with pytest.raises(RemoteError, match="ValueError: no") as caught:
            await client.read("x://y")
        assert caught.value.code == -32603


async def test_a_protocol_error_goes_out_as_it_is():
    def refuse() -> str:
        raise ProtocolError(4042, "Sign in first", {"x": 1})

    async with Client(offering(refuse)) as client:
        for ask in (client.read("x://y"), client.prompt("p")):
            with pytest.raises(RemoteError, match="Sign in first") as caught:
                await ask
            assert (caught.value.code, caught.value.data) == (4042, {"x": 1})


async def test_a_handler_that_cancels_itself_says_so():
    async def cancel() -> str:
        raise asyncio.CancelledError

    async with Client(offering(cancel)) as client:
        with pytest.raises(RemoteError, match="Reading x://y failed: it was cancelled by its own code"):
            await client.read("x://y")


async def test_a_client_that_cancels_stops_it_and_hears_nothing():
    steps: list[str] = []
    begun = asyncio.Event()

    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
            return "never"
        finally:
            steps.append("stopped")

    async with served(offering(wait)) as caller:
        id = caller.begin("resources/read", uri="x://y")
        await begun.wait()
        caller.cancel(id)
        await caller.result("resources/list")
        assert caller.heard == []
    assert steps == ["stopped"]


async def test_a_plain_function_may_give_a_coroutine():
    async def late() -> str:
        return "late"

    async with Client(offering(lambda: late())) as client:
        assert (await client.read("x://y")).contents[0].text == "late"  # type: ignore[union-attr]
