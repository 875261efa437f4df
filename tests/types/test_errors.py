from dovetail.protocol import errors as protocol_errors
from dovetail.types import errors


def test_the_error_tree_of_the_protocol_grows_from_these_classes() -> None:
    assert protocol_errors.DovetailError is errors.DovetailError
    assert protocol_errors.LocalError is errors.LocalError
    assert issubclass(errors.LocalError, errors.DovetailError)
