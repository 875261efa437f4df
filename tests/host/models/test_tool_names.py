"""Names that providers take."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dovetail.host.models.tool_names import ToolNames, sent_name

names = st.text(min_size=0, max_size=150) | st.from_regex(r"\A[A-Za-z0-9_.-]{1,128}\Z")


@given(st.lists(names, unique=True))
def test_every_name_fits_is_steady_and_comes_back(given_names: list[str]) -> None:
    sent = [sent_name(name) for name in given_names]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in sent)
    assert sent == [sent_name(name) for name in given_names]
    known = ToolNames(given_names)
    assert [known.original(name) for name in sent] == given_names


def test_good_names_stay_and_invented_ones_too() -> None:
    assert sent_name("weather__get-forecast_2") == "weather__get-forecast_2"
    assert ToolNames(["a"]).original("made_up") == "made_up"
