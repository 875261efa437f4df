"""Which model answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.host.models.contract import Model, Traits
from dovetail.host.models.scripted import ScriptedModel
from dovetail.host.models.select_model import find_model, select_model
from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import ModelHint, ModelPreferences


def model(name: str, cheap: float = 0.5, fast: float = 0.5, clever: float = 0.5) -> Model:
    return ScriptedModel([], name=name, traits=Traits(cheap=cheap, fast=fast, clever=clever))


BIG = model("claude-opus-9", cheap=0.1, fast=0.3, clever=1.0)
SMALL = model("claude-haiku-9", cheap=0.9, fast=0.9, clever=0.4)
LOCAL = model("qwen", cheap=1.0, fast=0.2, clever=0.3)
ALL = [BIG, SMALL, LOCAL]


def hints(*names: str | None) -> list[ModelHint]:
    return [ModelHint(name=name) for name in names]


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        (None, BIG),
        (ModelPreferences(), BIG),
        (ModelPreferences(hints=hints("haiku")), SMALL),
        (ModelPreferences(hints=hints("gpt", "QWEN", "haiku")), LOCAL),
        (ModelPreferences(hints=hints(None, "", "haiku")), SMALL),
        (ModelPreferences(hints=hints("nothing like it")), BIG),
        (ModelPreferences(cost_priority=1), LOCAL),
        (ModelPreferences(speed_priority=1), SMALL),
        (ModelPreferences(intelligence_priority=1, cost_priority=0.1), BIG),
        (ModelPreferences(intelligence_priority=0.1, cost_priority=0.5, speed_priority=0.5), SMALL),
        (ModelPreferences(hints=hints("claude"), cost_priority=1), SMALL),
        (ModelPreferences(hints=hints("claude"), intelligence_priority=1), BIG),
        (ModelPreferences(hints=hints("nothing"), cost_priority=1), LOCAL),
        (ModelPreferences(cost_priority=float("nan"), speed_priority=1), SMALL),
        (ModelPreferences(cost_priority=float("nan"), intelligence_priority=float("inf")), BIG),
        (ModelPreferences(cost_priority=-5, speed_priority=0), BIG),
        (ModelPreferences(cost_priority=1000, intelligence_priority=1), SMALL),
    ],
)
def test_hints_come_first_and_priorities_decide_the_rest(wishes: ModelPreferences | None, expected: Model) -> None:
    assert select_model(ALL, wishes) is expected


def test_without_models_there_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LocalError, match="models="):
        select_model([])


def test_a_model_that_a_person_names_is_that_one_or_an_error() -> None:
    assert find_model(ALL, "haiku") is SMALL
    with pytest.raises(LocalError, match=r"no model 'gpt'.*claude-opus-9, claude-haiku-9, qwen"):
        find_model(ALL, "gpt")
    with pytest.raises(LocalError, match="none"):
        find_model([], "gpt")


levels = st.none() | st.floats(min_value=0, max_value=1)


@given(levels, levels, levels, st.lists(st.sampled_from(["claude", "qwen", "x", ""]), max_size=3))
def test_the_same_wishes_have_the_same_answer(
    cost: float | None, speed: float | None, mind: float | None, names: list[str]
) -> None:
    wishes = ModelPreferences(hints=hints(*names), cost_priority=cost, speed_priority=speed, intelligence_priority=mind)
    chosen = select_model(ALL, wishes)
    assert chosen is select_model(ALL, wishes)
    fitting = next((name for name in names if name in ("claude", "qwen")), "")
    assert fitting in chosen.name
