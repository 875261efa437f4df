"""The diagrams of docs/architecture.md are up to date, and the page shows every one of them."""

import enum
import re
from pathlib import Path
from types import ModuleType

import pytest

from docs.diagrams import generate

PAGE = (generate.ROOT / "docs" / "architecture.md").read_text()
UPDATE = "run: python docs/diagrams/generate.py"


def test_every_committed_diagram_is_up_to_date() -> None:
    drawn = generate.diagrams()
    assert {path.name for path in generate.FOLDER.glob("*.svg")} == set(drawn), UPDATE
    for name, text in drawn.items():
        assert (generate.FOLDER / name).read_text() == text, f"{name}: {UPDATE}"


def test_the_page_shows_every_diagram() -> None:
    assert set(re.findall(r"!\[[^\]]+\]\(diagrams/([\w-]+\.svg)\)", PAGE)) == set(generate.diagrams())


def test_every_module_on_the_path_of_a_request_exists() -> None:
    for _, _, module, _ in generate.STEPS:
        path = generate.SOURCE / module.removesuffix("/*")
        assert path.is_dir() or path.with_suffix(".py").exists(), module


def test_every_object_of_a_call_is_a_class() -> None:
    source = "".join(path.read_text() for path in generate.SOURCE.rglob("*.py"))
    for name in generate.OBJECTS:
        assert len(re.findall(rf"^class {name}\b", source, re.MULTILINE)) == 1, name


def test_the_packages_are_those_of_the_import_contract() -> None:
    drawn = [name for row in generate.layers() for name in row]
    assert sorted(drawn) == sorted(path.parent.name for path in generate.SOURCE.glob("*/__init__.py"))
    assert set(generate.PURPOSES) == set(drawn)


class State(enum.Enum):
    """States of a machine to be drawn."""

    NEW = 1
    OPEN = 2
    CLOSED = 3


class Event(enum.Enum):
    """Events of that machine."""

    START = "the caller starts it"
    FAIL = "an error"
    RETRY = "the caller tries again"


FLAT = {
    (State.NEW, Event.START): State.OPEN,
    (State.NEW, Event.FAIL): State.CLOSED,
    (State.OPEN, Event.FAIL): State.CLOSED,
    (State.CLOSED, Event.RETRY): State.NEW,
}
NESTED = {
    State.NEW: {Event.START: State.OPEN, Event.FAIL: State.CLOSED},
    State.OPEN: {Event.FAIL: State.CLOSED},
    State.CLOSED: {Event.RETRY: State.NEW},
}
WITH_ACTIONS = {key: (target, "log it") for key, target in FLAT.items()}


@pytest.mark.parametrize("table", [FLAT, NESTED, WITH_ACTIONS], ids=["flat", "nested", "with actions"])
def test_a_table_of_any_form_is_read_as_the_same_machine(table: object) -> None:
    module = ModuleType("dovetail.sample", "Sample machine.\n\nMore about it.")
    vars(module).update(State=State, Event=Event, TRANSITIONS=table)
    machine = generate.machine_of(module)
    assert machine.title == "Sample machine"
    assert machine.states == ["new", "open", "closed"]
    assert machine.edges == {
        ("new", "open"): ["start"],
        ("new", "closed"): ["fail"],
        ("open", "closed"): ["fail"],
        ("closed", "new"): ["retry"],
    }
    assert machine.legend["fail"] == "an error"
    drawn = generate.draw_machine(machine)
    assert all(f">{word}</text>" in drawn for word in ("new", "open", "closed", "start", "fail", "retry"))


def test_an_event_that_leads_to_one_state_from_everywhere_is_listed_instead_of_drawn() -> None:
    module = ModuleType("dovetail.sample", "Sample machine. More about it.")
    table = FLAT | {(state, Event.FAIL): State.CLOSED for state in State}
    vars(module).update(State=State, Event=Event, TRANSITIONS=table)
    machine = generate.machine_of(module)
    assert machine.title == "Sample machine"
    assert machine.anywhere == {"fail": "closed"}
    assert set(machine.edges) == {("new", "open"), ("closed", "new")}
    assert "from every state: fail leads to closed" in generate.draw_machine(machine)


def test_a_module_with_a_table_of_transitions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "a_state.py").write_text("TRANSITIONS: dict = {}\n")
    (tmp_path / "client" / "other.py").write_text("x = 'TRANSITIONS'\n")
    monkeypatch.setattr(generate, "SOURCE", tmp_path)
    assert generate.machine_modules() == ["dovetail.client.a_state"]
    assert generate.file_of("dovetail.client.a_state") == "states-client-a-state.svg"
