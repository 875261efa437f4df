"""What a revision does with messages, whatever its date."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RemoteError
from dovetail.protocol.revisions import NEWEST, NEWEST_HANDSHAKE, REVISIONS, Method, Revision
from dovetail.types.base import EmptyParams, Result
from dovetail.types.capabilities import ClientCapabilities, ServerCapabilities
from dovetail.types.client_features import ElicitResult, InputRequired, ListRootsResult
from dovetail.types.content import Text
from dovetail.types.messages import DiscoverResult
from dovetail.types.serialization import Value, dump, load
from dovetail.types.tasks import CreateTaskResult, Task
from dovetail.types.tools import CallToolParams, CallToolResult, ListToolsResult, Tool
from tests.types.samples import copy, full, kinds, nodes

each_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=repr)
OLDEST = next(iter(REVISIONS.values()))


@each_revision
def test_a_call_is_accepted_with_typed_params(revision: Revision) -> None:
    params = revision.accept("client", "tools/call", {"name": "add", "arguments": {"a": 1}, "x": 1})
    assert params == CallToolParams("add", {"a": 1}, extra={"x": 1})


@each_revision
@pytest.mark.parametrize(
    ("sender", "method"),
    [("client", "no/such"), ("server", "tools/call"), ("client", "notifications/message")],
)
def test_methods_of_the_other_side_are_refused(revision: Revision, sender: Any, method: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        revision.accept(sender, method, {})
    assert caught.value.code == METHOD_NOT_FOUND
    assert method in caught.value.message


@each_revision
def test_params_that_do_not_fit_are_named(revision: Revision) -> None:
    with pytest.raises(ProtocolError) as caught:
        revision.accept("client", "tools/call", {"name": 5})
    assert caught.value.code == INVALID_PARAMS
    assert "$.name" in caught.value.message


def test_both_sides_may_send_some_methods() -> None:
    assert OLDEST.accept("client", "ping", {}) == OLDEST.accept("server", "ping", {}) == EmptyParams()


@each_revision
def test_only_known_fields_are_sent_and_extras_survive(revision: Revision) -> None:
    for kind in kinds():
        known = revision.known.get(kind.__name__)
        if known is not None and kind not in (CallToolResult,):
            value = full(kind)
            value.extra = {"x-new": 1}
            plain = revision.emit(value)
            assert plain.keys() <= known | {"x-new"}, kind
            assert plain["x-new"] == 1


@pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE, NEWEST], ids=repr)
@given(kind=st.sampled_from(kinds()), data=st.data())
def test_unknown_fields_survive_at_every_depth(revision: Revision, kind: type[Value], data: st.DataObject) -> None:
    value = full(kind)
    plain = copy(dump(value))
    spots = list(nodes(value, plain))
    for number in data.draw(st.sets(st.integers(0, len(spots) - 1))):
        spots[number][1][f"x-{number}"] = number
    expected = copy(revision.emit(value))
    loaded = load(kind, plain)
    for node, obj in nodes(loaded, expected):
        obj.update(node.extra)
    assert revision.emit(loaded) == expected


@each_revision
def test_extensions_and_experimental_travel_on_every_revision(revision: Revision) -> None:
    plain = {"extensions": {"io.example/a": {"b": 1}}, "experimental": {"c": {}}}
    for kind in (ClientCapabilities, ServerCapabilities):
        assert revision.emit(load(kind, plain)) == plain


@each_revision
def test_types_a_revision_does_not_name_are_written_whole(revision: Revision) -> None:
    class Foreign(Value):
        some_field: int

    assert revision.emit(Foreign(1, meta={"a": 1})) == {"someField": 1, "_meta": {"a": 1}}


def test_results_are_stamped_where_the_revision_says_so() -> None:
    tools = ListToolsResult([Tool("a", {"type": "object"})])
    plain = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
    assert NEWEST_HANDSHAKE.emit_result("tools/list", tools) == plain
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert NEWEST.emit_result("tools/list", tools) == {**plain, **stamp}
    assert NEWEST.emit_result("tools/call", CallToolResult([])) == {"content": [], "resultType": "complete"}
    assert NEWEST.emit_result("subscriptions/listen", Result()) == {"resultType": "complete"}


def test_a_stamp_never_overrules_the_value() -> None:
    given_hints = ListToolsResult([], ttl_ms=5, cache_scope="public")
    assert NEWEST.emit_result("tools/list", given_hints)["ttlMs"] == 5
    assert NEWEST.emit_result("tools/list", given_hints)["cacheScope"] == "public"
    assert NEWEST.emit_result("tools/list", Result(result_type="other")) == {"resultType": "other"}
    assert NEWEST_HANDSHAKE.emit_result("tools/list", given_hints) == {"tools": []}


def test_an_interim_result_is_not_cacheable() -> None:
    asked = NEWEST.emit_result("resources/read", InputRequired(state="s"))
    assert asked == {"resultType": "input_required", "requestState": "s"}


def test_an_answer_within_a_round_is_not_stamped() -> None:
    assert NEWEST.emit_result("elicitation/create", ElicitResult("cancel")) == {"action": "cancel"}
    assert NEWEST.emit_result("roots/list", ListRootsResult([])) == {"roots": []}


@each_revision
def test_a_result_is_read_as_the_method_says(revision: Revision) -> None:
    result = revision.load_result("tools/call", {"content": [{"type": "text", "text": "a"}], "resultType": "complete"})
    assert isinstance(result, CallToolResult)
    assert result.content == [Text("a")]


def test_an_answer_that_asks_back_is_read_as_such() -> None:
    plain = {"resultType": "input_required", "requestState": "s"}
    assert NEWEST.load_result("tools/call", plain) == InputRequired(state="s")
    assert isinstance(NEWEST_HANDSHAKE.load_result("tools/call", {**plain, "content": []}), CallToolResult)


def test_an_answer_within_a_round_is_read_by_its_question() -> None:
    assert NEWEST.load_result("elicitation/create", {"action": "decline"}) == ElicitResult("decline")
    assert NEWEST.load_result("roots/list", {"roots": []}) == ListRootsResult([])


def test_a_task_in_place_of_a_result() -> None:
    plain = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttl": 5}
    expected = CreateTaskResult(Task("1", "working", "a", "b", 5))
    for method in ("tools/call", "sampling/createMessage", "elicitation/create"):
        assert NEWEST_HANDSHAKE.load_result(method, {"task": plain}) == expected
    assert isinstance(OLDEST.load_result("tools/call", {"task": plain}), CallToolResult)


@pytest.mark.parametrize(
    ("method", "obj", "words"),
    [
        ("tools/call", {"content": 5}, r"Invalid result of tools/call.*\$\.content"),
        ("tools/call", [], "Invalid result of tools/call"),
        ("tools/call", {"resultType": "riddle", "content": []}, "'riddle' is unknown"),
        ("tools/call", {"resultType": 5, "content": []}, "5 is unknown"),
        ("tools/call", {"resultType": [], "content": []}, r"\[\] is unknown"),
    ],
)
def test_a_result_that_does_not_fit_is_the_peers_fault(method: str, obj: object, words: str) -> None:
    with pytest.raises(RemoteError, match=words) as caught:
        NEWEST.load_result(method, obj)
    assert caught.value.code == INTERNAL_ERROR


@pytest.mark.parametrize("method", ["no/such", "notifications/message"])
def test_a_result_of_a_notification_is_refused(method: str) -> None:
    with pytest.raises(RemoteError, match="has no result") as caught:
        NEWEST.load_result(method, {})
    assert caught.value.code == METHOD_NOT_FOUND


def test_evolving_adds_takes_away_and_leaves_the_old_one_alone() -> None:
    def methods(revision: Revision) -> set[str]:
        return set(revision.methods)

    new = NEWEST.evolve(
        name="later",
        methods=[Method("tasks/get", "client", EmptyParams, Result)],
        without_methods=["tools/list"],
        fields={"Tool": "taste smell", "Fresh": "a"},
        without_fields={"Tool": "icons"},
        without_types=["Icon"],
        structured="absent",
    )
    assert methods(new) - methods(NEWEST) == {"tasks/get"}
    assert methods(NEWEST) - methods(new) == {"tools/list"}
    assert new.known["Tool"] - NEWEST.known["Tool"] == {"taste", "smell"}
    assert NEWEST.known["Tool"] - new.known["Tool"] == {"icons"}
    assert new.known["Fresh"] == {"a"}
    assert "Icon" not in new.known
    assert (new.name, new.structured, NEWEST.structured) == ("later", "absent", "any")
    assert "structuredContent" in NEWEST.emit(CallToolResult([], 1))
    assert new.accept("client", "tasks/get", {}) == EmptyParams()
    assert repr(new) == "<Revision later>"


def test_evolving_adapts_by_the_new_rules() -> None:
    strict = NEWEST.evolve(structured="object", content_types=frozenset({"text", "resource"}))
    plain = strict.emit(CallToolResult([], [1]))
    assert plain["structuredContent"] == {"result": [1]}


def test_evolving_knows_its_attributes() -> None:
    with pytest.raises(TypeError, match="no_such"):
        NEWEST.evolve(no_such=True)


def test_a_revision_cannot_be_changed_and_can_be_a_key() -> None:
    with pytest.raises(AttributeError):
        NEWEST.batching = True  # pyright: ignore[reportAttributeAccessIssue]
    assert {NEWEST: 1}[NEWEST] == 1


def test_an_extension_may_add_an_outcome() -> None:
    with_tasks = NEWEST.evolve(outcomes={**NEWEST.outcomes, "task": CreateTaskResult})
    plain = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "ttl": 5}
    loaded = with_tasks.load_result("tools/call", {"resultType": "task", "task": plain})
    assert isinstance(loaded, CreateTaskResult)


def test_absent_fields_stay_absent() -> None:
    discovered = DiscoverResult(["v"], ServerCapabilities())
    assert NEWEST.emit(discovered) == {"supportedVersions": ["v"], "capabilities": {}}
    assert load(CallToolResult, {}).structured_content is msgspec.UNSET
