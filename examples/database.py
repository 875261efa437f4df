"""A SQLite database: its schema as resources, a tool for questions, and completion of table names.

    dovetail call examples/database.py query sql="SELECT * FROM books"

`python examples/database.py library.db` serves a database of yours; without a file there is a small one to play
with. Nothing can be changed: the file is opened for reading, and SQLite itself refuses every statement that does
something else.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dovetail import Context, NotFound, Param, Server, ToolError

MAX_ROWS = 200
SECONDS = 2.0
STEPS = 10_000  # instructions of SQLite's machine between two looks at the clock

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
SAMPLE = """
    CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL, year INTEGER, author INTEGER REFERENCES authors);
    INSERT INTO authors VALUES (1, 'Mary Shelley'), (2, 'Jules Verne');
    INSERT INTO books VALUES
        (1, 'Frankenstein', 1818, 1), (2, 'The Last Man', 1826, 1), (3, 'Around the World in Eighty Days', 1872, 2);
"""

NAMED = Path(sys.argv[1]).resolve(strict=True) if __name__ == "__main__" and len(sys.argv) > 1 else None

Cell = str | int | float | None


@contextlib.asynccontextmanager
async def open_database(_: Server) -> AsyncGenerator[Path]:
    """The file that was named, or one with a few books for as long as the server runs."""
    if NAMED is not None:
        yield NAMED
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library.db")
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.executescript(SAMPLE)
        yield file


server = Server("database", version="1.0.0", lifespan=open_database, instructions="Read db://tables first.")


@dataclass
class Rows:
    """What a query found."""

    columns: list[str]
    rows: list[list[Cell]]
    more: bool
    """There were more rows than are given here."""


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, and not for long."""
    with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        end = time.monotonic() + SECONDS
        database.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
        yield database


def _schemas(file: Path) -> dict[str, str]:
    with _reading(file) as database:
        found = database.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        return dict(found.fetchall())


def _cell(value: object) -> Cell:
    return value if isinstance(value, str | int | float | None) else "(bytes)"


@server.tool(read_only=True, concurrency=4)
def query(
    sql: Annotated[str, Param("One SELECT", max_length=10_000)],
    ctx: Context,
    values: Annotated[list[Cell] | None, Param("What the question marks in it stand for")] = None,
) -> Rows:
    """Ask the database something in SQL."""
    with _reading(ctx.lifespan) as database:
        try:
            cursor = database.execute(sql, values or [])
            rows = cursor.fetchmany(MAX_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning) as problem:
            raise ToolError(f"SQLite says: {problem}. Only one SELECT of at most {SECONDS:g} s is allowed.") from None
    columns = [column[0] for column in cursor.description or ()]
    return Rows(columns, [[_cell(value) for value in row] for row in rows[:MAX_ROWS]], len(rows) > MAX_ROWS)


@server.resource("db://tables", title="The tables")
def tables(ctx: Context) -> list[str]:
    """Give the names of all tables."""
    return list(_schemas(ctx.lifespan))


@server.resource("db://tables/{table}", mime_type="application/sql", title="The schema of a table")
def schema(table: str, ctx: Context) -> str:
    """Give the statement that made a table."""
    schemas = _schemas(ctx.lifespan)
    if table not in schemas:
        raise NotFound(f"There is no table {table!r}; there are {', '.join(schemas)}.")
    return schemas[table]


@server.prompt(title="Look into a table")
def explore(table: str) -> str:
    """Ask what there is to know about a table."""
    return f"Read db://tables/{table}, then use the tool query to tell me three things about what is in it."


@server.completion("db://tables/{table}", "table")
@server.completion("explore", "table")
def table_names(value: str, ctx: Context) -> list[str]:
    """Suggest tables; the server puts those first that fit what was typed."""
    return list(_schemas(ctx.lifespan))


if __name__ == "__main__":
    server.run()
