"""Our client answers what the official server asks, on both eras."""

from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Refused
from dovetail.client.elicitation import Elicitation
from dovetail.protocol.errors import RemoteError
from tests.interop.peers import ENVELOPE, HANDSHAKE, python_program
from tests.support.oracle import Oracle

pytestmark = pytest.mark.interop


def client(name: str, oracle: Oracle, **options: Any) -> Client:
    return Client(python_program("mcp", "mcp_asking_server.py"), revision=name, trace=oracle, **options)


def fill(question: Elicitation) -> Any:
    assert question.server is not None
    assert question.server.name == "asking"
    return {"name": "Ann"} if question.mode == "form" else "accept"


@pytest.mark.parametrize("name", HANDSHAKE[2:])
async def test_requests_of_their_servers_are_answered(name: str, tmp_path: Path):
    oracle, heard = Oracle(judge=["client"]), []
    options = {"on_elicit": fill, "on_sample": lambda _: "Hi", "roots": [tmp_path]}
    async with client(name, oracle, **options, on_log=lambda *told: heard.append(told)) as c:
        result = await c.call("ask_directly")
        assert result.text == "accept Who(name='Ann', nick=None, age=7) Hi 1"
        if name == HANDSHAKE[-1]:
            assert (await c.call("ask_for_page")).text == "accept"
        await c.call("talk")
    assert heard == [("info", "told", None)]
    oracle.verdict()


@pytest.mark.parametrize("name", HANDSHAKE[2:])
async def test_requests_of_their_servers_may_be_refused(name: str):
    def refuse(params: Any) -> str:
        raise Refused("no")

    oracle = Oracle(judge=["client"])
    async with client(name, oracle, on_elicit=lambda _: None, on_sample=refuse) as c:
        with pytest.raises(RemoteError, match="User rejected sampling request"):
            await c.call("ask_directly")
    oracle.verdict()


async def test_input_required_rounds_of_their_servers_are_answered(tmp_path: Path):
    oracle, heard = Oracle(judge=["client"]), []
    options = {"on_elicit": fill, "on_sample": lambda _: "Hi", "roots": [tmp_path]}
    async with client(ENVELOPE, oracle, **options, on_log=lambda *told: heard.append(told)) as c:
        result = await c.call("ask_in_rounds")
        assert result.text == "accept {'name': 'Ann', 'age': 7} Hi 1 as it was"
        await c.call("talk")
    assert heard == [("info", "told", None)]
    oracle.verdict()


async def test_a_capability_that_is_not_there_in_rounds():
    async with client(ENVELOPE, Oracle(judge=["client"]), on_elicit=lambda _: pytest.fail("asked")) as c:
        with pytest.raises(Refused, match="no on_sample"):
            await c.call("ask_in_rounds")
