"""The grammar of URI templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.uri_template.syntax import Expression, parse


def test_literals_and_expressions_alternate():
    before, expression, after = parse("a/{+b*,c:3}/d")
    assert (before, after) == ("a/", "/d")
    assert isinstance(expression, Expression)
    assert expression.operator == "+"
    assert [(v.name, v.exploded, v.length) for v in expression.variables] == [("b", True, 0), ("c", False, 3)]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{a", "not closed"),
        ("a}", "'}' is not allowed outside braces"),
        ("{}", "no variable name"),
        ("{a,}", "no variable name"),
        ("{a b}", "no modifier"),
        ("{a:0}", "no modifier"),
        ("{a:99999}", "no modifier"),
        ("{a**}", "no modifier"),
        ("{=a}", "reserved"),
        ("{a,a}", "twice"),
        ("a b", "is not allowed outside braces"),
        ("50%", "is not allowed outside braces"),
        ("x" * 3000, "more than 2000"),
        ("{a}" * 40, "more than 32"),
    ],
)
def test_a_refusal_says_what_is_wrong(template, said):
    with pytest.raises(ValueError, match=said):
        parse(template)


@given(st.text(alphabet="{}abc+#./;?&*:,%12 ", max_size=40))
def test_any_text_is_parsed_or_refused(text):
    try:
        parts = parse(text)
    except ValueError:
        return
    assert all(isinstance(part, (str, Expression)) for part in parts)
