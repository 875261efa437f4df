"""Blocks of content."""

from typing import Any

import msgspec
import pytest

from dovetail.types.content import (
    Annotations,
    Audio,
    BlobContents,
    Contents,
    Embedded,
    Image,
    ResourceLink,
    Text,
    TextContents,
    ToolResultContent,
    ToolUse,
)
from dovetail.types.serialization import Value, dump, load

BLOCKS: list[tuple[Value, dict[str, Any]]] = [
    (
        Text("hi", Annotations(["user"], 1)),
        {"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 1}},
    ),
    (Image(data=b"x", mime_type="image/png"), {"type": "image", "data": "eA==", "mimeType": "image/png"}),
    (Audio(b"x", "audio/wav"), {"type": "audio", "data": "eA==", "mimeType": "audio/wav"}),
    (ResourceLink("a:b", "n", size=3), {"type": "resource_link", "uri": "a:b", "name": "n", "size": 3}),
    (Embedded(TextContents("a:b", "t")), {"type": "resource", "resource": {"uri": "a:b", "text": "t"}}),
    (Embedded(BlobContents("a:b", b"x")), {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}}),
    (ToolUse("1", "add", {"a": 1}), {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}),
    (
        ToolResultContent("1", [Text("3")], None),
        {
            "type": "tool_result",
            "toolUseId": "1",
            "content": [{"type": "text", "text": "3"}],
            "structuredContent": None,
        },
    ),
]


@pytest.mark.parametrize(("value", "plain"), BLOCKS, ids=lambda item: type(item).__name__)
def test_each_block_on_the_wire(value: Value, plain: dict[str, Any]) -> None:
    assert dump(value) == plain
    assert load(type(value), plain) == value


def test_contents_are_one_of_two() -> None:
    assert isinstance(TextContents("a:b", "t"), Contents)
    assert isinstance(BlobContents("a:b", b""), Contents)
    assert not isinstance(Text("t"), Contents)


def test_contents_with_neither_text_nor_blob_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="text"):
        load(Embedded, {"type": "resource", "resource": {"uri": "a:b"}})


def test_a_null_beside_the_text_does_no_harm() -> None:
    plain = {"type": "resource", "resource": {"uri": "a:b", "text": "t", "blob": None, "mimeType": None}}
    assert load(Embedded, plain).resource == TextContents("a:b", "t", extra={"blob": None})
