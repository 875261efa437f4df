"""The table of options in docs/http.md lists every option with its default."""

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


def test_the_table_lists_every_option() -> None:
    assert set(ROWS) == set(AsgiOptions.__annotations__)


@pytest.mark.parametrize("option", ROWS)
def test_the_table_has_the_default_of_an_option(option: str) -> None:
    default, listed = getattr(Settings(), option), ROWS[option]
    if default is None and not listed.startswith("`"):
        assert listed  # a description of what is chosen by default
    else:
        assert ast.literal_eval(listed.strip("`")) == default
