"""examples/database.py: the database can be looked at, and nothing in it changed."""

import json
import sqlite3
import sys
from pathlib import Path

import pytest

from dovetail import Client, RemoteError, TextContents, ToolFailed
from examples import database
from examples.database import MAX_ROWS, server


async def text_of(c: Client, uri: str) -> str:
    contents = (await c.read(uri)).contents[0]
    assert isinstance(contents, TextContents)
    return contents.text


async def test_queries_are_answered(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        found = await c.call("query", sql="SELECT title FROM books WHERE year > ?", values=[1850])
        assert found.data == {"columns": ["title"], "rows": [["Around the World in Eighty Days"]], "more": False}


async def test_the_schema_is_a_resource(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        assert json.loads(await text_of(c, "db://tables")) == ["authors", "books"]
        assert (await text_of(c, "db://tables/books")).startswith("CREATE TABLE books")
        with pytest.raises(RemoteError, match="there are authors, books"):
            await c.read("db://tables/nothing")


async def test_table_names_are_completed(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        assert (await c.complete("explore", "table", "bo")).values[0] == "books"
        assert (await c.complete("db://tables/{table}", "table", "au")).values[0] == "authors"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM books",
        "INSERT INTO authors VALUES (9, 'Nobody')",
        "DROP TABLE books",
        "CREATE TABLE new (id)",
        "CREATE TEMP TABLE new (id)",
        "ATTACH ':memory:' AS other",
        "PRAGMA writable_schema = 1",
        "SELECT 1; DELETE FROM books",
        "VACUUM INTO 'copy.db'",
        "nonsense",
    ],
)
async def test_nothing_else_than_reading_is_allowed(sql: str) -> None:
    async with Client(server) as c:
        with pytest.raises(ToolFailed, match="SQLite says"):
            await c.call("query", sql=sql)
        assert (await c.call("query", sql="SELECT count(*) FROM books")).data["rows"] == [[3]]


async def test_endless_queries_end_and_large_ones_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n {}) SELECT {} FROM n"
    async with Client(server) as c:
        many = (await c.call("query", sql=numbers.format("LIMIT 1000", "x"))).data
        assert len(many["rows"]) == MAX_ROWS and many["more"]
        monkeypatch.setattr(database, "SECONDS", 0.1)
        with pytest.raises(ToolFailed, match="interrupted"):
            await c.call("query", sql=numbers.format("", "count(*)"))


async def test_a_file_of_ones_own_is_served_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    with sqlite3.connect(file) as mine:
        mine.execute("CREATE TABLE mine (data BLOB)")
        mine.execute("INSERT INTO mine VALUES (x'00ff')")
    mine.close()
    before = file.read_bytes()
    async with Client([sys.executable, str(Path(database.__file__)), str(file)]) as c:
        assert (await c.call("query", sql="SELECT data FROM mine")).data["rows"] == [["(bytes)"]]
        with pytest.raises(ToolFailed):
            await c.call("query", sql="DELETE FROM mine")
    assert file.read_bytes() == before
