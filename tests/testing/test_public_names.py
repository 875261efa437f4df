"""The names of `dovetail.testing`."""

import pkgutil

import pytest

from dovetail import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(testing, name).__module__.startswith("dovetail.testing.") or name == "Interface"
    assert name in dir(testing)


def test_the_names_are_sorted_and_no_module_hides_one() -> None:
    assert list(testing.__all__) == sorted(set(testing.__all__))
    modules = {module.name for module in pkgutil.iter_modules(testing.__path__)}
    assert not set(testing.__all__) & modules, "the import of such a module would replace the name by the module"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(testing, "nonsense")  # noqa: B009
