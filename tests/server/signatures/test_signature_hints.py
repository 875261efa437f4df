"""Every kind of hint becomes a valid schema that agrees with what binding accepts and results give."""

from __future__ import annotations

import math
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.server.signatures.signature import BadArguments, BadResult
from tests.server.signatures.hint_samples import HINTS, NAMES, Account, Holder, Model, check_schema, giving, taking


def accepts(binding, value):
    try:
        binding.bind({"x": value})
    except BadArguments:
        return False
    return True


@pytest.mark.parametrize(("hint", "good", "bad"), HINTS, ids=NAMES)
def test_every_hint_takes_what_its_schema_says(hint, good, bad):
    binding = taking(hint)
    validator = check_schema(binding.input_schema)
    for value in good:
        assert validator.is_valid({"x": value}), value
        assert accepts(binding, value), value
    for value in bad:
        assert not validator.is_valid({"x": value}), value
        assert not accepts(binding, value), value


@pytest.mark.parametrize(("hint", "good", "bad"), HINTS, ids=NAMES)
def test_every_hint_gives_what_its_schema_says(hint, good, bad):
    binding = giving(hint)
    if hint in (Any, object, None):
        assert binding.output_schema is None
        return
    validator = check_schema(binding.output_schema)
    for value in good:
        made = taking(hint).bind({"x": value})["x"]
        plain = binding.check_result(made)
        assert validator.is_valid(plain), plain
        assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    for value in [*bad, math.nan]:
        # NaN travels as null, which some of the hints allow.
        if validator.is_valid(None if value is math.nan else value) or isinstance(value, str):
            continue
        with pytest.raises(BadResult):
            binding.check_result(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.floats(-3, 3).map(lambda f: round(f, 1))
    | st.sampled_from(["", "a", "b", "red", "1", "x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "x", "y", "1", "title", "center", "radius", "red"]), inner,
                      max_size=3),
    max_leaves=5,
)  # fmt: skip
# Formats say more than a JSON Schema validator checks, and pydantic takes more than it shows.
EXACT = [
    taking(hint) for hint, _, _ in HINTS
    if not any(word in str(hint) for word in ("date", "time", "UUID", "Decimal", "bytes", "pydantic", "Path"))
    and hint not in (Model, Holder, Account, Model | None, list[Model])
]  # fmt: skip


@given(st.sampled_from(EXACT), JSON)
@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_binding_and_schema_agree_on_any_value(binding, value):
    schema_says = jsonschema_rs.Draft202012Validator(binding.input_schema).is_valid({"x": value})
    assert accepts(binding, value) == schema_says, (binding.input_schema, value)
