"""The tree of errors: what a user catches, and what each of them says."""

import pickle
from typing import Any

import pytest

from dovetail.protocol import errors
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult

CHILDREN = [
    errors.LocalError, errors.RemoteError, errors.NotFound, errors.InvalidAnswer, errors.ToolFailed,
    errors.ConnectionLost, errors.OutcomeUnknown, errors.Timeout, errors.Refused, errors.ToolError,
    errors.ProtocolError,
]  # fmt: skip


@pytest.mark.parametrize("kind", CHILDREN)
def test_every_error_is_a_dovetail_error(kind: type[Exception]):
    assert issubclass(kind, errors.DovetailError)


def test_the_docstring_draws_the_whole_tree():
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and name[0] != "_"}
    declared = {name for name, kind in kinds.items() if issubclass(kind, Exception)}
    drawn = errors.__doc__ or ""
    assert [name for name in declared if name not in drawn] == []


def test_a_remote_error_says_what_the_peer_said():
    error = errors.RemoteError(-32602, "Unknown tool: ad", {"hint": "add"})
    assert str(error) == "Unknown tool: ad (code -32602)"
    assert (error.code, error.message, error.data) == (-32602, "Unknown tool: ad", {"hint": "add"})


@pytest.mark.parametrize("kind", [errors.NotFound, errors.InvalidParams])
def test_a_handler_raises_it_with_a_message_alone(kind: type[errors.NotFound]):
    raised = kind("No such book", data={"shelf": 3})
    assert (str(raised), raised.message, raised.data, raised.is_remote) == ("No such book",) * 2 + ({"shelf": 3}, False)
    received = kind(-32602, "No such book")
    assert (str(received), received.code, received.is_remote) == ("No such book (code -32602)", -32602, True)
    assert isinstance(received, errors.RemoteError)


@pytest.mark.parametrize("raised", [errors.NotFound("gone"), errors.InvalidParams(-32602, "bad", {"a": 1})])
def test_an_error_survives_pickling(raised: errors.NotFound):
    copy = pickle.loads(pickle.dumps(raised))
    assert (type(copy), str(copy), vars(copy)) == (type(raised), str(raised), vars(raised))


@pytest.mark.parametrize(
    ("code", "message", "data", "kind"),
    [
        (-32601, "no", None, errors.NotFound),
        (-32002, "no", None, errors.NotFound),
        (-32602, "no", {"dovetail/notFound": True}, errors.NotFound),
        (-32602, "Unknown tool: ad", None, errors.NotFound),
        (-32602, "Tool ad not found", None, errors.NotFound),
        (-32602, "MCP error -32602: Resource a://b not found", None, errors.NotFound),
        (0, "Unknown resource: a://b", None, errors.NotFound),
        (-32602, "days: unknown tool", None, errors.InvalidParams),
        (-32602, "no", {"dovetail/notFound": "perhaps"}, errors.InvalidParams),
        (-32602, "no", [1], errors.InvalidParams),
        (0, "no", None, errors.RemoteError),
        (-32603, "Unknown tool: ad", None, errors.RemoteError),
        (-32603, "gone", {"dovetail/outcomeUnknown": True}, errors.OutcomeUnknown),
        (-32603, "gone", {"dovetail/outcomeUnknown": 1}, errors.RemoteError),
        (-32000, "gone", {"dovetail/outcomeUnknown": True}, errors.RemoteError),
    ],
)
def test_an_error_of_the_peer_has_the_class_of_what_it_means(code: int, message: str, data: Any, kind: type[Exception]):
    assert type(errors.remote_error(code, message, data)) is kind


def test_the_mark_is_added_where_the_code_does_not_say_it_and_taken_out_again():
    assert errors.not_found_error("gone", {"uri": "a://b"}, -32002).data == {"uri": "a://b"}
    assert errors.not_found_error("Unknown tool: ad").data is None
    for data in (None, {"uri": "a://b"}):
        sent = errors.not_found_error("gone", data)
        assert sent.data == {**(data or {}), errors.NOT_FOUND_MARK: True}
        received = errors.remote_error(sent.code, sent.message, sent.data)
        assert isinstance(received, errors.NotFound)
        assert received.data == data


def test_an_unknown_outcome_is_said_once_and_keeps_its_reason():
    sent = errors.outcome_unknown("its process has ended")
    raised = errors.remote_error(sent.code, sent.message, sent.data)
    assert isinstance(raised, errors.OutcomeUnknown)
    assert str(raised) == "It is not known if the request was carried out: its process has ended"
    copy = pickle.loads(pickle.dumps(raised))
    assert (copy.reason, str(copy)) == ("its process has ended", str(raised))


def test_a_timeout_can_be_caught_as_pythons_own():
    with pytest.raises(TimeoutError):
        raise errors.Timeout("No answer within 5 s")


def test_a_tool_that_failed_gives_its_words_and_its_result():
    result = CallToolResult([Text("No such city")], is_error=True)
    error = errors.ToolFailed("forecast", result)
    assert str(error) == "Tool 'forecast' failed: No such city"
    assert (error.name, error.result) == ("forecast", result)


def test_a_tool_may_fail_without_a_word():
    assert str(errors.ToolFailed("t", CallToolResult([], is_error=True))) == "Tool 't' failed: it gave no reason"


def test_a_protocol_error_carries_what_will_be_sent():
    error = errors.ProtocolError(errors.INVALID_PARAMS, "Invalid cursor", {"cursor": "x"})
    assert str(error) == "Invalid cursor"
    assert (error.code, error.message, error.data) == (-32602, "Invalid cursor", {"cursor": "x"})


def test_the_codes_are_those_of_the_specification():
    assert (errors.PARSE_ERROR, errors.INVALID_REQUEST, errors.METHOD_NOT_FOUND) == (-32700, -32600, -32601)
    assert (errors.INVALID_PARAMS, errors.INTERNAL_ERROR) == (-32602, -32603)
    assert (errors.RESOURCE_NOT_FOUND, errors.URL_ELICITATION_REQUIRED) == (-32002, -32042)
    assert sorted(errors.MODERN_CODES) == [-32022, -32021, -32020]
