"""The tree of errors: what a user catches, and what each of them says."""

import pytest

from dovetail.protocol import errors
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult

CHILDREN = [
    errors.LocalError, errors.RemoteError, errors.NotFound, errors.InvalidAnswer, errors.ToolFailed,
    errors.ConnectionLost, errors.Timeout, errors.Refused, errors.ToolError, errors.ProtocolError,
]  # fmt: skip


@pytest.mark.parametrize("kind", CHILDREN)
def test_every_error_is_a_dovetail_error(kind: type[Exception]):
    assert issubclass(kind, errors.DovetailError)


def test_the_docstring_draws_the_whole_tree():
    declared = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    drawn = errors.__doc__ or ""
    assert [name for name in declared if name not in drawn] == []


def test_a_remote_error_says_what_the_peer_said():
    error = errors.RemoteError(-32602, "Unknown tool: ad", {"hint": "add"})
    assert str(error) == "Unknown tool: ad (code -32602)"
    assert (error.code, error.message, error.data) == (-32602, "Unknown tool: ad", {"hint": "add"})


def test_not_found_is_a_remote_error():
    assert issubclass(errors.NotFound, errors.RemoteError)


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
