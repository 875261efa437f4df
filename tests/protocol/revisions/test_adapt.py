"""What values become on revisions that cannot carry them as they are."""

from typing import Any

import msgspec
import pytest

from dovetail.protocol.revisions import REVISIONS, Revision
from dovetail.types.capabilities import ClientCapabilities, ElicitationCapability
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage
from dovetail.types.content import (
    Annotations,
    Audio,
    BlobContents,
    Content,
    Embedded,
    Image,
    ResourceLink,
    Text,
    TextContents,
    ToolResultContent,
    ToolUse,
)
from dovetail.types.prompts import GetPromptResult, PromptMessage
from dovetail.types.tools import DATA_MARK, CallToolResult, Tool

ABSENT = [revision for revision in REVISIONS.values() if revision.structured == "absent"]
OBJECT = [revision for revision in REVISIONS.values() if revision.structured == "object"]
ANY = [revision for revision in REVISIONS.values() if revision.structured == "any"]
OLDEST = next(iter(REVISIONS.values()))
VALUES: list[Any] = [
    {"a": 1},
    {"result": 1},
    {},
    [1, {"b": None}],
    "text",
    "5",
    "",
    5,
    1.5,
    True,
    False,
    None,
]

each_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=repr)
each_value = pytest.mark.parametrize("value", VALUES, ids=repr)


def twin(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def relay(result: CallToolResult, *path: Revision) -> CallToolResult:
    for revision in path:
        loaded = revision.load_result("tools/call", revision.emit_result("tools/call", result))
        assert isinstance(loaded, CallToolResult)
        result = loaded
    return result


@each_revision
@each_value
def test_data_is_bare_at_the_other_end(revision: Revision, value: Any) -> None:
    result = CallToolResult([Text(twin(value))], value, wrapped=not isinstance(value, dict))
    assert relay(result, revision).data == value


@each_revision
def test_a_wrapped_object_is_bare_at_the_other_end(revision: Revision) -> None:
    """A schema such as a union is wrapped also when the value happens to be an object."""
    result = CallToolResult([Text('{"a":1}')], {"a": 1}, wrapped=True)
    assert relay(result, revision).data == {"a": 1}


@each_revision
@pytest.mark.parametrize("onward", REVISIONS.values(), ids=repr)
def test_data_is_bare_behind_a_relay(revision: Revision, onward: Revision) -> None:
    for value in VALUES:
        result = CallToolResult([Text(twin(value))], value, wrapped=not isinstance(value, dict))
        assert relay(result, revision, onward).data == value


@pytest.mark.parametrize("revision", OBJECT, ids=repr)
def test_objects_travel_bare_and_the_rest_wrapped_and_marked(revision: Revision) -> None:
    assert revision.emit(CallToolResult([], {"a": 1})) == {"content": [], "structuredContent": {"a": 1}}
    wrapped = {"content": [], "structuredContent": {"result": 5}, "_meta": {"k": 1, DATA_MARK: "wrapped"}}
    meta = {"k": 1}
    assert revision.emit(CallToolResult([], 5, wrapped=True, meta=meta)) == wrapped
    assert revision.emit(CallToolResult([], 5, meta=meta)) == wrapped
    assert meta == {"k": 1}


@pytest.mark.parametrize("revision", ANY, ids=repr)
def test_any_value_travels_bare(revision: Revision) -> None:
    for value in VALUES:
        plain = revision.emit(CallToolResult([], value, wrapped=True))
        assert plain == {"content": [], "structuredContent": value}


@pytest.mark.parametrize("revision", ABSENT, ids=repr)
@pytest.mark.parametrize(
    ("text", "value", "mark"),
    [
        ("hello", "hello", "text"),
        ("5", "5", "text"),
        ('"hello"', "hello", "json"),
        ("5", 5, "json"),
        ('{\n  "a": 1\n}', {"a": 1}, "json"),
        ("see the data", {"a": 1}, None),
        ("6", 5, None),
    ],
)
def test_the_text_twin_is_marked_only_if_it_is_one(revision: Revision, text: str, value: Any, mark: str | None) -> None:
    plain = revision.emit(CallToolResult([Text(text)], value))
    assert "structuredContent" not in plain
    assert plain.get("_meta") == ({DATA_MARK: mark} if mark else None)


@pytest.mark.parametrize("revision", ABSENT, ids=repr)
def test_without_any_text_the_twin_is_made(revision: Revision) -> None:
    image = Image(b"x", "image/png")
    plain = revision.emit(CallToolResult([image], {"a": 1}))
    assert plain["content"][1:] == [{"type": "text", "text": '{"a":1}'}]
    assert relay(CallToolResult([image], {"a": 1}), revision).data == {"a": 1}


@each_revision
def test_a_result_without_structured_content_is_not_marked(revision: Revision) -> None:
    plain = {"content": [{"type": "text", "text": "a"}]}
    assert revision.emit(CallToolResult([Text("a")], wrapped=True)) == plain


def test_output_schemas_are_wrapped_where_an_object_is_required() -> None:
    number = Tool("t", {"type": "object"}, output_schema={"type": "number"})
    record = Tool("t", {"type": "object"}, output_schema={"type": "object", "properties": {}})
    for revision in ABSENT:
        assert "outputSchema" not in revision.emit(number)
    for revision in OBJECT:
        assert revision.emit(number)["outputSchema"] == {
            "type": "object",
            "properties": {"result": {"type": "number"}},
            "required": ["result"],
            "x-fastmcp-wrap-result": True,
        }
        assert revision.emit(record)["outputSchema"] == record.output_schema
    for revision in ANY:
        assert revision.emit(number)["outputSchema"] == {"type": "number"}
    assert number.output_schema == {"type": "number"}


@each_revision
def test_audio_becomes_a_resource_where_it_is_unknown(revision: Revision) -> None:
    audio = Audio(b"x", "audio/wav", Annotations(["user"]), extra={"x-new": 1})
    plain = revision.emit(audio)
    if "audio" in revision.content_types:
        assert plain == {
            "type": "audio",
            "data": "eA==",
            "mimeType": "audio/wav",
            "annotations": {"audience": ["user"]},
            "x-new": 1,
        }
        return
    assert plain == {
        "type": "resource",
        "resource": {"uri": "urn:dovetail:audio", "blob": "eA==", "mimeType": "audio/wav"},
        "annotations": {"audience": ["user"]},
        "x-new": 1,
    }


@each_revision
def test_a_link_becomes_text_where_it_is_unknown(revision: Revision) -> None:
    link = ResourceLink("a:b", "name", "Title", "What it is", size=5, extra={"x-new": 1})
    plain = revision.emit(GetPromptResult([PromptMessage("user", link)]))["messages"][0]["content"]
    if "resource_link" in revision.content_types:
        assert plain["type"] == "resource_link"
    else:
        assert plain == {"type": "text", "text": "Title: a:b\nWhat it is", "x-new": 1}
        assert revision.emit(ResourceLink("a:b", "name"))["text"] == "name: a:b"


def test_no_revision_sends_a_block_it_does_not_know() -> None:
    blocks: list[Content] = [
        Text("t"),
        Image(b"", "i/i"),
        Audio(b"", "a/a"),
        ResourceLink("a:b", "n"),
        Embedded(BlobContents("a:b", b"")),
        Embedded(TextContents("a:b", "")),
    ]
    for revision in REVISIONS.values():
        sent = revision.emit(CallToolResult(blocks))["content"]
        assert len(sent) == len(blocks)
        assert {block["type"] for block in sent} <= revision.content_types


def sampled(revision: Revision, *contents: Any) -> list[Any]:
    messages = [SamplingMessage("user", content) for content in contents]
    return revision.emit(CreateMessageParams(messages, 5))["messages"]


def test_several_blocks_become_several_messages() -> None:
    blocks = [Text("a"), Image(b"x", "image/png")]
    for revision in REVISIONS.values():
        sent = sampled(revision, blocks, Text("b"))
        if "tool_use" in revision.content_types:
            assert [len(sent[0]["content"]), sent[1]["content"]["text"]] == [2, "b"]
        else:
            assert [message["content"]["type"] for message in sent] == ["text", "image", "text"]
            assert {message["role"] for message in sent} == {"user"}


def test_unsupported_sampling_content_becomes_text() -> None:
    result = ToolResultContent(
        "1",
        [Text("3"), Audio(b"xy", "audio/wav"), ResourceLink("a:b", "n"), Embedded(TextContents("a:c", ""))],
    )
    sent = sampled(OLDEST, Audio(b"xyz", "audio/wav"), ToolUse("1", "add", {"a": 1}), result)
    assert [message["content"] for message in sent] == [
        {"type": "text", "text": "[audio/wav, 3 bytes]"},
        {"type": "text", "text": '[calls add with {"a":1}]'},
        {"type": "text", "text": "[got 3; [audio/wav, 2 bytes]; [a:b]; [a:c]]"},
    ]


def test_an_answer_in_several_blocks_becomes_one() -> None:
    def answer(content: Any) -> Any:
        return OLDEST.emit_result("sampling/createMessage", CreateMessageResult("assistant", content, "m"))["content"]

    assert answer([Text("a")]) == {"type": "text", "text": "a"}
    assert answer([Text("a"), Text("b")]) == {"type": "text", "text": "a\nb"}
    assert answer([Text("a"), Image(b"xy", "image/png")]) == {
        "type": "text",
        "text": "a\n[image/png, 2 bytes]",
    }
    assert answer(Image(b"x", "image/png"))["type"] == "image"
    assert answer([])["text"] == ""


@pytest.mark.parametrize("revision", OBJECT[-1:], ids=repr)
def test_structured_content_within_sampling_is_an_object(revision: Revision) -> None:
    assert revision.emit(ToolResultContent("1", [], [1]))["structuredContent"] == {"result": [1]}
    assert revision.emit(ToolResultContent("1", [], {"a": 1}))["structuredContent"] == {"a": 1}
    assert "structuredContent" not in revision.emit(ToolResultContent("1", []))


@each_revision
def test_a_client_that_only_opens_pages_offers_no_forms(revision: Revision) -> None:
    pages = revision.emit(ClientCapabilities(elicitation=ElicitationCapability(url={})))
    both = revision.emit(ClientCapabilities(elicitation=ElicitationCapability(form={}, url={})))
    silent = revision.emit(ClientCapabilities(elicitation=ElicitationCapability()))
    if "url" in revision.known.get("ElicitationCapability", ()):
        assert pages == {"elicitation": {"url": {}}}
        assert both == {"elicitation": {"form": {}, "url": {}}}
        return
    assert pages == {}
    assert both == silent == ({"elicitation": {}} if "ElicitParams" in revision.known else {})
