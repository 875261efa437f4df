"""Tools are held to the output schemas that they promised."""

from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.client.output_validation import OutputValidator
from dovetail.protocol.errors import InvalidAnswer
from dovetail.protocol.revisions import REVISIONS
from dovetail.schema import validation
from dovetail.types.tools import CallToolResult, Tool
from tests.support.peer import notification
from tests.support.scripted import Error, Scripted, legacy, modern
from tests.support.waiting import settled

WANTED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WRAPPED = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}


def offering(schema: Any, content: Any, make: Any = legacy) -> Scripted:
    """A server with one tool that promises a schema and returns some structured content."""
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    result = {"content": [], "structuredContent": content}
    stamp = {"resultType": "complete"} if make is modern else {}
    return make(tools_list={"tools": [tool], **stamp}, tools_call={**result, **stamp})


@pytest.mark.parametrize("make", [legacy, modern])
class TestChecking:
    async def test_what_fits_is_taken(self, make: Any):
        async with Client(offering(WANTED, {"n": 5}, make)) as client:
            assert (await client.call("t")).data == {"n": 5}

    async def test_what_does_not_is_an_invalid_answer_that_says_where(self, make: Any):
        async with Client(offering(WANTED, {"n": "five"}, make)) as client:
            with pytest.raises(InvalidAnswer, match=r"Tool 't' returned something else .*n.*integer"):
                await client.call("t")

    async def test_the_tools_are_listed_once_when_they_are_not_known_yet(self, make: Any):
        server = offering(WANTED, {"n": 5}, make)
        async with Client(server) as client:
            for _ in range(3):
                await client.call("t")
        assert server.methods.count("tools/list") == 1

    async def test_and_not_at_all_when_they_are(self, make: Any):
        server = offering(WANTED, {"n": 5}, make)
        async with Client(server) as client:
            await client.tools()
            await client.call("t")
        assert server.methods.count("tools/list") == 1

    async def test_a_tool_that_changed_unnoticed_is_looked_at_again(self, make: Any):
        server = offering(WANTED, {"n": 5}, make)
        async with Client(server) as client:
            await client.call("t")
            other = offering({"type": "object", "required": ["m"]}, {"m": "new"}, make)
            server.answers.update(other.answers)
            assert (await client.call("t")).data == {"m": "new"}


@pytest.mark.parametrize("make", [legacy, modern])
async def test_a_result_that_only_the_schema_marks_as_wrapped_is_unwrapped(make: Any):
    schema = {**WRAPPED, "x-fastmcp-wrap-result": True}
    async with Client(offering(schema, {"result": 3}, make)) as client:
        result = await client.call("t")
        assert result.data == 3
        assert result.structured_content == {"result": 3}


async def test_a_result_without_the_mark_is_not_unwrapped():
    async with Client(offering(WRAPPED, {"result": 3})) as client:
        assert (await client.call("t")).data == {"result": 3}


async def test_a_result_without_structured_content_is_not_checked():
    server = offering(WANTED, None)
    server.answers["tools/call"] = {"content": [{"type": "text", "text": "hello"}]}
    async with Client(server) as client:
        assert (await client.call("t")).text == "hello"
    assert "tools/list" not in server.methods


async def test_a_failure_is_not_checked():
    server = offering(WANTED, {"n": "five"})
    server.answers["tools/call"]["isError"] = True
    async with Client(server) as client:
        assert (await client.call("t", check=False)).is_error


async def test_a_tool_that_promises_nothing_may_return_anything():
    server = offering(None, {"whatever": 1})
    async with Client(server) as client:
        assert (await client.call("t")).data == {"whatever": 1}


async def test_null_is_a_value_to_check():
    async with Client(offering({"type": "null"}, None, modern)) as client:
        assert (await client.call("t")).data is None
    async with Client(offering(WANTED, None, modern)) as client:
        with pytest.raises(InvalidAnswer, match="object"):
            await client.call("t")


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
        {"type": "object", "$ref": "https://example.com/schema.json"},
        {"type": "nonsense"},
    ],
)
async def test_a_schema_that_cannot_be_used_is_the_servers_fault(schema: dict[str, Any]):
    async with Client(offering(schema, {"n": 5})) as client:
        with pytest.raises(InvalidAnswer, match="The output schema of tool 't' cannot be used"):
            await client.call("t")


async def test_a_server_that_cannot_list_its_tools_is_not_checked():
    server = offering(WANTED, {"n": "five"})
    server.answers["tools/list"] = Error(-32603)
    async with Client(server) as client:
        for _ in range(2):
            assert (await client.call("t")).data == {"n": "five"}
    assert server.methods.count("tools/list") == 1


async def test_when_the_list_changes_the_schemas_are_learnt_anew():
    server = offering(WANTED, {"n": 5})
    async with Client(server) as client:
        await client.call("t")
        server.peer.send(notification("notifications/tools/list_changed"))
        await settled()
        await client.call("t")
    assert server.methods.count("tools/list") == 2


@pytest.mark.parametrize("name", REVISIONS)
async def test_what_a_server_of_ours_returns_always_fits(name: str):
    server = Server("s")
    server.tool(lambda: [1, 2], name="untyped")

    @server.tool
    def numbers() -> list[int]:
        return [1, 2]

    @server.tool
    def named() -> dict[str, int]:
        return {"a": 1}

    @server.tool
    def nothing() -> None: ...

    async with Client(server, revision=name) as client:
        await client.tools()
        assert (await client.call("numbers")).data == [1, 2]
        assert (await client.call("named")).data == {"a": 1}
        assert (await client.call("nothing")).data is None
        assert (await client.call("untyped")).data == [1, 2]


class TestWork:
    def tool(self, **properties: Any) -> Tool:
        return Tool("t", {"type": "object"}, output_schema={"type": "object", "properties": properties})

    async def check(self, outputs: OutputValidator, content: dict[str, Any]) -> None:
        async def list_tools() -> None:
            raise AssertionError("the tools are known")

        await outputs.check("t", CallToolResult([], structured_content=content), list_tools)

    async def test_listing_the_tools_again_compiles_no_schema_again(self, monkeypatch: pytest.MonkeyPatch):
        compiled: list[object] = []
        compile_schema = validation.compile_schema

        def record(schema: dict[str, Any]) -> validation.Validator:
            compiled.append(schema)
            return compile_schema(schema)

        monkeypatch.setattr(validation, "compile_schema", record)
        outputs = OutputValidator()
        for _ in range(3):
            outputs.notified("notifications/tools/list_changed", {})
            outputs.learn([self.tool(n={"type": "integer"})])
            await self.check(outputs, {"n": 1})
        assert len(compiled) == 1

    async def test_a_schema_that_has_changed_is_compiled(self):
        outputs = OutputValidator()
        outputs.learn([self.tool(n={"const": 1})])
        await self.check(outputs, {"n": 1})
        outputs.learn([self.tool(n={"const": True})])
        await self.check(outputs, {"n": True})
