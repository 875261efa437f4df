"""What a server asks of a client."""

import msgspec
import pytest

from dovetail.types.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    InputRequired,
    ListRootsResult,
    Root,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
)
from dovetail.types.content import Image, Text, ToolUse
from dovetail.types.serialization import dump, load


def test_an_answer_is_one_block_or_many() -> None:
    one = load(CreateMessageResult, {"role": "assistant", "model": "m", "content": {"type": "text", "text": "a"}})
    many = CreateMessageResult("assistant", [Text("a"), ToolUse("1", "t", {}), Text("b")], "m")
    assert (one.content, one.text) == (Text("a"), "a")
    assert many.text == "a\nb"
    assert CreateMessageResult("assistant", Image(b"", "image/png"), "m").text == ""


def test_elicitation_has_two_forms() -> None:
    form = load(ElicitParams, {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
    page = load(ElicitParams, {"message": "?", "mode": "url", "url": "https://a", "elicitationId": "1"})
    assert (form.mode, form.url) == (None, None)
    assert (page.mode, page.url, page.elicitation_id, page.requested_schema) == (
        "url",
        "https://a",
        "1",
        None,
    )
    assert dump(ElicitResult("decline")) == {"action": "decline"}


def test_roots_are_read_and_written() -> None:
    assert dump(ListRootsResult([Root("file:///a", "A")])) == {"roots": [{"uri": "file:///a", "name": "A"}]}


def test_an_input_required_result_holds_requests_and_state() -> None:
    message = SamplingMessage("user", Text("hi"))
    asked = InputRequired(
        {
            "a": ElicitRequest(ElicitParams("?")),
            "b": SamplingRequest(CreateMessageParams([message], 5)),
            "c": RootsRequest(),
        },
        state="s",
    )
    plain = dump(asked)
    assert plain["resultType"] == "input_required"
    assert plain["requestState"] == "s"
    assert {key: item["method"] for key, item in plain["inputRequests"].items()} == {
        "a": "elicitation/create",
        "b": "sampling/createMessage",
        "c": "roots/list",
    }
    assert load(InputRequired, plain) == asked


def test_a_question_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="method"):
        load(InputRequired, {"resultType": "input_required", "inputRequests": {"a": {"method": "guess"}}})
