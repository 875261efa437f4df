"""First contact, cancelling, progress, logging, completion, subscriptions."""

import msgspec
import pytest

from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.messages import (
    CancelledParams,
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    DiscoverResult,
    InitializeParams,
    InitializeResult,
    ListenParams,
    LogParams,
    ProgressParams,
    PromptReference,
    ResourceReference,
    SubscriptionFilter,
)
from dovetail.types.serialization import dump, load


def test_handshake_messages_are_read_and_written() -> None:
    who = Implementation("n", "1")
    assert dump(InitializeParams("v", ClientCapabilities(), who)) == {
        "protocolVersion": "v",
        "capabilities": {},
        "clientInfo": {"name": "n", "version": "1"},
    }
    assert dump(InitializeResult("v", ServerCapabilities(), who, "hi"))["serverInfo"] == {
        "name": "n",
        "version": "1",
    }
    assert dump(DiscoverResult(["v"], ServerCapabilities())) == {
        "supportedVersions": ["v"],
        "capabilities": {},
    }


@pytest.mark.parametrize("request_id", [5, "5"])
def test_ids_and_tokens_keep_their_type(request_id: int | str) -> None:
    assert load(CancelledParams, {"requestId": request_id}).request_id == request_id
    assert load(ProgressParams, {"progressToken": request_id, "progress": 1}).progress_token == request_id


def test_a_truth_value_is_no_id() -> None:
    with pytest.raises(msgspec.ValidationError, match="requestId"):
        load(CancelledParams, {"requestId": True})


def test_a_log_message_carries_any_data() -> None:
    for data in (None, "text", 1, [1], {"a": 1}):
        assert load(LogParams, {"level": "info", "data": data}).data == data
    with pytest.raises(msgspec.ValidationError, match="level"):
        load(LogParams, {"level": "loud", "data": 1})


def test_completion_messages_are_read_and_written() -> None:
    argument = CompletionArgument("a", "v")
    params = CompleteParams(PromptReference("p"), argument, CompletionContext({"b": "c"}))
    assert dump(params) == {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": "v"},
        "context": {"arguments": {"b": "c"}},
    }
    assert dump(CompleteParams(ResourceReference("a:{b}"), argument))["ref"] == {
        "type": "ref/resource",
        "uri": "a:{b}",
    }
    assert dump(CompleteResult(Completion(["x"], has_more=False)))["completion"] == {
        "values": ["x"],
        "hasMore": False,
    }


def test_subscription_messages_are_read_and_written() -> None:
    wanted = SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["a:b"])
    plain = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}}
    assert dump(ListenParams(wanted)) == plain
    assert load(ListenParams, plain).notifications == wanted
