"""What a person said before: what it is bound to, and how long it holds."""

import stat
from pathlib import Path

import msgspec
import pytest

from dovetail.policy.actions import Action
from dovetail.policy.rules import Policy, Rule
from dovetail.policy.user_decisions import ANSWERS_FILE, SavedAnswers
from dovetail.protocol.errors import LocalError

CALL = Action(kind="tool", server="files", name="write", definition="d1", launch="l1")


def verdict(remembered: SavedAnswers, action: Action = CALL, *rules: Rule) -> str:
    return Policy(rules).decide(action, remembered.answers(action)).verdict


def other(**changed: str) -> Action:
    return msgspec.structs.replace(CALL, **changed)


def test_an_answer_for_once_is_not_remembered(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    assert remembered.remember(CALL, "allow", "once") == "once"
    assert verdict(remembered) == "ask"
    assert not list(tmp_path.iterdir())


def test_an_answer_for_the_session_is_remembered_in_memory(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    remembered.remember(CALL, "allow", "session")
    assert verdict(remembered) == "allow"
    assert verdict(SavedAnswers(tmp_path)) == "ask"


def test_an_answer_for_always_holds_in_every_process(tmp_path: Path) -> None:
    before = SavedAnswers(tmp_path)
    assert verdict(before) == "ask"
    SavedAnswers(tmp_path).remember(CALL, "allow", "always")
    assert verdict(before) == "allow"
    assert before.answers(CALL)[0].origin == "answered for always"
    assert stat.S_IMODE((tmp_path / ANSWERS_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("hold", ["session", "always"])
@pytest.mark.parametrize(
    "changed",
    [{"definition": "d2"}, {"launch": "l2"}, {"server": "other"}, {"name": "write2"}, {"kind": "prompt"}],
)
def test_a_yes_is_bound_to_definition_and_launch(tmp_path: Path, hold: str, changed: dict[str, str]) -> None:
    remembered = SavedAnswers(tmp_path)
    remembered.remember(CALL, "allow", "session" if hold == "session" else "always")
    assert not [rule for rule in remembered.answers(other(**changed)) if rule.matches(other(**changed))]


def test_a_no_holds_for_changed_definitions_too(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    remembered.remember(CALL, "deny", "always")
    assert verdict(remembered, other(definition="d2"), Rule("allow", tool="*")) == "deny"
    assert verdict(remembered, other(launch="l2")) == "ask"


@pytest.mark.parametrize("unknown", ["definition", "launch"])
def test_a_yes_to_what_is_not_known_holds_for_the_session_at_most(tmp_path: Path, unknown: str) -> None:
    action = msgspec.structs.replace(CALL, **{unknown: None})
    remembered = SavedAnswers(tmp_path)
    assert remembered.remember(action, "allow", "always") == "session"
    assert verdict(remembered, action) == "allow"
    assert verdict(SavedAnswers(tmp_path), action) == "ask"


def test_the_name_of_a_tool_is_no_pattern(tmp_path: Path) -> None:
    """A tool may be called `*`."""
    remembered = SavedAnswers(tmp_path)
    remembered.remember(other(name="*", server="*"), "allow", "always")
    assert verdict(remembered) == "ask"
    assert verdict(remembered, other(name="*", server="*")) == "allow"


def test_the_newer_answer_takes_the_place_of_the_older(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    remembered.remember(CALL, "deny", "always")
    remembered.remember(CALL, "allow", "always")
    assert verdict(remembered) == "allow"
    assert len(remembered.always()) == 1


def test_a_deny_of_the_policy_outweighs_it(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    remembered.remember(CALL, "allow", "always")
    assert verdict(remembered, CALL, Rule("deny", tool="write")) == "deny"


def test_forgetting(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    for name in ("a", "b"):
        remembered.remember(other(name=name), "allow", "always")
        remembered.remember(other(name=name), "allow", "session")
    remembered.forget("files", "a")
    assert (verdict(remembered, other(name="a")), verdict(remembered, other(name="b"))) == ("ask", "allow")
    remembered.forget("files")
    assert verdict(remembered, other(name="b")) == "ask"


def test_answers_to_other_questions(tmp_path: Path) -> None:
    remembered = SavedAnswers(tmp_path)
    roots = Action(kind="roots", server="files", launch="l1")
    assert remembered.remember(roots, "allow", "always") == "always"
    assert verdict(remembered, roots) == "allow"
    assert verdict(remembered, msgspec.structs.replace(roots, launch="l2")) == "ask"


def test_a_damaged_file_is_an_error_that_names_it_and_no_yes(tmp_path: Path) -> None:
    (tmp_path / ANSWERS_FILE).write_text("[{")
    with pytest.raises(LocalError, match=r"answers\.json cannot be read .* remove it to begin anew"):
        SavedAnswers(tmp_path).answers(CALL)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="cannot be made"):
        SavedAnswers(tmp_path / "file").remember(CALL, "allow", "always")
