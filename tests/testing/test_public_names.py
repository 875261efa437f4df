"""The names of `dovetail.testing`."""

import pytest

from dovetail import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(testing, name).__module__.startswith("dovetail.testing.") or name == "Interface"
    assert name in dir(testing)


def test_the_names_are_sorted_and_no_module_hides_one() -> None:
    assert list(testing.__all__) == sorted(set(testing.__all__))
    assert not set(testing.__all__) & set(testing._HOMES.values())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(testing, "nonsense")  # noqa: B009
