"""Docstrings in the three common styles."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.server.signatures.docstring import parse

GOOGLE = """Find flights.

More about it: quite a lot.

Args:
    origin (str): where from,
        in capital letters
    to: where to
    **options: the rest

    days (int, optional):
        how many
Returns:
    A list: of flights.
"""
SPHINX = """Find flights.

More about it: quite a lot.

:param origin: where from,
    in capital letters
:type origin: str
:param str to: where to
:param days: how many
:param options: the rest
:returns: A list.
"""
NUMPY = """Find flights.

More about it: quite a lot.

Parameters
----------
origin : str
    where from,
    in capital letters
to, via
    where to
days : int, optional
    how many
**options
    the rest

Returns
-------
list
    Flights.
"""


@pytest.mark.parametrize("doc", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_parameters_are_taken_out(doc):
    text, parameters = parse(inspect.cleandoc(doc))
    assert parameters["origin"] == "where from, in capital letters"
    assert parameters["to"] == "where to"
    assert parameters["days"] == "how many"
    assert parameters["options"] == "the rest"
    assert text.startswith("Find flights.\n\nMore about it: quite a lot.")
    assert "where from" not in text
    assert "eturns" in text


def test_names_may_share_a_description():
    assert parse(inspect.cleandoc(NUMPY)).parameters["via"] == "where to"


@pytest.mark.parametrize("doc", [None, "", "  "])
def test_a_missing_docstring_is_empty(doc):
    assert parse(doc) == ("", {})


def test_plain_text_stays_as_it_is():
    assert parse("One.\n\nTwo: three.") == ("One.\n\nTwo: three.", {})


def test_a_section_without_entries():
    assert parse("One.\n\nArgs:\n\nMore.") == ("One.\n\nMore.", {})


@given(st.text(alphabet=":- \nabArgs*_(", max_size=200))
def test_any_docstring_is_parsed_without_an_error(text):
    found = parse(text)
    assert isinstance(found.text, str)
    assert all(isinstance(value, str) for value in found.parameters.values())
