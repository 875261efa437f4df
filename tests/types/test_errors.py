from dovetail.protocol import errors as protocol_errors
from dovetail.types import errors


def test_the_error_tree_of_the_protocol_grows_from_these_classes() -> None:
    assert protocol_errors.DovetailError is errors.DovetailError
    assert protocol_errors.LocalError is errors.LocalError
    assert issubclass(errors.LocalError, errors.DovetailError)


def test_a_missing_extra_is_an_error_that_says_how_to_install_it() -> None:
    problem = errors.missing_extra("http", "Serving over HTTP")
    assert isinstance(problem, errors.LocalError)
    assert str(problem) == (
        "Serving over HTTP needs the extra http: "
        "pip install 'dovetail-mcp[http]' (from a checkout: pip install '.[http]')"
    )
