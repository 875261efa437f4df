"""`dovetail.host` and `dovetail.policy` as users import them: every public name is there, and none costs an import."""

import subprocess
import sys

import pytest

import dovetail.host
import dovetail.policy


@pytest.mark.parametrize("package", [dovetail.host, dovetail.policy])
def test_every_name_of_a_facade_is_found_in_its_module(package: object) -> None:
    names: list[str] = getattr(package, "__all__")  # noqa: B009  # the module is typed as an object
    assert names == sorted(names)
    assert all(getattr(package, name) is not None for name in names)
    assert set(dir(package)) == set(names)


def test_a_name_that_a_facade_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"dovetail\.policy.*no_such_name"):
        dovetail.policy.no_such_name  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@pytest.mark.parametrize("package", ["dovetail.host", "dovetail.policy"])
def test_importing_a_facade_imports_none_of_its_modules(package: str) -> None:
    program = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
