"""Files that `envFile` names."""

import pytest

from dovetail.config.env_file import EnvFileError, parse_env


def test_values_and_their_lines() -> None:
    text = (
        '\ufeff# notes\n\nA=1\r\n export B = two words # note\nC=\'$kept \\n\'\nD="a\\nb\\"" # note\nE=\nF=a#b\nA=2\n'
    )
    assert parse_env(text) == {
        "A": ("2", 9),
        "B": ("two words", 4),
        "C": ("$kept \\n", 5),
        "D": ('a\nb"', 6),
        "E": ("", 7),
        "F": ("a#b", 8),
    }


def test_a_value_in_quotes_goes_on_over_lines() -> None:
    key = "-----BEGIN KEY-----\nabc=\ndef==\n-----END KEY-----"
    for quote in "\"'`":
        text = f"A={quote}{key}{quote} # a key\r\nB=1\n"
        assert parse_env(text) == {"A": (key, 1), "B": ("1", 5)}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"C:\\Users\\temp"', "C:\\Users\\temp"),
        ('"C:\\\\new"', "C:\\new"),
        ("# nothing", ""),
        ("`a 'b' c`", "a 'b' c"),
        ("a\u2028b\x0cc", "a\u2028b\x0cc"),
        ("it's", "it's"),
        ("${KEPT}", "${KEPT}"),
    ],
)
def test_odd_values(written: str, value: str) -> None:
    assert parse_env(f"A={written}\n") == {"A": (value, 1)}


@pytest.mark.parametrize("line", ['A="x', "A='x", 'A="x" y', "nothing", "=1", "1A=2", "A B=1"])
def test_a_line_that_is_none(line: str) -> None:
    with pytest.raises(EnvFileError) as caught:
        parse_env(f"A=1\n{line}\n")
    assert caught.value.line == 2
