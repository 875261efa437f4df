"""The journal of a call, and what its state is bound to."""

import pytest

from dovetail.protocol.mrtr import Journal, JournalEntry, JournalMismatch, digest, state_binding


def test_a_digest_names_what_is_said() -> None:
    assert digest("a", {"x": 1, "y": 2}) == digest("a", {"y": 2, "x": 1})
    assert digest("a", "b") != digest("ab")
    assert digest("a", 1) != digest("a", "1")


def test_what_is_asked_again_has_another_key() -> None:
    journal = Journal()
    assert [journal.key("q"), journal.key("q"), journal.key("other"), journal.key("q")] == ["q", "q.1", "other", "q.2"]


def test_each_branch_counts_its_own_occurrences() -> None:
    journal = Journal()
    keys = [journal.key("q"), journal.key("q", lane="a"), journal.key("q", lane="b"), journal.key("q", lane="a")]
    assert len(set(keys)) == 4
    again = Journal()
    assert [again.key("q", lane="b"), again.key("q", lane="a")] == [keys[2], keys[1]]


def test_a_key_by_hand_is_used_once_in_a_call() -> None:
    journal = Journal()
    assert journal.key("q", "mine", lane="a") == "mine"
    with pytest.raises(JournalMismatch, match="'mine' was used twice"):
        journal.key("other", "mine")


def test_an_answer_is_found_only_for_the_same_question() -> None:
    journal = Journal({"pay": JournalEntry("pay 10", "yes")})
    entry = journal.find("pay", "pay 10")
    assert entry is not None and entry.value == "yes"
    assert journal.find("else", "pay 10") is None
    with pytest.raises(JournalMismatch, match="'pay' was requested before"):
        journal.find("pay", "pay 1000")


def test_steps_are_not_input_responses() -> None:
    journal = Journal({"a": JournalEntry("a"), "b": JournalEntry("b", step=True)})
    assert journal.answers() == {"a"}


PARAMS = {"name": "book", "arguments": {"city": "Lima", "days": 3}}


@pytest.mark.parametrize(
    "other",
    [
        state_binding("bob", "tools/call", PARAMS),
        state_binding(None, "tools/call", PARAMS),
        state_binding("ann", "prompts/get", PARAMS),
        state_binding("ann", "tools/call", {**PARAMS, "name": "other"}),
        state_binding("ann", "tools/call", {**PARAMS, "arguments": {"city": "Lima", "days": 4}}),
        state_binding("ann", "tools/call", {"name": "book"}),
    ],
)
def test_a_state_is_bound_to_who_asks_for_what(other: bytes) -> None:
    assert state_binding("ann", "tools/call", PARAMS) != other


def test_the_fields_of_a_retry_are_not_part_of_the_binding() -> None:
    retry = {**PARAMS, "_meta": {"progressToken": 1}, "inputResponses": {"a": {}}, "requestState": "s"}
    assert state_binding("ann", "tools/call", retry) == state_binding("ann", "tools/call", PARAMS)
