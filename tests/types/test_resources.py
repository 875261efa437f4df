"""Resources and templates."""

from dovetail.types.content import BlobContents, TextContents
from dovetail.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceUpdatedParams,
    SubscribeParams,
)
from dovetail.types.serialization import dump, load


def test_lists_are_written_even_when_empty() -> None:
    assert dump(ListResourcesResult()) == {"resources": []}
    assert dump(ListResourceTemplatesResult()) == {"resourceTemplates": []}
    assert dump(ReadResourceResult()) == {"contents": []}


def test_contents_of_a_resource_are_text_or_bytes() -> None:
    plain = {"contents": [{"uri": "a:b", "text": "t", "x": 1}, {"uri": "a:c", "blob": "eA==", "mimeType": "m"}]}
    read = load(ReadResourceResult, plain)
    assert read.contents == [TextContents("a:b", "t", extra={"x": 1}), BlobContents("a:c", b"x", "m")]
    assert dump(read) == plain


def test_resources_have_their_wire_names() -> None:
    assert dump(Resource("a:b", "n", mime_type="m")) == {"uri": "a:b", "name": "n", "mimeType": "m"}
    assert dump(ResourceTemplate("a:{b}", "n")) == {"uriTemplate": "a:{b}", "name": "n"}
    for kind in (ReadResourceParams, SubscribeParams, ResourceUpdatedParams):
        assert dump(kind("a:b")) == {"uri": "a:b"}
