"""Suggestions in the order in which they fit."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.text.rank import rank_values


def test_the_best_fit_comes_first():
    values = ["ruby", "happy", "cpython", "my-py", "PyPy", "python", "py", "pretty"]
    assert rank_values(values, "py") == ["py", "python", "PyPy", "my-py", "happy", "cpython", "pretty", "ruby"]


def test_case_decides_only_between_equals():
    assert rank_values(["Python", "python"], "py") == ["python", "Python"]
    assert rank_values(["happy", "PYTHON"], "py") == ["PYTHON", "happy"]


def test_equals_stay_in_the_order_given():
    assert rank_values(["pyc", "pyb", "pya"], "py") == ["pyc", "pyb", "pya"]


def test_nothing_typed_changes_nothing():
    assert rank_values(["b", "a", "b"], "") == ["b", "a"]


@given(st.lists(st.text(max_size=6)), st.text(max_size=4))
def test_each_value_stays_and_comes_once(values: list[str], typed: str):
    found = rank_values(iter(values), typed)
    assert sorted(found) == sorted(set(values))
    if typed and typed in values:
        assert found[0].casefold() == typed.casefold()
