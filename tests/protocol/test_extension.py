"""Extensions: how one is named, what it brings, and that two of them do not get in each other's way."""

from typing import Any

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.protocol.extension import Extension, Extensions


async def answer(params: dict[str, Any], context: Any) -> dict[str, Any]:
    return params


def take(params: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("id", ["com.example/notes", "io.modelcontextprotocol/tasks", "a/b", "x-y.z9/n_1.2-3"])
def test_an_id_has_a_prefix_and_a_name(id: str):
    assert Extension(id=id).id == id


@pytest.mark.parametrize(
    "id",
    [
        "", "notes", "/notes", "com.example/", "1com/notes", "com-/notes", "com..example/n", "com/-n",
        "com/n-", "com/n\n", "com example/n", "a/b/c",
    ],
)  # fmt: skip
def test_anything_else_is_refused(id: str):
    with pytest.raises(LocalError, match="needs a prefix and a name"):
        Extension(id=id)


def test_an_extension_may_bring_nothing_but_its_name():
    bare = Extensions([Extension(id="com.example/bare")])
    assert bare.declared == {"com.example/bare": {}}
    assert (bare.requests, bare.notifications, bare.result_types) == ({}, {}, {})


def test_handlers_of_extensions_are_found_by_name():
    notes = Extension(
        id="com.example/notes",
        settings={"max": 3},
        requests={"notes/list": answer},
        notifications={"notifications/notes/changed": take},
        result_types=frozenset({"note"}),
    )
    found = Extensions((notes, Extension(id="com.example/other", requests={"other/do": answer})))
    assert found.declared == {"com.example/notes": {"max": 3}, "com.example/other": {}}
    assert found.requests["notes/list"] == ("com.example/notes", answer)
    assert found.requests["other/do"] == ("com.example/other", answer)
    assert found.notifications == {"notifications/notes/changed": take}
    assert found.result_types == {"note": "com.example/notes"}


def test_the_settings_declared_are_a_copy():
    settings = {"max": 3}
    found = Extensions([Extension(id="com.example/notes", settings=settings)])
    settings["max"] = 4
    assert found.declared == {"com.example/notes": {"max": 3}}


def test_an_extension_is_given_once():
    with pytest.raises(LocalError, match="is given twice"):
        Extensions([Extension(id="com.example/notes"), Extension(id="com.example/notes")])


@pytest.mark.parametrize(
    "brings",
    [{"requests": {"do": answer}}, {"notifications": {"do": take}}, {"result_types": frozenset({"do"})}],
)
def test_two_extensions_cannot_bring_the_same(brings: dict[str, Any]):
    with pytest.raises(LocalError, match="/b adds 'do', which another extension has"):
        Extensions([Extension(id="com.example/a", **brings), Extension(id="com.example/b", **brings)])


def test_extensions_negotiate_no_handlers_by_themselves():
    assert Extensions([]).declared == {}
