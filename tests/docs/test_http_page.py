"""The table of options in docs/http.md names each option there is, with its default."""

import ast
from pathlib import Path

import pytest

from dovetail.server.http.options import AsgiOptions, Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text()
TABLE = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
ROWS = {
    cells[0].strip("`"): cells[1]
    for line in TABLE.splitlines()
    if line.startswith("| `") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
}


def test_every_option_is_there() -> None:
    assert set(ROWS) == set(AsgiOptions.__annotations__)


@pytest.mark.parametrize("option", ROWS)
def test_the_default_is_right(option: str) -> None:
    default, said = getattr(Settings(), option), ROWS[option]
    if default is None and not said.startswith("`"):
        assert said  # words for what is chosen where nothing is given
    else:
        assert ast.literal_eval(said.strip("`")) == default
