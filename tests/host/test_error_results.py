"""What goes wrong with a call, in words for a model."""

import pytest

from dovetail.host.error_results import MAX_WORDS, RefusedResult, error_result
from dovetail.protocol.errors import ConnectionLost, DovetailError, LocalError, Refused, RemoteError, Timeout


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (Refused("The user refused"), "Do not try this again"),
        (Timeout("No answer"), "nobody knows"),
        (ConnectionLost("gone"), "It was not repeated"),
        (RemoteError(-32603, "broken"), "broken (code -32603)"),
        (LocalError("There is no tool"), "There is no tool"),
    ],
)
def test_each_says_what_happened(problem: DovetailError, told: str) -> None:
    result = error_result(problem)
    assert result.is_error
    assert told in result.text
    assert isinstance(result, RefusedResult) is isinstance(problem, Refused)


def test_a_servers_own_words_are_cleaned_and_cut() -> None:
    result = error_result(RemoteError(1, "\x1b[31m" + "x" * 100_000))
    assert "\x1b" not in result.text
    assert len(result.text) <= MAX_WORDS
