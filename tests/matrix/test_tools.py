"""Tools on every revision and transport: what lists say of them, what calls give, and what goes wrong."""

import json
from typing import Any

import pytest

from dovetail import Audio, Client, Embedded, Image, NotFound, RemoteError, ResourceLink, Text, ToolFailed
from dovetail.types.content import BlobContents, TextContents
from dovetail.types.tools import Tool
from tests.matrix.connections import STRUCTURED, Setting, on, on_handshake
from tests.matrix.everything import APPLICATION_ERROR, DRAFT_07_INPUT, HAND_OUTPUT, ICON, PIXEL, SOUND
from tests.support.oracle import Oracle

CORNER = {"x": 1, "y": 2.5}
OBJECTS = {
    "shift": ({"point": CORNER}, {"x": 2, "y": 3.5}),
    "draw": (
        {"corners": [CORNER], "colour": "red", "style": "thick"},
        {"corners": [CORNER], "colour": "red", "label": "thick"},
    ),
    "by_hand": ({"pair": ["a", 1]}, {"swapped": [1, "a"]}),
}
OTHERS = {
    "add": ({"a": 1, "b": 2}, 3),
    "greet": ({"name": "Ada"}, "Hi Ada"),
    "path": ({"steps": [CORNER, CORNER]}, [CORNER, CORNER]),
}
each_tool = pytest.mark.parametrize("name", [*OBJECTS, *OTHERS])
each_other = pytest.mark.parametrize("name", OTHERS)


async def listed(client: Client, name: str) -> Tool:
    return {tool.name: tool for tool in await client.tools()}[name]


def raw_tool(oracle: Oracle, name: str) -> dict[str, Any]:
    """A tool as it stood on the wire."""
    pages = [oracle.answer(request)["result"] for request in oracle.sent_by("client", "tools/list")]
    return {tool["name"]: tool for page in pages for tool in page["tools"]}[name]


@each_tool
async def test_data_is_bare_on_every_revision(client: Client, name: str) -> None:
    arguments, expected = {**OBJECTS, **OTHERS}[name]
    assert (await client.call(name, arguments)).data == expected


@each_tool
@on(*STRUCTURED)
async def test_structured_content_has_a_text_twin(client: Client, name: str) -> None:
    arguments, expected = {**OBJECTS, **OTHERS}[name]
    result = await client.call(name, arguments)
    assert len(result.content) == 1
    assert result.text == expected or json.loads(result.text) == expected


async def test_a_tool_that_returns_nothing_has_neither_content_nor_an_output_schema(
    client: Client, oracle: Oracle
) -> None:
    assert (await client.call("nothing")).data is None
    result = oracle.result("tools/call")
    assert (result["content"], "structuredContent" in result) == ([], False)
    await client.tools()
    assert "outputSchema" not in raw_tool(oracle, "nothing")


@on("2024-11-05", "2025-03-26")
@each_tool
async def test_older_revisions_get_the_text_only(client: Client, oracle: Oracle, name: str) -> None:
    arguments, _ = {**OBJECTS, **OTHERS}[name]
    await client.call(name, arguments)
    assert "structuredContent" not in oracle.result("tools/call")
    await client.tools()
    assert "outputSchema" not in raw_tool(oracle, name)


@on("2025-06-18", "2025-11-25")
@each_other
async def test_a_value_that_is_no_object_is_wrapped(client: Client, oracle: Oracle, name: str) -> None:
    arguments, expected = OTHERS[name]
    await client.call(name, arguments)
    assert oracle.result("tools/call")["structuredContent"] == {"result": expected}
    await client.tools()
    schema = raw_tool(oracle, name)["outputSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["result"])


@on("2026-07-28")
@each_other
async def test_a_value_that_is_no_object_is_bare(client: Client, oracle: Oracle, name: str) -> None:
    arguments, expected = OTHERS[name]
    await client.call(name, arguments)
    assert oracle.result("tools/call")["structuredContent"] == expected
    await client.tools()
    assert raw_tool(oracle, name)["outputSchema"].get("type") != "object"


@on(*STRUCTURED)
@pytest.mark.parametrize("name", OBJECTS)
async def test_an_object_is_never_wrapped(client: Client, oracle: Oracle, name: str) -> None:
    arguments, expected = OBJECTS[name]
    await client.call(name, arguments)
    assert oracle.result("tools/call")["structuredContent"] == expected
    await client.tools()
    assert "result" not in raw_tool(oracle, name)["outputSchema"]["properties"]


async def test_schemas_written_by_hand_are_listed_word_for_word(client: Client, revision: str) -> None:
    tool = await listed(client, "by_hand")
    assert tool.input_schema == DRAFT_07_INPUT
    assert tool.output_schema == (HAND_OUTPUT if revision in STRUCTURED else None)


async def test_a_schema_written_by_hand_is_kept_to_in_its_own_dialect(client: Client) -> None:
    """An array under `items` is a tuple in draft-07; in 2020-12 it would be no schema at all."""
    with pytest.raises((RemoteError, ToolFailed), match="pair"):
        await client.call("by_hand", pair=[1, "a"])


async def test_descriptions_and_limits_stand_in_the_input_schema(client: Client) -> None:
    schema = (await listed(client, "add")).input_schema
    assert schema["properties"]["a"] == {"type": "integer", "description": "the first"}
    assert schema["required"] == ["a", "b"]
    days = (await listed(client, "forecast")).input_schema["properties"]["days"]
    assert (days["minimum"], days["maximum"], days["default"]) == (1, 14, 3)


async def test_a_parameter_names_its_header(client: Client) -> None:
    city = (await listed(client, "forecast")).input_schema["properties"]["city"]
    assert city["x-mcp-header"] == "City"


async def test_a_tool_says_of_itself_what_its_revision_knows(client: Client, revision: str) -> None:
    tool = await listed(client, "forecast")
    assert tool.description == "Tell the weather."
    assert tool.title == ("Forecast" if revision >= "2025-06-18" else None)
    assert tool.icons == ([ICON] if revision >= "2025-11-25" else None)
    assert tool.meta == ({"com.example/tier": "gold"} if revision >= "2025-06-18" else None)
    if revision == "2024-11-05":
        assert tool.annotations is None
    else:
        assert tool.annotations is not None
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, True)


async def test_every_kind_of_content_arrives_as_far_as_the_revision_knows_it(client: Client, revision: str) -> None:
    content = (await client.call("contents")).content
    text, image, audio, link, embedded_text, embedded_blob = content
    assert isinstance(text, Text) and text.text == "words"
    assert text.annotations is not None and text.annotations.audience == ["user"]
    assert text.annotations.last_modified == ("2025-01-12T15:00:58Z" if revision >= "2025-06-18" else None)
    assert text.meta == ({"com.example/k": 1} if revision >= "2025-06-18" else None)
    assert isinstance(image, Image) and (image.data, image.mime_type) == (PIXEL, "image/png")
    if revision == "2024-11-05":
        assert isinstance(audio, Embedded) and isinstance(audio.resource, BlobContents)
        assert audio.resource.blob == SOUND
    else:
        assert isinstance(audio, Audio) and audio.data == SOUND
    if revision < "2025-06-18":
        assert isinstance(link, Text) and link.text == "Hello: text://hello\nA greeting"
    else:
        assert isinstance(link, ResourceLink) and (link.uri, link.title) == ("text://hello", "Hello")
        assert link.icons == ([ICON] if revision >= "2025-11-25" else None)
    assert isinstance(embedded_text, Embedded) and isinstance(embedded_text.resource, TextContents)
    assert embedded_text.resource.text == "Hello!"
    assert isinstance(embedded_blob, Embedded) and isinstance(embedded_blob.resource, BlobContents)
    assert embedded_blob.resource.blob == PIXEL


@pytest.mark.sends_wrong("fields of the handler's own")
async def test_a_result_made_by_hand_arrives_with_its_metadata_and_fields_that_nobody_knows(
    client: Client, shared: Setting
) -> None:
    result = await client.call("whole_result")
    assert (result.text, result.meta and result.meta["com.example/k"]) == ("as it is", "v")
    assert result.extra == {"vendorField": {"deep": True}}
    assert result.content[0].extra == {"vendorMark": [1]}
    shared.forgive("vendor")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("add", {"a": "x", "b": 2}, "a"),
        ("add", {"a": 1}, "b"),
        ("add", {"a": 1, "b": 2, "c": 3}, "c"),
        ("draw", {"corners": [], "colour": "green"}, "colour"),
        ("shift", {"point": {"x": 1}}, "y"),
        ("forecast", {"city": "Lima", "days": 15}, "days"),
        ("by_hand", {"pair": "ab"}, "pair"),
    ],
    ids=["wrong type", "missing", "unknown", "not in the enum", "deep", "over the limit", "by hand"],
)
async def test_bad_arguments_name_what_to_fix(
    client: Client, revision: str, name: str, arguments: dict[str, Any], problem: str
) -> None:
    """An error through 2025-06-18, later a result for the model to read."""
    if revision <= "2025-06-18":
        with pytest.raises(RemoteError) as error:
            await client.call(name, arguments)
        assert error.value.code == -32602
        said = error.value.message
    else:
        result = await client.call(name, arguments, check=False)
        assert result.is_error
        said = result.text
    assert problem in said.partition("tool")[2]
    assert name in said


async def test_an_integer_may_be_written_as_a_float(client: Client) -> None:
    assert (await client.call("add", a=1.0, b=2)).data == 3


async def test_an_unknown_tool_is_invalid_params(client: Client) -> None:
    with pytest.raises(RemoteError, match="ad2") as error:
        await client.call("ad2", a=1, b=2)
    assert error.value.code == -32602


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("refuse", "Not on a Sunday."),
        ("crash", "RuntimeError: the engine is on fire"),
        ("leave", "SystemExit: 3"),
        ("too_slow", "Tool 'too_slow' did not finish within 0.05 s"),
    ],
)
async def test_a_failing_tool_says_why_without_a_traceback(client: Client, name: str, text: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        await client.call(name)
    assert failure.value.result.is_error
    assert failure.value.result.text == text


async def test_a_tool_that_breaks_its_promise_fails(client: Client) -> None:
    result = await client.call("lie", check=False)
    assert result.is_error
    assert "returned something else than it promises" in result.text


async def test_a_tool_may_answer_with_an_error_of_its_own(client: Client) -> None:
    with pytest.raises(RemoteError) as error:
        await client.call("protocol_error")
    said = error.value
    assert (said.code, said.message, said.data) == (
        APPLICATION_ERROR,
        "No quota left",
        {"resets": "tomorrow"},
    )


@pytest.mark.sends_wrong("the user asks for it by its name")
@on_handshake
async def test_a_method_of_another_era_is_not_found(client: Client, shared: Setting) -> None:
    with pytest.raises(NotFound) as error:
        await client.request("server/discover")
    assert error.value.code == -32601
    shared.forgive("must not send server/discover")
