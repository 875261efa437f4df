"""`${…}` in values."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.config.variables import UnresolvedVariable, VariableScope, expand, input_names

AROUND = VariableScope({"NAME": "Ann", "EMPTY": "", "SLY": "x${input:token}"}, "/home/ann", "/projects/inn")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain $NAME $ {NAME} }", "plain $NAME $ {NAME} }"),
        ("${NAME}", "Ann"),
        ("${env:NAME}!", "Ann!"),
        ("${NAME:-Bob}", "Ann"),
        ("${NOBODY:-Bob}", "Bob"),
        ("${env:NOBODY:-Bob}", "Bob"),
        ("${NOBODY:-}", ""),
        ("${NOBODY:-http://x:1/}", "http://x:1/"),
        ("${EMPTY}${EMPTY:-Bob}", ""),
        ("${workspaceFolder}/a", "/projects/inn/a"),
        ("${workspaceFolderBasename}", "inn"),
        ("${userHome}", "/home/ann"),
        ("a${pathSeparator}b${/}c", f"a{os.sep}b{os.sep}c"),
        ("Bearer ${input:token}", "Bearer ${input:token}"),
        ("${NAME}${NAME}", "AnnAnn"),
    ],
)
def test_filled_in(text: str, filled: str) -> None:
    assert expand(text, AROUND) == filled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NOBODY}", "NOBODY is not set"),
        ("a ${env:NOBODY} b", r"\$\{env:NOBODY\} has no value: set the environment variable NOBODY"),
        ("${command:pick}", "only VS Code"),
        ("${config:a.b}", "only VS Code"),
        ("${workspaceFolder:other}", "only one workspace"),
        ("${what:ever}", "nobody here knows"),
        ("${}", "names no variable"),
        ("${a b}", "names no variable"),
        ("${env:}", "names no variable"),
        ("${NAME", "not closed"),
        ("${NOBODY:-${NAME}}", "inside of another"),
        ("${SLY}", "SLY holds"),
    ],
)
def test_what_cannot_be_filled_in_is_never_passed_on(text: str, words: str) -> None:
    with pytest.raises(UnresolvedVariable, match=words):
        expand(text, AROUND)


@given(st.text(st.sampled_from("${}:-/NAMEinputev a"), max_size=20))
def test_expansion_leaves_only_references_to_inputs(text: str) -> None:
    try:
        filled = expand(text, AROUND)
    except UnresolvedVariable:
        return
    assert filled.count("${") == len(input_names(filled)) == len(input_names(text))
