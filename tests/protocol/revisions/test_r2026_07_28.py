"""What 2026-07-28 changed."""

import pytest

from dovetail.protocol.errors import METHOD_NOT_FOUND, ProtocolError
from dovetail.protocol.revisions.r2025_11_25 import REVISION as PREVIOUS
from dovetail.protocol.revisions.r2026_07_28 import REVISION
from dovetail.types.capabilities import ClientCapabilities, RootsCapability
from dovetail.types.client_features import ElicitParams, ElicitRequest, InputRequired
from dovetail.types.messages import ListenParams, SubscriptionFilter
from dovetail.types.tasks import TaskMetadata
from dovetail.types.tools import CallToolParams, Tool, ToolExecution


def test_flags() -> None:
    assert (REVISION.era, REVISION.server_requests, REVISION.disconnect) == ("envelope", "rounds", "cancel")
    assert (REVISION.structured, REVISION.bad_arguments, REVISION.not_found_code) == ("any", "result", -32602)
    assert REVISION.result_type and REVISION.required_headers and REVISION.version_header
    assert not (REVISION.session_header or REVISION.resumable or REVISION.sse_polling or REVISION.batching)
    assert REVISION.progress_from == {"server"}
    assert REVISION.cancels == {"client", "server"}
    assert REVISION.cacheable <= REVISION.methods.keys()
    assert len(REVISION.cacheable) == 6


@pytest.mark.parametrize("method", sorted(PREVIOUS.methods.keys() - REVISION.methods.keys()))
def test_removed_methods_are_refused(method: str) -> None:
    for sender in ("client", "server"):
        with pytest.raises(ProtocolError) as caught:
            REVISION.accept(sender, method, {})
        assert caught.value.code == METHOD_NOT_FOUND


def test_the_additions_of_this_revision_are_accepted() -> None:
    assert REVISION.methods.keys() - PREVIOUS.methods.keys() == {
        "server/discover",
        "subscriptions/listen",
        "notifications/subscriptions/acknowledged",
    }
    wanted = SubscriptionFilter(tools_list_changed=True)
    params = {"notifications": {"toolsListChanged": True}}
    assert REVISION.accept("client", "subscriptions/listen", params) == ListenParams(wanted)
    assert set(REVISION.inputs) == {"sampling/createMessage", "elicitation/create", "roots/list"}


def test_clients_report_no_progress() -> None:
    params = {"progressToken": 1, "progress": 1}
    REVISION.accept("server", "notifications/progress", params)
    with pytest.raises(ProtocolError):
        REVISION.accept("client", "notifications/progress", params)


def test_retries_carry_answers_and_state() -> None:
    params = {"name": "a", "inputResponses": {"q": {"action": "accept"}}, "requestState": "s"}
    accepted = REVISION.accept("client", "tools/call", params)
    assert isinstance(accepted, CallToolParams)
    assert (accepted.input_responses, accepted.request_state) == ({"q": {"action": "accept"}}, "s")
    assert REVISION.emit(accepted) == params
    assert PREVIOUS.emit(accepted) == {"name": "a"}


def test_questions_lose_what_the_revision_does_not_know() -> None:
    question = ElicitParams("?", mode="url", url="https://a", elicitation_id="1", task=TaskMetadata(5), meta={"k": 1})
    asked = REVISION.emit(InputRequired({"q": ElicitRequest(question, extra={"x-new": 1})}))
    params = {"message": "?", "mode": "url", "url": "https://a"}
    assert asked["inputRequests"] == {"q": {"method": "elicitation/create", "params": params, "x-new": 1}}


def test_tasks_and_root_changes_went() -> None:
    assert REVISION.emit(Tool("a", {}, execution=ToolExecution("optional"))) == {
        "name": "a",
        "inputSchema": {},
    }
    capabilities = ClientCapabilities(roots=RootsCapability(list_changed=True), tasks={}, extensions={"a": {}})
    assert REVISION.emit(capabilities) == {"roots": {}, "extensions": {"a": {}}}
