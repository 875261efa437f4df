"""Tables and JSON drawn with rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.json import JSON
from rich.table import Table
from rich.text import Text


def print_table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw a table; cells are plain text, never markup."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(Text(name), style="cyan" if index == 0 else "", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console(highlight=False).print(table)


def print_json(text: str) -> None:
    """Print JSON in colours."""
    Console().print(JSON(text))
